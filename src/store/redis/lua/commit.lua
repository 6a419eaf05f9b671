-- commit: finishes handled messages, each as one step: head dropped, mark `done`, session written, replies queued, their
-- lane made ready, journal lines left.
-- ARGV: a batch of (lane, lease id, key, request_id, mark ttl ms, session ttl ms or '', turns, vars, chat's lane, weight,
-- head start ms, depth limit, late ttl ms or '', late received ms, late expires ms, late reply_to, number of replies, replies…, lines…).
-- Answers each: `done`, `lost`, `full` (nothing applied, the lease holds).
return each(function(lane, lease, key, request_id, mark_ttl, session_ttl, turns, vars, chat, weight, head_start,
                     depth_limit, late_ttl, late_received, late_expires, late_reply_to, count, ...)
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
  if session_ttl ~= '' then
    redis.call('HSET', K.session(key), 'turns', turns, 'vars', vars)
    redis.call('PEXPIRE', K.session(key), session_ttl)
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
