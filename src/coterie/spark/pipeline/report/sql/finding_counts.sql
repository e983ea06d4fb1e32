SELECT severity, rule, count(*) AS findings, count(DISTINCT group_id) AS groups
FROM health
WHERE severity <> 'ok'
GROUP BY severity, rule
ORDER BY CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, findings DESC, rule
