WITH known AS (
  SELECT group_summary.*, stale_groups.group_id IS NULL AS used
  FROM group_summary LEFT JOIN stale_groups ON group_summary.group_id = stale_groups.group_id)
SELECT count(*)                                      AS groups,
       sum(coalesce(members, 0))                     AS members,
       count_if(used AND max_lag_seconds > 300)      AS groups_behind,
       sum(CASE WHEN used THEN total_lag ELSE 0 END) AS total_lag,
       max(as_of)                                    AS as_of
FROM known
