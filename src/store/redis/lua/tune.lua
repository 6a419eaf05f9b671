-- tune: changes what operators set of a chat.
-- ARGV: a batch of (chat's lane, weight, `-` for the configured one, '' for as it is; '1', '0' or '' for as it is: paused;
-- '1' to clear its dead mark; '1' to end what a hold set aside; '1', '0' or '' for as it is: muted; configured weight, head start ms, the change's line). Answers each: 1.
local function set_weight(lane, weight, configured, head_start)
  if weight == '-' then
    redis.call('HDEL', K.chat(lane), 'weight')
  else
    redis.call('SADD', K.chats, lane)
    redis.call('HSET', K.chat(lane), 'weight', weight)
  end
  -- Only of a lane that holds something it is kept by how much it goes ahead.
  local before = tonumber(redis.call('HGET', K.ahead, lane))
  if not before then return end
  local gain = remember_turn(lane, configured, head_start) - before
  if gain == 0 then return end
  for _, ready in ipairs({ K.ready('out'), K.ready_push }) do
    if redis.call('ZSCORE', ready, lane) then
      redis.call('ZINCRBY', ready, digits(-gain), lane)
    end
  end
end

local function resume(lane)
  redis.call('HDEL', K.chat(lane), 'paused')
  if redis.call('ZSCORE', K.parked, lane) and redis.call('HGET', K.chat(lane), 'why') == 'paused' then
    redis.call('ZREM', K.parked, lane)
    requeue('out', lane)
  end
end

-- A lane that its robot's fault parked, or its app's gave back: a lease that nobody holds.
local function unhold(lane)
  if redis.call('ZSCORE', K.parked, lane) then
    if redis.call('HGET', K.chat(lane), 'why') ~= 'held' then return end
    redis.call('ZREM', K.parked, lane)
    requeue('out', lane)
  elseif redis.call('ZSCORE', K.leases('out'), lane) and redis.call('HEXISTS', K.holders('out'), lane) == 0 then
    give_back('out', lane)
  end
end

return each(function(lane, weight, paused, alive, unheld, muted, configured, head_start, line)
  if weight ~= '' then
    set_weight(lane, weight, configured, head_start)
  end
  if paused == '1' then
    redis.call('SADD', K.chats, lane)
    redis.call('HSET', K.chat(lane), 'paused', 1)
  elseif paused == '0' then
    resume(lane)
  end
  if alive == '1' then
    revive(lane)
  end
  if unheld == '1' then
    unhold(lane)
  end
  if muted == '1' then
    redis.call('SADD', K.chats, lane)
    redis.call('HSET', K.chat(lane), 'muted', 1)
  elseif muted == '0' then
    redis.call('HDEL', K.chat(lane), 'muted')
  end
  journal(line)
  return 1
end)
