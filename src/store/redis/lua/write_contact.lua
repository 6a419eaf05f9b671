-- write_contact: KEYS[1] is `wg:contact:<app>:<sender>`.
-- ARGV: when the member was forgotten as it was read, '' for in any case; then for each field `set`, `say`, `unsay`, `fill` or
-- `remove`, its name, its value. Answers 1, or 0 where the member was forgotten since.
-- `?field` holds what the member said, `field` what was set, `~field` what was filled in; the first of them shows.
if ARGV[1] ~= '' and tonumber(redis.call('HGET', KEYS[1], '!forgotten') or 0) > tonumber(ARGV[1]) then
  return 0
end
for at = 2, #ARGV, 3 do
  local word, field, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local said, filled = '?' .. field, '~' .. field
  if word == 'remove' then
    redis.call('HDEL', KEYS[1], field, said, filled)
  elseif word == 'unsay' then
    redis.call('HDEL', KEYS[1], said)
  else
    redis.call('HSET', KEYS[1], ({ set = field, say = said, fill = filled })[word], value)
    if word == 'set' then
      redis.call('HDEL', KEYS[1], said)
    end
    -- A mark that the member was forgotten ends by itself, what is known since does not.
    redis.call('PERSIST', KEYS[1])
  end
end
return 1
