-- waiting: what the message that waits for its late answer is.
-- ARGV: a batch of (request_id, chat's lane). Answers each: { key, received ms, expires ms }, or nil.
return each(function(request_id, lane)
  local chat, key, received, expires = unpack(redis.call('HMGET', K.late(request_id), 'chat', 'key', 'received', 'expires'))
  return chat == lane and { key, received, expires }
end)
