SELECT family, count(*) AS groups, max(idle_seconds) AS longest_idle,
       count(*) OVER () AS all_of_them
FROM stale_groups
WHERE family IS NOT NULL
GROUP BY family
ORDER BY groups DESC, family
LIMIT 10
