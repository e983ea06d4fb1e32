SELECT date_trunc('HOUR', completed_at) AS hour, cause, count(*) AS rebalances
FROM rebalances
WHERE rebalanced
  AND completed_at > (SELECT max(as_of) FROM group_summary) - INTERVAL 24 HOURS
GROUP BY 1, 2
ORDER BY 1, 2
