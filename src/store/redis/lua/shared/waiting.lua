-- How many messages and deliveries wait in the shard: one number, changed by what each call leaves behind.
--
-- It is counted from the lanes where there is none (a first start, a key that vanished) and where it says that the shard
-- is full, because lanes that vanished are still in it; the latter once in ten seconds. Only so many lanes are looked at:
-- in a larger shard they stand for the others.
local LOOKED_AT, COUNT_HOLDS_MS = 10000, 10000

local function count_set(side, key)
  local lanes = redis.call('ZRANGE', key, 0, LOOKED_AT - 1)
  if #lanes == 0 then return 0 end
  local sum = 0
  for _, lane in ipairs(lanes) do
    sum = sum + redis.call('LLEN', K.list(side, lane))
  end
  return sum / #lanes * redis.call('ZCARD', key)
end

local function count_waiting()
  -- First of all a write that a full server refuses: what follows it is refused nothing.
  redis.call('SET', K.recounted, 1, 'PX', COUNT_HOLDS_MS)
  local sum = count_set('out', K.parked) + count_set('out', K.ready_push)
  for _, side in ipairs({ 'in', 'out' }) do
    sum = sum + count_set(side, K.ready(side)) + count_set(side, K.leases(side))
  end
  -- What this call brought is in the lanes already, and is added once more at its end.
  local before = math.floor(sum + 0.5) - waiting_more
  redis.call('DEL', K.waiting)
  redis.call('ZADD', K.waiting, before, 'n')
  return before
end

-- As this call found it.
local waiting_before

local function is_shard_full(limit)
  waiting_before = waiting_before or tonumber(redis.pcall('ZSCORE', K.waiting, 'n')) or count_waiting()
  if waiting_before + waiting_more >= limit and redis.call('EXISTS', K.recounted) == 0 then
    waiting_before = count_waiting()
  end
  return waiting_before + waiting_more >= limit
end
