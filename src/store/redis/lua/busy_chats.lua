-- busy_chats: chats whose out-lane holds something now, or of which something was set.
-- ARGV[1]: most lanes to name. Answers their names, each once.
local limit, names, seen = tonumber(ARGV[1]), {}, {}
local function name(lane)
  if #names < limit and not seen[lane] then
    seen[lane] = true
    names[#names + 1] = lane
  end
end
for _, key in ipairs({ K.leases('out'), K.ready('out'), K.ready_push, K.parked }) do
  for _, lane in ipairs(redis.call('ZRANGE', key, 0, limit - 1)) do
    if redis.call('EXISTS', K.list('out', lane)) == 1 then
      name(lane)
    end
  end
end
for _, lane in ipairs(redis.call('SRANDMEMBER', K.chats, limit)) do
  local weight, paused, dead, muted = unpack(redis.call('HMGET', K.chat(lane), 'weight', 'paused', 'dead', 'muted'))
  if weight or paused or dead or muted then
    name(lane)
  else
    redis.call('SREM', K.chats, lane)
  end
end
return names
