-- The mark of a message holds the request id that owns it, then `done`. Once it is done, `in:finished` tells for the
-- last ones whose request it was: a repeated enqueue (its answer was lost) is no copy of itself.
local REMEMBERED = 10000

-- Entry of an inbound lane: `request_id expires_ms mark_ttl_ms key`, newline, the message as JSON.
local function read_message(entry)
  local request_id, expires, mark_ttl, key = entry:match('^(%S+) (%-?%d+) (%d+) ([^\n]*)\n')
  return { request_id = request_id, expires = tonumber(expires), mark_ttl = mark_ttl, key = key }
end

local is_trimmed = false

local function finish_mark(key, request_id, ttl_ms)
  redis.call('SET', K.mark(key), 'done', 'PX', ttl_ms)
  redis.call('ZADD', K.finished, now, request_id)
  if not is_trimmed then
    redis.call('ZREMRANGEBYRANK', K.finished, 0, -REMEMBERED - 1)
    is_trimmed = true
  end
end

-- Says why a message is not to be handled: another request owns it, or it is done. Silent where it is our own repeat.
local function tell_duplicate(mark, request_id, key)
  if mark == 'done' and redis.call('ZSCORE', K.finished, request_id) then
    return false
  end
  journal('duplicate\t' .. request_id .. '\t' .. key .. '\t{}')
  return true
end
