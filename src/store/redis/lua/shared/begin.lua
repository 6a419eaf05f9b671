-- The step right before a request is written, which carries `merged` deliveries from the head of a lane that is ours.
-- Answers `go` (attempt marked, place in the window taken; after the ms also what was tried with the head), `dead` (by this
-- very route; the lease stays), or, with the lane parked and the lease given back, `paused` or `paced` and for how many ms.
local PAUSE_MS = 60000

-- Kept longer than the window, because a delivery moves its place to the time of its answer.
local function keep_places(lane, window_ms)
  redis.call('PEXPIRE', K.pace(lane), window_ms + 60000)
end

-- Sends that lie ahead were before the clock went back: they count from now.
local function count_from_now(lane, window_ms)
  -- First, because it takes no memory (see shared/batch.lua).
  keep_places(lane, window_ms)
  for i, at in ipairs(redis.call('LRANGE', K.pace(lane), 0, -1)) do
    if tonumber(at) > now then
      redis.call('LSET', K.pace(lane), i - 1, digits(now))
    end
  end
end

-- The window is full when its `limit`-th last send is still inside: the list needs no counting and no sweeping.
local function pace_wait(lane, limit, window_ms)
  local oldest = tonumber(redis.call('LINDEX', K.pace(lane), -limit))
  if not oldest then return 0 end
  if oldest > now then
    count_from_now(lane, window_ms)
    oldest = now
  end
  return math.max(0, oldest + window_ms - now)
end

local function take_place(lane, limit, window_ms)
  if redis.call('RPUSH', K.pace(lane), digits(now)) > limit then
    redis.call('LTRIM', K.pace(lane), -limit, -1)
  end
  keep_places(lane, window_ms)
end

local function begin_head(lane, lease, delivery, merged, route, limit, window_ms, lease_ms)
  limit, window_ms = math.max(1, tonumber(limit)), tonumber(window_ms)
  local tries = read_tries(lane, delivery)
  if tries.begun_by ~= lease then
    local paused, dead = unpack(redis.call('HMGET', K.chat(lane), 'paused', 'dead'))
    if paused == '1' then
      park(lane, PAUSE_MS, 'paused')
      return 'paused', PAUSE_MS
    end
    if dead == route then
      prolong('out', lane, lease_ms)
      return 'dead', 0
    elseif dead then
      revive(lane)
    end
    local wait = pace_wait(lane, limit, window_ms)
    if wait > 0 then
      park(lane, wait, 'paced')
      return 'paced', wait
    end
    prolong('out', lane, lease_ms)
    take_place(lane, limit, window_ms)
    tries.begun_by, tries.merged = lease, merged
    write_tries(lane, delivery, tries)
  else
    prolong('out', lane, lease_ms)
  end
  return 'go', 0, tries
end
