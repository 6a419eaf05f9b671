-- claim_messages: leases inbound lanes, longest waiting first, and sets the marks of their heads.
-- ARGV: lease ms, how many crashes of its workers a message outlives, lease ids. Answer: see shared/claim.lua. Item: lane, lease id, entry, 1 when its mark already held its own id, 1 when its
-- chat is muted, turns, vars, when the session was last forgotten.

-- Most heads dropped in one call; a lane with more is given back and the claim ends, for the next call to go on.
local MOST_DROPPED = 256
local drops_left = MOST_DROPPED

-- Counts a lease of this head that ended with neither a commit nor a release; answers whether that was one too many.
-- Bound to the request: another head starts from nothing.
local function is_poison(lane, request_id)
  local counted = redis.call('HGET', K.holders('in'), crashes_field(lane)) or ''
  local id, crashes = counted:match('^(%S+) (%d+)$')
  crashes = (id == request_id and tonumber(crashes) or 0) + 1
  redis.call('HSET', K.holders('in'), crashes_field(lane), request_id .. ' ' .. crashes)
  return crashes >= tonumber(ARGV[2])
end

-- Ends a message unhandled.
local function give_up(message, detail)
  finish_mark(message.key, message.request_id, message.mark_ttl)
  journal('expired\t' .. message.request_id .. '\t' .. message.key .. '\t' .. detail)
end

-- Takes the mark for a head, or drops the head: `fresh`, `again`, or nothing.
local function take_mark(lane, message, crashed)
  local key = K.mark(message.key)
  local mark = redis.call('GET', key)
  if mark and mark ~= message.request_id then
    tell_duplicate(mark, message.request_id, message.key)
    return nil
  end
  if message.expires < now then
    give_up(message, '{"reason":"too_old"}')
    return nil
  end
  if crashed and is_poison(lane, message.request_id) then
    give_up(message, '{"outcome":"dead","reason":"poison"}')
    poisoned[#poisoned + 1] = message.request_id .. ' ' .. message.key
    return nil
  end
  redis.call('SET', key, message.request_id, 'PX', message.mark_ttl)
  return mark and 'again' or 'fresh'
end

local function next_lane()
  return pop(K.ready('in'))
end

return claim('in', 3, next_lane, function(lane, lease, crashed)
  local list = K.list('in', lane)
  while drops_left > 0 do
    local entry = redis.call('LINDEX', list, 0)
    if not entry then break end
    local message = read_message(entry)
    local taken = take_mark(lane, message, crashed)
    if taken then
      local name = message.key:match('^(.*):')
      local muted = redis.call('HGET', K.chat(message.key:match('^[^:]*:[^:]*')), 'muted')
      return { lane, lease, entry, taken == 'again' and 1 or 0, muted and 1 or 0, remembered(name) }
    end
    redis.call('LPOP', list)
    waits(-1)
    crashed = false
    drops_left = drops_left - 1
  end
  give_back('in', lane)
  return nil, drops_left == 0
end)
