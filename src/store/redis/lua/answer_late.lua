-- answer_late: queues a late answer, once per seq, into the chat of the message that waits for it and no other.
-- ARGV: a batch of (request_id, chat's lane, seq, weight, head start ms, depth limit, number of replies, replies…, lines…).
-- Answers each: `queued`, `repeat`, `not_waiting`, `full`.
return each(function(request_id, lane, seq, weight, head_start, depth_limit, count, ...)
  local late = K.late(request_id)
  if redis.call('HGET', late, 'chat') ~= lane then
    return 'not_waiting'
  end
  if redis.call('HEXISTS', late, 'seq:' .. seq) == 1 then
    return 'repeat'
  end
  if not has_room(lane, tonumber(count), depth_limit) then
    return 'full'
  end
  redis.call('HSET', late, 'seq:' .. seq, 1)
  queue_replies(lane, weight, head_start, tonumber(count), ...)
  return 'queued'
end)
