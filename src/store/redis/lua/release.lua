-- release: gives leases back unworked; lost ones are passed over.
-- ARGV: a batch of (side, lane, lease id). Answers each: 1 when given back, else 0.
return each(function(side, lane, lease)
  if not is_held(side, lane, lease) then return 0 end
  give_back(side, lane)
  return 1
end)
