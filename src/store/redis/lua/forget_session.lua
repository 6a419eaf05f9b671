-- forget_session: leaves nothing of it but when that was, a line that says so to the archive, and the change's own, where there is one.
-- ARGV: a batch of (session's name, ttl ms, the change's line or ''). Answers each: 1.
return each(function(session, ttl, line)
  local key = K.session(session)
  -- Later than the time before even where the clock went back: whoever read it meanwhile must see that it changed.
  local forgotten = math.max(now, tonumber(redis.call('HGET', key, 'forgotten') or 0) + 1)
  redis.call('HDEL', key, 'turns', 'vars', 'ends')
  redis.call('HSET', key, 'forgotten', digits(forgotten))
  redis.call('PEXPIRE', key, ttl)
  journal('forgotten\t\t' .. session .. ':\t{}')
  if line ~= '' then
    journal(line)
  end
  return 1
end)
