-- forget_contact: KEYS[1] is `wg:contact:<app>:<sender>`. ARGV: for how many ms it is known that the member was forgotten.
-- Answers 1, or 0 where there was nothing to forget.
local before = tonumber(redis.call('HGET', KEYS[1], '!forgotten') or 0)
local known = redis.call('HLEN', KEYS[1]) > (before > 0 and 1 or 0)
redis.call('DEL', KEYS[1])
-- Later than the time before even where the clock went back: whoever read it meanwhile must see that it changed.
redis.call('HSET', KEYS[1], '!forgotten', digits(math.max(now, before + 1)))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return known and 1 or 0
