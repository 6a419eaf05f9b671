-- What this call leaves behind: journal lines, and how many more messages and deliveries wait in the shard. Both are
-- collected, then written by one command each.
local lines, waiting_more = {}, 0
local function waits(more)
  waiting_more = waiting_more + more
end
local function journal(line)
  lines[#lines + 1] = digits(now) .. '\t' .. line
end
-- Appends the values from the `first` on.
local function journal_from(first, ...)
  for i = first, select('#', ...) do
    journal((select(i, ...)))
  end
end
local function leave_behind()
  if waiting_more ~= 0 then
    -- Where nothing is counted (yet, or any more) nothing is made up: shared/waiting.lua counts.
    redis.pcall('ZADD', K.waiting, 'XX', 'INCR', waiting_more, 'n')
  end
  for from = 1, #lines, 1000 do
    redis.call('RPUSH', K.journal, unpack(lines, from, math.min(from + 999, #lines)))
  end
end
