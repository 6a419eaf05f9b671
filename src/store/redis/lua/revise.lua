-- revise: changes what is said of a delivery that left its lane, where nobody did since it was read.
-- ARGV: a batch of (lane, a push's change as shared/push.lua says, at_ms as it was read, lines…).
-- Answers each: 1, or 0 where somebody did. Of one that is not known any more only the lines are left.
return each(function(lane, change, seen, ...)
  local task, delivery = change:match('^([^\t]*)\t([^\t]*)\t')
  local known = redis.call('HGET', K.push(task), delivery)
  if known and known:match('^%d+') ~= seen then
    return 0
  end
  change_child(lane, change)
  journal_from(1, ...)
  return 1
end)
