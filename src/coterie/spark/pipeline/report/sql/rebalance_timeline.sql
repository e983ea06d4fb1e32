WITH recent AS (
  SELECT *
  FROM rebalances
  WHERE rebalanced
    AND completed_at >= (SELECT max(as_of) FROM last_build) - INTERVAL 24 HOURS),
busiest AS (
  SELECT group_id, count(*) AS marks,
         sum(1 + CASE group_type WHEN 'classic' THEN coalesce(hidden_before, 0) ELSE 0 END)
           AS rebalances
  FROM recent
  GROUP BY group_id
  ORDER BY rebalances DESC, group_id
  LIMIT 12),
newest_first AS (
  SELECT *, row_number() OVER (PARTITION BY group_id ORDER BY completed_at DESC, generation DESC)
            AS place
  FROM recent JOIN busiest USING (group_id))
SELECT group_id, completed_at, generation, cause, member_count AS members, size(joined) AS joined,
       size(left) AS left, partitions_moved, duration_seconds, storm, rebalances, marks
FROM newest_first
WHERE place <= 200
ORDER BY group_id, completed_at, generation
