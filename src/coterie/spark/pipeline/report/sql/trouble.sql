WITH newest AS (
  SELECT max(taken_at) AS taken_at
  FROM (SELECT taken_at FROM groups UNION ALL SELECT taken_at FROM errors)),
found AS (
  SELECT 'not answered' AS what, concat(scope, ' ', name) AS place, error AS reason,
         cast(NULL AS timestamp) AS read_until, taken_at AS at
  FROM errors JOIN newest USING (taken_at)
  UNION ALL
  SELECT CASE kind WHEN 'failed' THEN 'not read' WHEN 'waiting' THEN 'held back'
                   WHEN 'open' THEN 'not ended' ELSE kind END,
         concat('partition ', partition, ' of the log'), reason, read_until, since
  FROM gaps
  UNION ALL
  SELECT 'not readable', concat('partition ', partition, ', offset ', offset), reason, NULL, timestamp
  FROM quarantine)
SELECT *, count(*) OVER () AS all_of_them
FROM found
ORDER BY what = 'not readable', at DESC, place
LIMIT 50
