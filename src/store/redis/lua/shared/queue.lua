-- Puts replies, or a push, at the end of a chat's lane.
local function has_room(lane, count, depth_limit)
  return count == 0 or redis.call('LLEN', K.list('out', lane)) + count <= tonumber(depth_limit)
end

-- A push as it stands in its lane: its header tells how many pushes in a row end with it.
local function in_a_row(lane, entry)
  local before = redis.call('LINDEX', K.list('out', lane), -1)
  return (entry:gsub('\n', (before and pushes_up_to(before) or 0) + 1 .. '\n', 1))
end

-- The first `count` of the values are the entries, the others journal lines. More than one entry are replies.
local function queue_replies(lane, weight, head_start_ms, count, ...)
  journal_from(count + 1, ...)
  if count == 0 then return end
  local entries = { unpack({ ... }, 1, count) }
  local is_push = entries[count]:find('^[^\n]* push\n')
  if is_push then
    entries[count] = in_a_row(lane, entries[count])
  end
  local depth = redis.call('RPUSH', K.list('out', lane), unpack(entries))
  waits(count)
  local ahead = remember_turn(lane, weight, head_start_ms)
  if redis.call('ZSCORE', K.leases('out'), lane) or redis.call('ZSCORE', K.parked, lane) then return end
  if not is_push then
    -- One that waited with pushes alone goes with the replies from now on.
    if make_ready('out', K.ready('out'), lane, ahead) and depth > count then
      redis.call('ZREM', K.ready_push, lane)
    end
  elseif depth == count or not redis.call('ZSCORE', K.ready('out'), lane) then
    make_ready('out', K.ready_push, lane, ahead)
  end
end
