-- trim_journal: forgets a batch that is safe in the records. Both its place and its first line must still be as they were
-- read: neither another reader nor a server that lost its data makes it drop unread lines.
-- ARGV: where the batch begins, how many lines, the first of them; then lines that go to the journal's end instead.
-- Answers 1 when trimmed, else 0.
local trimmed = tonumber(redis.call('GET', K.trimmed)) or 0
if trimmed ~= tonumber(ARGV[1]) or redis.call('LINDEX', K.journal, 0) ~= ARGV[3] then return 0 end
redis.call('LTRIM', K.journal, ARGV[2], -1)
redis.call('INCRBY', K.trimmed, ARGV[2])
for from = 4, #ARGV, 1000 do
  redis.call('RPUSH', K.journal, unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
return 1
