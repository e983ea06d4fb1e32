SELECT group_id, state, idle_seconds, last_commit, last_member, offsets, total_lag, family,
       family_size, expires_at, count(*) OVER () AS all_of_them
FROM stale_groups
ORDER BY idle_seconds DESC NULLS LAST, group_id
LIMIT 50
