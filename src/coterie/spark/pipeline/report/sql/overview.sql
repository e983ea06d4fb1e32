WITH known AS (
  SELECT group_summary.*, stale_groups.group_id IS NULL AS used
  FROM group_summary LEFT JOIN stale_groups ON group_summary.group_id = stale_groups.group_id)
SELECT count(*)                                                   AS groups,
       coalesce(sum(member_count), 0)                             AS members,
       count_if(used AND max_lag_seconds > 300)                   AS groups_behind,
       coalesce(sum(CASE WHEN used THEN total_lag ELSE 0 END), 0) AS total_lag,
       (SELECT max(as_of) FROM last_build)                        AS as_of
FROM known
