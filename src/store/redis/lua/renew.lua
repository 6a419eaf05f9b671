-- renew: prolongs leases.
-- ARGV: a batch of (side, lane, lease id, lease ms). Answers each: 1, or 0 when lost.
return each(function(side, lane, lease, lease_ms)
  if not is_held(side, lane, lease) then return 0 end
  prolong(side, lane, lease_ms)
  return 1
end)
