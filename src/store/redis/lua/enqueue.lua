-- enqueue: puts messages at the end of their lanes, unless their mark says that they are known.
-- ARGV: a batch of (lane, key, request_id, ms until it is too old, mark ttl ms, the lane's limit, the
-- shard's limit, whether the call may be a repeat, message JSON).
-- Answers each: `stored` (also when it was already), `duplicate`, `full` (the lane), `store_full` (the shard).

-- Whether the same request stands among the lane's last entries: its enqueue is being repeated. A repeat that comes
-- when more have followed is stored twice, and its second copy is dropped silently at its claim.
local function waits_already(list, request_id, key)
  for _, entry in ipairs(redis.call('LRANGE', list, -8, -1)) do
    local waiting = read_message(entry)
    if waiting.request_id == request_id and waiting.key == key then return true end
  end
  return false
end

return each(function(lane, key, request_id, fresh_ms, mark_ttl, lane_limit, shard_limit, repeated, message)
  local mark = redis.call('GET', K.mark(key))
  if mark and mark ~= request_id then
    return tell_duplicate(mark, request_id, key) and 'duplicate' or 'stored'
  end
  local list = K.list('in', lane)
  local depth = redis.call('LLEN', list)
  if mark or repeated == '1' and depth > 0 and waits_already(list, request_id, key) then
    return 'stored'
  end
  if depth >= tonumber(lane_limit) then
    return 'full'
  end
  if is_shard_full(tonumber(shard_limit)) then
    return 'store_full'
  end
  local header = table.concat({ request_id, digits(now + tonumber(fresh_ms)), mark_ttl, key }, ' ')
  redis.call('RPUSH', list, header .. '\n' .. message)
  waits(1)
  journal('accepted\t' .. request_id .. '\t' .. key .. '\t{}')
  if not redis.call('ZSCORE', K.leases('in'), lane) then
    make_ready('in', K.ready('in'), lane)
  end
  return 'stored'
end)
