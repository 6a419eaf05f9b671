-- admit: counts a message of a member in a chat, unless too many were counted within the window.
-- ARGV: a batch of (key, request_id, limit, window ms).
-- Answers each: `yes`, `first` (too fast, and the first to be told so in a window), `no`. A repeat is answered as before.
return each(function(key, request_id, limit, window_ms)
  local rate, told = K.rate(key), K.told(key)
  redis.call('ZREMRANGEBYSCORE', rate, '-inf', now - tonumber(window_ms))
  if redis.call('ZSCORE', rate, request_id) then
    return 'yes'
  end
  if redis.call('ZCARD', rate) < tonumber(limit) then
    redis.call('ZADD', rate, now, request_id)
    redis.call('PEXPIRE', rate, window_ms)
    return 'yes'
  end
  if redis.call('SET', told, request_id, 'NX', 'PX', window_ms) or redis.call('GET', told) == request_id then
    return 'first'
  end
  return 'no'
end)
