-- lock_note: takes a note's lock. KEYS[1]: the note, whole. ARGV: owner, ttl ms. Answers 1, or 0 where somebody has it.
local lock = KEYS[1] .. ':lock'
if redis.call('EXISTS', lock) == 1 then return 0 end
-- As in write_note: first a write that a full server takes.
redis.call('DEL', lock)
redis.call('SET', lock, ARGV[1], 'PX', ARGV[2])
return 1
