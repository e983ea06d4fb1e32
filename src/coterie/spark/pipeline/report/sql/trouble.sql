SELECT 'not answered' AS what, concat(scope, ' ', name) AS place, error AS reason,
       taken_at AS at
FROM errors
WHERE taken_at = (SELECT max(taken_at) FROM errors)
UNION ALL
SELECT 'not readable', concat('partition ', partition, ', offset ', offset), reason, timestamp
FROM quarantine
ORDER BY at DESC, place
LIMIT 50
