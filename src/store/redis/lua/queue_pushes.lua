-- queue_pushes: queues deliveries of push tasks, each once.
-- ARGV: a batch of (chat's lane, task, delivery id, its state as JSON, ms it is known, weight, head start ms, depth limit,
-- the shard's limit, `1` with the delivery or `0` where it ended before it began, lines…).
-- Answers each: `queued`, `known`, `full` (the lane), `store_full` (the shard).
return each(function(lane, task, delivery, state, keep_ms, weight, head_start, depth_limit, shard_limit, count, ...)
  if redis.call('HEXISTS', K.push(task), delivery) == 1 then
    return 'known'
  end
  count = tonumber(count)
  if not has_room(lane, count, depth_limit) then
    return 'full'
  end
  if count > 0 and is_shard_full(tonumber(shard_limit)) then
    return 'store_full'
  end
  write_child(task, delivery, lane, state)
  redis.call('PEXPIRE', K.push(task), keep_ms)
  queue_replies(lane, weight, head_start, count, ...)
  return 'queued'
end)
