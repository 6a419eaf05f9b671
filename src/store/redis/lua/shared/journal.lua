-- Journal lines of this call: collected, then appended by one command.
local lines = {}
local function journal(line)
  lines[#lines + 1] = digits(now) .. '\t' .. line
end
-- Appends the values from the `first` on.
local function journal_from(first, ...)
  for i = first, select('#', ...) do
    journal((select(i, ...)))
  end
end
local function write_journal()
  for from = 1, #lines, 1000 do
    redis.call('RPUSH', K.journal, unpack(lines, from, math.min(from + 999, #lines)))
  end
end
