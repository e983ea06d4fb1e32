SELECT group_id,
       sum(1 + CASE group_type WHEN 'classic' THEN coalesce(hidden_before, 0) ELSE 0 END) AS rebalances,
       count_if(storm) AS in_storms,
       mode(cause, true) AS most_frequent_cause, sum(coalesce(partitions_moved, 0)) AS moved,
       avg(stickiness) AS stickiness, max(completed_at) AS last,
       count(*) OVER () AS all_of_them
FROM rebalances
WHERE rebalanced
  AND completed_at >= (SELECT max(as_of) FROM last_build) - INTERVAL 24 HOURS
GROUP BY group_id
ORDER BY rebalances DESC, group_id
LIMIT 15
