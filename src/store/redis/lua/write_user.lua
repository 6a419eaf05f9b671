-- write_user: KEYS[1] is `wg:user:<app>:<sender>`.
-- ARGV: `bind`, ttl ms, business user id; or `renew`, ttl ms; or `unbind`. Answers 1, or 0 where there was nothing.
if ARGV[1] == 'bind' then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
  return 1
elseif ARGV[1] == 'renew' then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('DEL', KEYS[1])
