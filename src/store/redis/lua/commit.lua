-- commit: finishes handled messages, each as one step: head dropped, mark `done`, session written, replies queued, their
-- lane made ready, journal lines left.
-- ARGV: a batch of (lane, lease id, key, request_id, mark ttl ms, session's name or '', its ttl ms, turns, vars, when it was
-- forgotten as it was read, its line or '', chat's lane, weight, head start ms, depth limit, late ttl ms or '', late
-- received ms, late expires ms, late reply_to, number of replies, replies…, lines…).
-- Answers each: `done`, `lost`, `full` (nothing applied, the lease holds).

-- Writes an exchange, unless the session was forgotten since it was read.
local function remember(session, ttl, turns, vars, forgotten, line)
  local key = K.session(session)
  if tonumber(redis.call('HGET', key, 'forgotten') or 0) > tonumber(forgotten) then return end
  redis.call('HSET', key, 'turns', turns, 'vars', vars, 'forgotten', forgotten)
  -- That a session was forgotten stays known for as long as was said then; what was said since ends in its own time.
  if tonumber(forgotten) > 0 then
    redis.call('HSET', key, 'ends', digits(now + tonumber(ttl)))
  end
  if tonumber(forgotten) == 0 or redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
  if line ~= '' then
    journal(line)
  end
end

return each(function(lane, lease, key, request_id, mark_ttl, session, session_ttl, turns, vars, forgotten, session_line,
                     chat, weight, head_start, depth_limit, late_ttl, late_received, late_expires, late_reply_to, count,
                     ...)
  count = tonumber(count)
  if not is_held('in', lane, lease) then
    return 'lost'
  end
  if not has_room(chat, count, depth_limit) then
    return 'full'
  end
  local head = redis.call('LINDEX', K.list('in', lane), 0)
  if head and read_message(head).request_id == request_id then
    redis.call('LPOP', K.list('in', lane))
    waits(-1)
  end
  finish_mark(key, request_id, mark_ttl)
  if session ~= '' then
    remember(session, session_ttl, turns, vars, forgotten, session_line)
  end
  if late_ttl ~= '' then
    redis.call('HSET', K.late(request_id), 'chat', chat, 'key', key, 'received', late_received, 'expires', late_expires,
      'reply_to', late_reply_to)
    redis.call('PEXPIRE', K.late(request_id), late_ttl)
  end
  queue_replies(chat, weight, head_start, count, ...)
  give_back('in', lane)
  return 'done'
end)
