-- trim_journal: forgets a batch that is safe in the records. Its place, its first and its last line must still be as they were
-- read: neither another reader nor a server that lost its data, or the end of it, makes it drop unread lines.
-- ARGV: where the batch begins, how many lines, the first and the last of them; then lines that go to the journal's end instead.
-- Answers 1 when trimmed, else 0.
local count = tonumber(ARGV[2])
local function stands(at, line) return redis.call('LINDEX', K.journal, at) == line end
local trimmed = tonumber(redis.call('GET', K.trimmed)) or 0
if trimmed ~= tonumber(ARGV[1]) or not stands(0, ARGV[3]) or not stands(count - 1, ARGV[4]) then return 0 end
redis.call('LTRIM', K.journal, count, -1)
redis.call('INCRBY', K.trimmed, count)
for from = 5, #ARGV, 1000 do
  redis.call('RPUSH', K.journal, unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
return 1
