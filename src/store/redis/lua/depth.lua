-- depth: how deep the shard is.
-- Answers { messages and deliveries that wait, as counted, inbound lanes ready or leased, outbound lanes ready, leased or parked, parked ones, journal lines }.
local function count(key) return redis.call('ZCARD', key) end
local parked = count(K.parked)
local waiting = tonumber(redis.pcall('ZSCORE', K.waiting, 'n')) or 0
return {
  math.max(0, waiting),
  count(K.ready('in')) + count(K.leases('in')),
  count(K.ready('out')) + count(K.ready_push) + count(K.leases('out')) + parked,
  parked,
  redis.call('LLEN', K.journal),
}
