-- settle: finishes begun deliveries and, where asked, goes on with the next head of the lane in the same step.
-- ARGV: a batch of (lane, lease id, delivery id, how many deliveries, fate, its two values, last error or '', a push's change as
-- shared/push.lua says, weight, head start ms, '1' to go on, then for going on: route digest, pace limit, pace window ms,
-- lease ms, '1' where pushes are due for their share; lines…).
-- Fates: `delivered`; `ended` (back-off ms or '', route digest by which the chat is dead or ''); `again` (park ms, why).
-- Answers each: { `released` }, { `lost` }, { `parked`, begin's word, ms },
-- { `next`, begin's word or '', entry, attempts, refusals, failures, { entries that may leave together with it } }.

-- The lane's failures in a row.
local function count_failure(lane)
  redis.call('HINCRBY', K.chat(lane), 'failures', 1)
end

-- Each of the first `count` deliveries is sent by itself from now on.
local function set_apart(lane, count)
  local list = K.list('out', lane)
  for i, entry in ipairs(redis.call('LRANGE', list, 0, count - 1)) do
    if not read_reply(entry).apart then
      redis.call('LSET', list, i - 1, (entry:gsub('\n', ' apart\n', 1)))
    end
  end
end

local function try_again(lane, delivery, merged, park_ms, why)
  local tries = read_tries(lane, delivery)
  if why ~= 'unanswered' then
    tries.begun_by, tries.merged = '-', 1
  end
  if why == 'apart' then
    set_apart(lane, merged)
  end
  if why == 'paced' then
    tries.refusals = tries.refusals + 1
  elseif why == 'backing_off' or why == 'unanswered' then
    tries.attempts = tries.attempts + 1
    count_failure(lane)
  end
  write_tries(lane, delivery, tries)
  park(lane, tonumber(park_ms), why)
end

local function drop_heads(lane, count)
  if count == 1 then
    redis.call('LPOP', K.list('out', lane))
  else
    redis.call('LTRIM', K.list('out', lane), count, -1)
  end
  waits(-count)
  redis.call('HDEL', K.tries, lane)
end

-- Applies the fate; answers whether the lane was parked.
local function apply(lane, delivery, merged, fate, first, second)
  -- What was begun may have reached WeCom, whatever it answered, at any time until now. No list, no place to move.
  if fate == 'delivered' or read_tries(lane, delivery).begun_by ~= '-' then
    redis.pcall('LSET', K.pace(lane), -1, digits(now))
  end
  if fate == 'again' then
    try_again(lane, delivery, merged, first, second)
    return true
  end
  drop_heads(lane, merged)
  if fate == 'delivered' then
    redis.call('HDEL', K.chat(lane), 'failures')
    return false
  end
  if second ~= '' then
    redis.call('SADD', K.chats, lane)
    redis.call('HSET', K.chat(lane), 'dead', second)
  end
  if first ~= '' then
    count_failure(lane)
    park(lane, tonumber(first), 'backing_off')
  end
  return first ~= ''
end

local function first_of(ready)
  return tonumber(redis.call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2])
end

-- Whether a ready lane is to be served before this one. Lanes of replies go by turn, and wait for pushes that are due;
-- lanes of pushes go by turn too, and wait for any reply.
local function another_is_first(lane, head, ahead, pushes_are_due)
  local turn, first = next_turn() - (ahead or ahead_of_others('out', lane)), first_of(K.ready('out'))
  if is_of_pushes(lane, head.entry) then
    if first then return true end
    -- It is there itself where its lease is over.
    redis.call('ZREM', K.ready_push, lane)
    first = first_of(K.ready_push)
  elseif pushes_are_due == '1' and redis.call('EXISTS', K.ready_push) == 1 then
    return true
  end
  return first and first < turn
end

local function next_item(lane, head, begun, tries, behind)
  tries = tries or read_tries(lane, head.id)
  return { 'next', begun, head.entry, tries.attempts, tries.refusals, failures_of(lane), behind or {} }
end

local function go_on_with_next(lane, lease, merged, ahead, route, limit, window_ms, lease_ms, pushes_are_due)
  local head = head_of(lane)
  if not head or another_is_first(lane, head, ahead, pushes_are_due) then
    give_back('out', lane)
    return { 'released' }
  end
  if merged > 1 then
    prolong('out', lane, lease_ms)
    return next_item(lane, head, '', nil, may_join(lane, head))
  end
  local begun, wait, tries = '', 0, nil
  if head.route == route and now <= head.expires then
    begun, wait, tries = begin_head(lane, lease, head.id, 1, route, limit, window_ms, lease_ms)
    if begun == 'paced' or begun == 'paused' then
      return { 'parked', begun, wait }
    end
  else
    prolong('out', lane, lease_ms)
  end
  return next_item(lane, head, begun, tries)
end

return each(function(lane, lease, delivery, merged, fate, first, second, last_error, change, weight, head_start,
                     go_on, route, limit, window_ms, lease_ms, pushes_are_due, ...)
  if not is_held('out', lane, lease) then
    return { 'lost' }
  end
  local head, ahead = head_of(lane), nil
  merged = tonumber(merged)
  -- Ours, but with another head: this settle was applied, its answer was lost, and it went on. It goes on again; a head
  -- that it began already is the caller's to send, whoever's turn it is by now.
  if head and head.id == delivery then
    -- Takes no memory, so that a full server can be drained (see shared/batch.lua).
    redis.call('ZREM', K.ready('out'), lane)
    ahead = remember_turn(lane, weight, head_start)
    if last_error ~= '' then
      redis.call('HSET', K.chat(lane), 'last_error', last_error)
    end
    change_child(lane, change)
    journal_from(1, ...)
    if apply(lane, delivery, merged, fate, first, second) then
      return { 'released' }
    end
  elseif head and read_tries(lane, head.id).begun_by == lease then
    return next_item(lane, head, 'go')
  elseif go_on ~= '1' then
    return { 'lost' }
  end
  if go_on ~= '1' then
    give_back('out', lane)
    return { 'released' }
  end
  return go_on_with_next(lane, lease, merged, ahead, route, limit, window_ms, lease_ms, pushes_are_due)
end)
