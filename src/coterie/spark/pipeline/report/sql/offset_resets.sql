SELECT time, group_id, topic, partition, from_offset, to_offset, moved_back, by, client_id,
       count(*) OVER () AS all_of_them
FROM offset_resets
ORDER BY time DESC, group_id, topic, partition
LIMIT 15
