-- revive: clears the dead mark of chats.
-- ARGV: a batch of (chat's lane). Answers each: 1 when it was dead, else 0.
return each(function(lane)
  return revive(lane)
end)
