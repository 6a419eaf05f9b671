-- operate: ends a delivery by hand, once.
-- ARGV: a batch of (chat's lane, delivery id, operation id, ms it is known, a push's change as shared/push.lua says, weight, head start ms, depth limit, number of
-- replies in its place, replies…, lines…).
-- Answers each: `done` (also when this very operation did it before), `earlier` (another did), `full`.
return each(function(lane, delivery, operation, keep_ms, change, weight, head_start, depth_limit, count, ...)
  local by = redis.call('GET', K.op(delivery))
  if by then
    return by == operation and 'done' or 'earlier'
  end
  count = tonumber(count)
  if not has_room(lane, count, depth_limit) then
    return 'full'
  end
  redis.call('SET', K.op(delivery), operation, 'PX', keep_ms)
  change_child(lane, change)
  queue_replies(lane, weight, head_start, count, ...)
  return 'done'
end)
