-- write_note: writes a note; with an owner only while the note's lock is theirs, which is given back.
-- KEYS[1]: the note, whole. ARGV: value, ttl ms, owner or ''. Answers 1, or 0 where the lock is another's.
local lock = KEYS[1] .. ':lock'
if ARGV[3] ~= '' then
  if redis.call('GET', lock) ~= ARGV[3] then return 0 end
  redis.call('DEL', lock)
end
-- Takes no memory, so that a full server can be drained (see shared/batch.lua): without its token nothing leaves.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
