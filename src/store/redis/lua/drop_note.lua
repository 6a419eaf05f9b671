-- drop_note: drops a note if it still says what was seen.
-- KEYS[1]: the note, whole. ARGV: '1' to compare, what was seen. Answers 1 when it was dropped, else 0.
if ARGV[1] == '1' and redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
