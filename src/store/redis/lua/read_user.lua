-- read_user: KEYS[1] is `wg:user:<app>:<sender>`. Answers { business user id, ms that it still holds }, or nil.
local id = redis.call('GET', KEYS[1])
return id and { id, math.max(0, redis.call('PTTL', KEYS[1])) }
