-- write_contact: KEYS[1] is `wg:contact:<app>:<sender>`.
-- ARGV: for each field `set`, `fill` or `remove`, its name, its value. Without any the whole contact goes.
-- Answers 1, or 0 where there was nothing to forget.
-- `~field` holds what was filled in: while the field still says that, nobody set it, and it may be filled in anew.
if #ARGV == 0 then
  return redis.call('DEL', KEYS[1])
end
for at = 1, #ARGV, 3 do
  local word, field, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local filled = '~' .. field
  if word == 'remove' then
    redis.call('HDEL', KEYS[1], field, filled)
  elseif word == 'set' then
    redis.call('HSET', KEYS[1], field, value)
    redis.call('HDEL', KEYS[1], filled)
  else
    local says = redis.call('HGET', KEYS[1], field)
    if not says or says == redis.call('HGET', KEYS[1], filled) then
      redis.call('HSET', KEYS[1], field, value, filled, value)
    end
  end
end
return 1
