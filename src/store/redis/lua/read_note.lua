-- read_note: what a note says. KEYS[1]: the note, whole. Answers { value, ms that it still stands } or nil.
local value = redis.call('GET', KEYS[1])
return value and { value, math.max(0, redis.call('PTTL', KEYS[1])) }
