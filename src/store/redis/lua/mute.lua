-- mute: mutes chats, or lets them speak again.
-- ARGV: a batch of (chat's lane, `1` or ''). Answers each: 1 when that changed something, else 0.
return each(function(lane, muted)
  if muted == '1' then
    redis.call('SADD', K.chats, lane)
    return redis.call('HSET', K.chat(lane), 'muted', 1)
  end
  return redis.call('HDEL', K.chat(lane), 'muted')
end)
