SELECT coalesce(state, 'Unknown') AS state, coalesce(type, 'unknown') AS type,
       count(*) AS groups
FROM group_summary
GROUP BY 1, 2
ORDER BY groups DESC, state, type
