-- The step right before a request is written, which carries `merged` deliveries from the head of a lane that is ours.
-- Answers `go` (attempt marked, place in the window taken; after the ms also what was tried with the head), `dead` (by this
-- very route; the lease stays), or, with the lane parked and the lease given back, `paused` or `paced` and for how many ms.
local PAUSE_MS = 60000

-- The window is full when its `limit`-th last send is still inside: the list needs no counting and no sweeping.
local function pace_wait(lane, limit, window_ms)
  local oldest = tonumber(redis.call('LINDEX', K.pace(lane), -limit))
  return oldest and math.max(0, oldest + window_ms - now) or 0
end

-- Kept longer than the window, because a delivery moves its place to the time of its answer.
local function take_place(lane, limit, window_ms)
  if redis.call('RPUSH', K.pace(lane), digits(now)) > limit then
    redis.call('LTRIM', K.pace(lane), -limit, -1)
  end
  redis.call('PEXPIRE', K.pace(lane), window_ms + 60000)
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
