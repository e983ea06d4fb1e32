WITH behind AS (
  SELECT group_id, max(lag_seconds) AS lag_seconds, bool_or(at_least) AS at_least, sum(lag) AS lag,
         max_by(concat(topic, '-', partition), struct(lag_seconds, lag, topic, partition))
           AS worst_partition,
         count_if(lag > 0) AS lagging_partitions, count(*) AS partitions,
         sum(lost_records) AS lost_records
  FROM lag
  WHERE group_id NOT IN (SELECT group_id FROM stale_groups)
  GROUP BY group_id
  HAVING sum(lag) > 0)
SELECT *, count(*) OVER () AS all_of_them
FROM behind
ORDER BY lag_seconds DESC NULLS LAST, lag DESC, group_id
LIMIT 15
