SELECT date_trunc('HOUR', completed_at) AS hour, cause,
       sum(1 + CASE group_type WHEN 'classic' THEN coalesce(hidden_before, 0) ELSE 0 END) AS rebalances
FROM rebalances
WHERE rebalanced
  AND completed_at >= (SELECT max(as_of) FROM last_build) - INTERVAL 24 HOURS
GROUP BY 1, 2
ORDER BY 1, 2
