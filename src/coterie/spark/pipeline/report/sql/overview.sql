SELECT count(*)                        AS groups,
       sum(coalesce(members, 0))       AS members,
       count_if(max_lag_seconds > 300) AS groups_behind,
       sum(coalesce(total_lag, 0))     AS total_lag,
       max(as_of)                      AS as_of
FROM group_summary
