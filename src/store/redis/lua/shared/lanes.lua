-- Where a lane stands. It is in at most one of ready, ready_push (an outbound lane of pushes alone), leases and parked. Its holder (the last lease id) stays until the
-- lane is claimed again or given back: so an ended lease still finishes as long as nobody else took the lane.
local function is_held(side, lane, lease)
  return redis.call('HGET', K.holders(side), lane) == lease
end

-- The field of `in:holders` that counts crashes of workers: no lane begins like this.
local function crashes_field(lane)
  return '#' .. lane
end

-- By how many ms a chat's lane goes before others; kept beside the lane for the steps that don't know its weight.
local function ahead_of_others(side, lane)
  return side == 'out' and tonumber(redis.call('HGET', K.ahead, lane)) or 0
end

-- How many pushes in a row end with this entry of an outbound lane; none do with a reply.
local function pushes_up_to(entry)
  return tonumber(entry:match('^[^\n]* push(%d+)\n')) or 0
end

-- Whether an outbound lane with this head holds pushes alone: a single reply makes it a reply's lane.
local function is_of_pushes(lane, head)
  if pushes_up_to(head) == 0 then return false end
  local list = K.list('out', lane)
  return pushes_up_to(redis.call('LINDEX', list, -1)) >= redis.call('LLEN', list)
end

-- Subscribers hear of a set that was empty; one that wasn't is being worked already. Answers whether the lane is new in it.
local function make_ready(side, ready, lane, ahead)
  local turn = next_turn() - (ahead or ahead_of_others(side, lane))
  if redis.call('ZADD', ready, 'NX', turn, lane) == 0 then return false end
  if redis.call('ZCARD', ready) == 1 then
    redis.call('PUBLISH', WAKE, side)
  end
  return true
end

-- A lane that nobody works any more: ready when it holds something (answers so), else forgotten with its holder. One that
-- can't be read is ready too: whoever claims it finds out.
local function requeue(side, lane)
  local head = redis.pcall('LINDEX', K.list(side, lane), 0)
  if head then
    local of_pushes = side == 'out' and type(head) == 'string' and is_of_pushes(lane, head)
    make_ready(side, of_pushes and K.ready_push or K.ready(side), lane)
    return true
  end
  redis.call('HDEL', K.holders(side), lane, crashes_field(lane))
  if side == 'out' then
    redis.call('HDEL', K.tries, lane)
    redis.call('HDEL', K.ahead, lane)
  end
end

-- An ended lease may have gone from leases to a ready set already.
local function leave_work(side, lane)
  if redis.call('ZREM', K.leases(side), lane) == 0 and redis.call('ZREM', K.ready(side), lane) == 0 and side == 'out' then
    redis.call('ZREM', K.ready_push, lane)
  end
end

local function give_back(side, lane)
  leave_work(side, lane)
  if requeue(side, lane) then
    redis.call('HDEL', K.holders(side), lane)
  end
end

local function prolong(side, lane, lease_ms)
  redis.call('ZREM', K.ready(side), lane)
  if redis.call('ZADD', K.leases(side), now + lease_ms, lane) == 1 and side == 'out' then
    redis.call('ZREM', K.ready_push, lane)
  end
end

-- Clears a chat's dead mark, and with it what it died of. Answers 1 when it was dead, else 0.
local function revive(lane)
  local was_dead = redis.call('HDEL', K.chat(lane), 'dead')
  if was_dead == 1 then
    redis.call('HDEL', K.chat(lane), 'last_error')
  end
  return was_dead
end

-- No lane is set aside for longer.
local LONGEST_ASIDE_MS = 3600000

-- Sets an outbound lane aside, also an empty one: what comes in meanwhile waits too.
local function park(lane, wait_ms, why)
  leave_work('out', lane)
  redis.call('HDEL', K.holders('out'), lane)
  redis.call('ZADD', K.parked, now + math.min(wait_ms, LONGEST_ASIDE_MS), lane)
  redis.call('HSET', K.chat(lane), 'why', why)
end
