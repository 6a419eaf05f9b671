-- begin: the step right before a request is written.
-- ARGV: a batch of (lane, lease id, delivery id, how many deliveries, route digest, pace limit, pace window ms, lease ms).
-- Answers each { word, ms }: what shared/begin.lua says, or `lost` (the lease is another's or over, or the head another).
return each(function(lane, lease, delivery, merged, route, limit, window_ms, lease_ms)
  local lease_end = tonumber(redis.call('ZSCORE', K.leases('out'), lane)) or 0
  if lease_end <= now or not is_held('out', lane, lease) then
    return { 'lost', 0 }
  end
  local head = head_of(lane)
  merged = tonumber(merged)
  if not head or head.id ~= delivery or merged > 1 and merged > redis.call('LLEN', K.list('out', lane)) then
    return { 'lost', 0 }
  end
  local begun, wait = begin_head(lane, lease, delivery, merged, route, limit, window_ms, lease_ms)
  return { begun, wait }
end)
