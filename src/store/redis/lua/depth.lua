-- depth: how deep the shard is.
-- ARGV: how many lanes of a kind are looked at. Answers { messages and deliveries that wait, as counted, inbound lanes ready
-- or leased, outbound lanes ready, leased or parked, parked ones, journal lines, inbound leases, outbound leases, when the
-- message was taken that is next inbound or nil, … that is oldest outbound of the lanes looked at or nil, why lanes are
-- parked with how many each }.
local function count(key) return redis.call('ZCARD', key) end
local function first(key, most) return redis.call('ZRANGE', key, 0, most - 1) end
local looked_at = tonumber(ARGV[1])
local parked = count(K.parked)
local waiting = tonumber(redis.pcall('ZSCORE', K.waiting, 'n')) or 0

local function next_message()
  local lane = first(K.ready('in'), 1)[1]
  local entry = lane and redis.call('LINDEX', K.list('in', lane), 0)
  local message = entry and entry:match('\n(.*)$')
  return message and cjson.decode(message).received_at or false
end

local oldest = false
local function look(lane)
  local head = head_of(lane)
  if head and (not oldest or head.received < oldest) then oldest = head.received end
end

local reasons, looked = {}, 0
for _, lane in ipairs(first(K.parked, looked_at)) do
  local why = redis.call('HGET', K.chat(lane), 'why') or 'other'
  reasons[why] = (reasons[why] or 0) + 1
  looked = looked + 1
  look(lane)
end
reasons.other = (reasons.other or 0) + parked - looked
local told = {}
for why, lanes in pairs(reasons) do table.insert(told, { why, lanes }) end
for _, set in ipairs({ K.ready('out'), K.ready_push, K.leases('out') }) do
  for _, lane in ipairs(first(set, looked_at)) do look(lane) end
end

return {
  math.max(0, waiting),
  count(K.ready('in')) + count(K.leases('in')),
  count(K.ready('out')) + count(K.ready_push) + count(K.leases('out')) + parked,
  parked,
  redis.call('LLEN', K.journal),
  count(K.leases('in')),
  count(K.leases('out')),
  next_message(),
  oldest,
  told,
}
