WITH per_group AS (
  SELECT group_id, time AS at, sum(lag) AS lag, max(max_lag_seconds) AS lag_seconds,
         bool_or(at_least) AS at_least
  FROM lag_history
  WHERE group_id NOT IN (SELECT group_id FROM stale_groups)
  GROUP BY group_id, time),
worst AS (
  SELECT group_id, max(lag) AS most
  FROM per_group
  GROUP BY group_id
  HAVING most > 0
  ORDER BY most DESC, group_id
  LIMIT 6)
SELECT group_id, at, lag, lag_seconds, at_least
FROM per_group JOIN worst USING (group_id)
ORDER BY group_id, at
