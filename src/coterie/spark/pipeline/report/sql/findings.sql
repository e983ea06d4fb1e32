SELECT severity, status, rule, group_id, topic, partition, evidence, next_step,
       count(*) OVER () AS all_of_them
FROM health
WHERE severity <> 'ok'
ORDER BY CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, rule, group_id,
         topic, partition
LIMIT 50
