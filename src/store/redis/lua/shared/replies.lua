-- Entry of an outbound lane: `delivery_id expires_ms route_digest received_ms`; where it is never carried together with
-- others ` apart`, or ` push` and how many pushes in a row end with it; newline, the delivery as JSON.
local function read_reply(entry)
  local id, expires, route, received, apart = entry:match('^(%S+) (%-?%d+) (%S*) (%-?%d+)( ?%a*)%d*\n')
  return {
    id = id, expires = tonumber(expires), route = route, received = tonumber(received), apart = apart ~= '', entry = entry,
  }
end

local function head_of(lane)
  local entry = redis.call('LINDEX', K.list('out', lane), 0)
  return entry and read_reply(entry)
end

-- What was tried with the head: `delivery_id lease attempts refusals`, where lease is the one that began an attempt and
-- has not settled it, or `-`; then ` merged` where that attempt carries several. Bound to the delivery: another head starts
-- from nothing.
local function read_tries(lane, delivery)
  local text = redis.call('HGET', K.tries, lane) or ''
  local id, lease, attempts, refusals, merged = text:match('^(%S+) (%S+) (%d+) (%d+) ?(%d*)$')
  if id ~= delivery then
    return { begun_by = '-', attempts = 0, refusals = 0, merged = 1 }
  end
  return {
    begun_by = lease, attempts = tonumber(attempts), refusals = tonumber(refusals), merged = tonumber(merged) or 1,
  }
end

local function write_tries(lane, delivery, tries)
  local text = table.concat({ delivery, tries.begun_by, tries.attempts, tries.refusals }, ' ')
  redis.call('HSET', K.tries, lane, tries.merged > 1 and text .. ' ' .. tries.merged or text)
end

-- The first `count` entries of a lane but its head.
local function behind_head(lane, count)
  return count > 1 and redis.call('LRANGE', K.list('out', lane), 1, count - 1) or {}
end

-- Those that may leave together with the head of a lane that pace held back.
local MOST_MERGED = 32
local function may_join(lane, head)
  local joining = {}
  for _, entry in ipairs(head.apart and {} or behind_head(lane, MOST_MERGED)) do
    if read_reply(entry).apart then break end
    joining[#joining + 1] = entry
  end
  return joining
end

local function failures_of(lane)
  return tonumber(redis.call('HGET', K.chat(lane), 'failures')) or 0
end

-- By how many ms the lane goes before others now. An operator's weight wins over the configured one.
local function remember_turn(lane, weight, head_start_ms)
  weight = tonumber(redis.call('HGET', K.chat(lane), 'weight')) or tonumber(weight)
  local ahead = weight * tonumber(head_start_ms)
  redis.call('HSET', K.ahead, lane, digits(ahead))
  return ahead
end
