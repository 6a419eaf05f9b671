-- claim_replies: leases outbound lanes by turn; a parked lane only once its time has come. While both wait, lanes of
-- pushes get their share.
-- ARGV: lease ms, lanes of replies claimed since the last one of pushes, how many go before one, '1' where pushes may have
-- what replies leave, lease ids. Answers { what shared/claim.lua says, the count as it stands now, 1 where lanes of
-- pushes are left that may not have what replies left }. Item: lane, lease id, entry, attempts, refusals, failures of the lane, 1 when an
-- earlier lease began an attempt and never settled it, { entries behind: what that attempt carried too, or else what may
-- leave together with the head because pace held the lane back }.
local replies, share, may_have_the_rest = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
-- Asked for once: where there are none, no more come during a call.
local no_pushes, are_left = false, 0

local function next_of_pushes()
  if no_pushes then return nil end
  local lane = pop(K.ready_push)
  no_pushes = not lane
  replies = lane and 0 or replies
  return lane
end

local function next_lane()
  local lane = replies >= share and next_of_pushes()
  if lane then return lane end
  lane = pop(K.ready('out'))
  if lane then
    replies = math.min(replies + 1, share)
    return lane
  end
  if may_have_the_rest then
    return next_of_pushes()
  end
  are_left = no_pushes and 0 or redis.call('EXISTS', K.ready_push)
end

local claimed = claim('out', 5, next_lane, function(lane, lease)
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
return { claimed, replies, are_left }
