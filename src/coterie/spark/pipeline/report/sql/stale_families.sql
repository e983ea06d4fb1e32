SELECT family, count(*) AS groups, max(idle_seconds) AS longest_idle
FROM stale_groups
WHERE family IS NOT NULL
GROUP BY family
ORDER BY groups DESC, family
LIMIT 10
