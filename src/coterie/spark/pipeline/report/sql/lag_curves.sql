WITH per_group AS (
  SELECT group_id, time AS at, sum(lag) AS lag, max(max_lag_seconds) AS lag_seconds,
         bool_or(at_least) AS at_least
  FROM lag_history
  WHERE group_id IN (SELECT group_id FROM group_summary WHERE member_count > 0)
  GROUP BY group_id, time),
worst AS (
  SELECT group_id, max(lag_seconds) AS peak, max(lag) AS most
  FROM per_group
  GROUP BY group_id
  HAVING peak > 0
  ORDER BY peak DESC, most DESC, group_id
  LIMIT 6)
SELECT group_id, at, lag, lag_seconds, at_least
FROM per_group JOIN worst USING (group_id)
ORDER BY group_id, at
