WITH recent AS (
  SELECT *
  FROM rebalances
  WHERE rebalanced
    AND completed_at > (SELECT max(as_of) FROM group_summary) - INTERVAL 24 HOURS),
busiest AS (
  SELECT group_id, count(*) AS rebalances
  FROM recent
  GROUP BY group_id
  ORDER BY rebalances DESC, group_id
  LIMIT 12)
SELECT group_id, completed_at, generation, cause, members, size(joined) AS joined,
       size(left) AS left, partitions_moved, duration_seconds, storm
FROM recent JOIN busiest USING (group_id)
ORDER BY group_id, completed_at, generation
LIMIT 2000
