-- Puts replies at the end of a chat's lane.
local function has_room(lane, count, depth_limit)
  return count == 0 or redis.call('LLEN', K.list('out', lane)) + count <= tonumber(depth_limit)
end

-- The first `count` of the values are the entries, the others journal lines.
local function queue_replies(lane, weight, head_start_ms, count, ...)
  journal_from(count + 1, ...)
  if count == 0 then return end
  redis.call('RPUSH', K.list('out', lane), unpack({ ... }, 1, count))
  waits(count)
  local ahead = remember_turn(lane, weight, head_start_ms)
  if not redis.call('ZSCORE', K.leases('out'), lane) and not redis.call('ZSCORE', K.parked, lane) then
    make_ready('out', lane, ahead)
  end
end
