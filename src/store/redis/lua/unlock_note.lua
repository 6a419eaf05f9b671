-- unlock_note: gives a note's lock back if it is the owner's. KEYS[1]: the note, whole. ARGV: owner. Answers 1, or 0.
if redis.call('GET', KEYS[1] .. ':lock') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1] .. ':lock')
