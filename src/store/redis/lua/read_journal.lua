-- read_journal: the oldest lines.
-- ARGV[1]: most lines. Answers { how many were trimmed before them, { lines } }.
local trimmed = tonumber(redis.call('GET', K.trimmed)) or 0
return { trimmed, redis.call('LRANGE', K.journal, 0, tonumber(ARGV[1]) - 1) }
