-- claim_replies: leases outbound lanes by turn; a parked lane only once its time has come.
-- ARGV and answer: see shared/claim.lua. Item: lane, lease id, entry, attempts, refusals, failures of the lane, 1 when an
-- earlier lease began an attempt and never settled it, { entries behind: what that attempt carried too, or else what may
-- leave together with the head because pace held the lane back }.
return claim('out', function(lane, lease)
  local head = head_of(lane)
  if not head then
    give_back('out', lane)
    return nil
  end
  local tries = read_tries(lane, head.id)
  local begun = tries.begun_by ~= '-'
  local failures, why = unpack(redis.call('HMGET', K.chat(lane), 'failures', 'why'))
  if why then
    redis.call('HDEL', K.chat(lane), 'why')
  end
  local behind = {}
  if begun then
    behind = behind_head(lane, tries.merged)
  elseif why == 'paced' then
    behind = may_join(lane, head)
  end
  return { lane, lease, head.entry, tries.attempts, tries.refusals, tonumber(failures) or 0, begun and 1 or 0, behind }
end)
