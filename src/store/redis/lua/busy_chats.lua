-- busy_chats: out-lanes that hold something now.
-- ARGV[1]: most lanes to name. Answers their names.
local limit, names = tonumber(ARGV[1]), {}
for _, key in ipairs({ K.leases('out'), K.ready('out'), K.ready_push, K.parked }) do
  for _, lane in ipairs(redis.call('ZRANGE', key, 0, limit - 1)) do
    if #names < limit and redis.call('EXISTS', K.list('out', lane)) == 1 then
      names[#names + 1] = lane
    end
  end
end
return names
