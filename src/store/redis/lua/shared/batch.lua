-- ARGV is a batch: for each item the number of its arguments, then those. Answers one value per item, in order.
-- An item runs by itself: a broken key of one chat fails that item (`error`, why) and not its neighbours. What the server
-- refuses as a whole (READONLY, OOM, …) it refuses at the first write, so nothing was done and the batch answers that.
-- After its first write a script is refused nothing: steps that make room begin with a command that takes no memory, so
-- that a full server can be drained.
local function why(failure)
  return type(failure) == 'table' and failure.err or tostring(failure)
end

local function each(step)
  local answers, at = {}, 1
  while at <= #ARGV do
    local count = tonumber(ARGV[at])
    local fine, answer = pcall(step, unpack(ARGV, at + 1, at + count))
    if not fine then
      local text = why(answer)
      if text:find('^-?%u+ ') and not text:find('^-?WRONGTYPE') and not text:find('^-?ERR') then
        return { err = text }
      end
      answer = { 'error', text }
    end
    answers[#answers + 1] = answer
    at = at + count + 1
  end
  leave_behind()
  return answers
end
