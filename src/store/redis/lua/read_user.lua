-- read_user: KEYS[1] is `wg:user:<app>:<sender>`.
-- Answers { business user id or nil, ms that it still holds, when the member was forgotten or nil }.
local value = redis.call('GET', KEYS[1])
local forgotten = value and value:match('^\1(%d+)$')
return { not forgotten and value, math.max(0, redis.call('PTTL', KEYS[1])), forgotten or false }
