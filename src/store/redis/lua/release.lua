-- release: gives leases back unworked, at once or after a pause; lost ones are passed over.
-- ARGV: a batch of (side, lane, lease id, pause ms). Answers each: 1 when given back, else 0.
return each(function(side, lane, lease, pause_ms)
  if not is_held(side, lane, lease) then return 0 end
  if pause_ms == '0' then
    give_back(side, lane)
  else
    -- A lease that nobody holds: when it ends, the lane is ready again.
    redis.call('HDEL', K.holders(side), lane)
    prolong(side, lane, math.min(tonumber(pause_ms), LONGEST_ASIDE_MS))
  end
  return 1
end)
