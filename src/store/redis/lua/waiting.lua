-- waiting: what the message that waits for its late answer is.
-- ARGV: a batch of (request_id, chat's lane). Answers each: { key, received ms, expires ms, reply_to, answers taken }, or nil.
return each(function(request_id, lane)
  local late = K.late(request_id)
  local chat, key, received, expires, reply_to =
    unpack(redis.call('HMGET', late, 'chat', 'key', 'received', 'expires', 'reply_to'))
  if chat ~= lane then return false end
  local fixed = reply_to and 5 or 4
  return { key, received, expires, reply_to or '{}', redis.call('HLEN', late) - fixed }
end)
