-- claim_replies: leases outbound lanes by turn; a parked lane only once its time has come.
-- ARGV and answer: see shared/claim.lua. Item: lane, lease id, entry, attempts, refusals, failures of the lane, 1 when an
-- earlier lease began an attempt and never settled it.
return claim('out', function(lane, lease)
  local head = head_of(lane)
  if not head then
    give_back('out', lane)
    return nil
  end
  local tries = read_tries(lane, head.id)
  return { lane, lease, head.entry, tries.attempts, tries.refusals, failures_of(lane), tries.begun_by ~= '-' and 1 or 0 }
end)
