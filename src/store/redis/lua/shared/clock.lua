-- The server's clock. `now` is whole Unix ms; turns are finer, and no two of one call are equal, so that lanes keep
-- the order in which they became ready.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local last_turn = tonumber(clock[1]) * 1000 + tonumber(clock[2]) / 1000
local function next_turn()
  last_turn = last_turn + 0.001
  return last_turn
end

-- Whole milliseconds as text: Lua's own conversion keeps 14 digits only.
local function digits(ms)
  return string.format('%.0f', ms)
end
