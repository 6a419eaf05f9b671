-- The common part of both claims. ARGV[1]: how long a lease lasts (ms).
-- Answers { ms until time alone may make a lane workable or -1, 0 where `open` ended the claim, { one item a leased lane },
-- { `request_id key` of each message that this call ended as poison } }.
local poisoned = {}

-- So many ended leases and due parkings are looked at in one call; the rest is left to the next.
local SWEEP = 64

local function nearest(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or math.huge
end

-- Makes lanes ready that are set aside until a time so far off that the clock must have gone back since. Leases that somebody
-- holds are left alone: they are renewed.
local function bring_back(side, key)
  local far = '(' .. digits(now + LONGEST_ASIDE_MS)
  for _, lane in ipairs(redis.call('ZRANGEBYSCORE', key, far, '+inf', 'LIMIT', 0, SWEEP)) do
    if redis.call('HEXISTS', K.holders(side), lane) == 0 then
      redis.call('ZREM', key, lane)
      requeue(side, lane)
    end
  end
end

-- Makes the lanes of a set ready whose time has come; answers when that of the next one comes.
local function sweep(side, key)
  bring_back(side, key)
  local first = nearest(key)
  if first > now then return first end
  for _, lane in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, SWEEP)) do
    redis.call('ZREM', key, lane)
    requeue(side, lane)
  end
  return nearest(key)
end

-- The lane of a ready set whose turn is first.
local function pop(ready)
  return redis.call('ZPOPMIN', ready)[1]
end

-- For each of ARGV from the `first` on, a fresh lease id, leases a lane. `next_lane` names it. `open` looks at it and
-- answers its item, or nothing when the lane has none. It is told whether the lane still had a holder: that lease ended
-- with neither a settle nor a release. Its second answer ends the claim, which is to be asked for again at once. A lane that
-- can't be read stays leased and is tried again when that ends, so that it can't stop the others.
local function claim(side, first, next_lane, open)
  local lease_ms, items, at = tonumber(ARGV[1]), {}, first
  local wake = sweep(side, K.leases(side))
  if side == 'out' then
    wake = math.min(wake, sweep(side, K.parked))
  end
  while at <= #ARGV do
    local lane = next_lane()
    if not lane then break end
    redis.call('ZADD', K.leases(side), now + lease_ms, lane)
    local crashed = redis.call('HSET', K.holders(side), lane, ARGV[at]) == 0
    local fine, item, stop = pcall(open, lane, ARGV[at], crashed)
    if item then
      wake = math.min(wake, now + lease_ms)
    end
    if fine and item then
      items[#items + 1] = item
      at = at + 1
    end
    if fine and stop then
      wake = now
      break
    end
  end
  leave_behind()
  return { wake < math.huge and math.max(0, wake - now) or -1, items, poisoned }
end
