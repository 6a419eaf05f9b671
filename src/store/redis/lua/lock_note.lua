-- lock_note: takes a note's lock. KEYS[1]: the note, whole. ARGV: owner, ttl ms. Answers 1, or 0 where somebody has it.
return redis.call('SET', KEYS[1] .. ':lock', ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
