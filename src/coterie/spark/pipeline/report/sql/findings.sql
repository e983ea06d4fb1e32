WITH found AS (
  SELECT health.*, CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END AS level,
         CASE rule WHEN 'data_loss' THEN lag.lost_records ELSE lag.lag END AS size
  FROM health LEFT JOIN lag
    ON health.group_id = lag.group_id AND health.topic = lag.topic AND health.partition = lag.partition
  WHERE severity <> 'ok'),
per_rule AS (
  SELECT group_id, rule, count(partition) AS partitions, count(DISTINCT topic) AS topics,
         min_by(struct(level, severity, status, topic, partition, evidence, next_step),
                struct(level, partition IS NULL, coalesce(-size, 1), topic, partition)) AS worst
  FROM found
  GROUP BY group_id, rule),
behind AS (
  SELECT group_id, sum(lag) AS total_lag
  FROM lag
  GROUP BY group_id),
stale AS (
  SELECT group_id, true AS is_stale
  FROM stale_groups)
SELECT worst.severity, worst.status, rule, group_id, worst.topic, worst.partition, partitions, topics,
       total_lag, worst.evidence, worst.next_step, coalesce(is_stale, false) AS stale,
       count(*) OVER () AS all_of_them
FROM per_rule LEFT JOIN behind USING (group_id) LEFT JOIN stale USING (group_id)
ORDER BY stale, worst.level, rule <> 'data_loss', total_lag DESC NULLS LAST, group_id, rule
LIMIT 50
