-- The common part of both claims. ARGV: how long a lease lasts (ms), how many crashes of its workers a message outlives,
-- then a fresh lease id for each lane wanted.
-- Answers { ms until time alone may make a lane workable or -1, { one item a leased lane },
-- { `request_id key` of each message that this call ended as poison } }.
local poisoned = {}

-- So many ended leases and due parkings are looked at in one call; the rest is left to the next.
local SWEEP = 64

local function due(key)
  return redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, SWEEP)
end

local function sweep(side)
  for _, lane in ipairs(due(K.leases(side))) do
    redis.call('ZREM', K.leases(side), lane)
    requeue(side, lane)
  end
  if side == 'out' then
    for _, lane in ipairs(due(K.parked)) do
      redis.call('ZREM', K.parked, lane)
      requeue(side, lane)
    end
  end
end

local function next_wake(side)
  local first = math.huge
  for _, key in ipairs(side == 'out' and { K.leases(side), K.parked } or { K.leases(side) }) do
    local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    first = math.min(first, tonumber(head[2]) or math.huge)
  end
  return first < math.huge and math.max(0, first - now) or -1
end

-- `open` looks at a leased lane and answers its item, or nothing when the lane has none. It is told whether the lane
-- still had a holder: that lease ended with neither a settle nor a release. A lane that can't be read stays leased and is
-- tried again when that ends, so that it can't stop the others.
local function claim(side, open)
  local lease_ms, items, at = tonumber(ARGV[1]), {}, 3
  sweep(side)
  while at <= #ARGV do
    local lane = redis.call('ZPOPMIN', K.ready(side))[1]
    if not lane then break end
    redis.call('ZADD', K.leases(side), now + lease_ms, lane)
    local crashed = redis.call('HSET', K.holders(side), lane, ARGV[at]) == 0
    local fine, item, stop = pcall(open, lane, ARGV[at], crashed)
    if fine and item then
      items[#items + 1] = item
      at = at + 1
    end
    if fine and stop then break end
  end
  leave_behind()
  return { next_wake(side), items, poisoned }
end
