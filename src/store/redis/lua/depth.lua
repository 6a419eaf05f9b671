-- depth: how deep the shard is.
-- Answers { inbound lanes ready or leased, outbound lanes ready, leased or parked, parked ones, journal lines }.
local function count(key) return redis.call('ZCARD', key) end
local parked = count(K.parked)
return {
  count(K.ready('in')) + count(K.leases('in')),
  count(K.ready('out')) + count(K.leases('out')) + parked,
  parked,
  redis.call('LLEN', K.journal),
}
