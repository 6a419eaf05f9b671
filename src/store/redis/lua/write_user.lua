-- write_user: KEYS[1] is `wg:user:<app>:<sender>`: a business user id, or `\1` and when the member was forgotten: no id begins so.
-- ARGV: `bind`, ttl ms, business user id, when the member was forgotten as it was read or '' for in any case; or `renew`, ttl ms; or
-- `unbind`; or `forget`, for how many ms that is known. Answers 1, or 0 where there was nothing, or the member was forgotten since.
local word, value = ARGV[1], redis.call('GET', KEYS[1])
local forgotten = tonumber(value and value:match('^\1(%d+)$') or 0)
local bound = value and forgotten == 0
if word == 'bind' then
  if ARGV[4] ~= '' and forgotten > tonumber(ARGV[4]) then
    return 0
  end
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
  return 1
elseif word == 'forget' then
  redis.call('SET', KEYS[1], '\1' .. digits(math.max(now, forgotten + 1)), 'PX', ARGV[2])
elseif not bound then
  return 0
elseif word == 'renew' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return bound and 1 or 0
