-- chats: what chats' lanes look like from outside.
-- ARGV: a batch of (chat's lane). Answers each: { depth, oldest received ms or nil, 1 when leased, why parked or nil,
-- ms still parked, paused, muted, route by which it is dead or nil, an operator's weight or nil, last error or nil }.
return each(function(lane)
  local head = head_of(lane)
  local leased = (tonumber(redis.call('ZSCORE', K.leases('out'), lane)) or 0) > now
  local wake = tonumber(redis.call('ZSCORE', K.parked, lane))
  local why, paused, muted, dead, weight, last_error =
    unpack(redis.call('HMGET', K.chat(lane), 'why', 'paused', 'muted', 'dead', 'weight', 'last_error'))
  return {
    redis.call('LLEN', K.list('out', lane)),
    head and head.received,
    leased and 1 or 0,
    wake and (why or 'held') or false,
    wake and math.max(0, wake - now) or 0,
    paused == '1' and 1 or 0,
    muted and 1 or 0,
    dead,
    weight,
    last_error,
  }
end)
