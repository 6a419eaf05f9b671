-- What is remembered under a session's name: turns, vars, when it was last forgotten. That it was may be known for longer than what
-- was said since is kept.
local function remembered(name)
  local turns, vars, forgotten, ends =
    unpack(redis.call('HMGET', K.session(name), 'turns', 'vars', 'forgotten', 'ends'))
  if ends and tonumber(ends) <= now then
    turns, vars = false, false
  end
  return turns, vars, forgotten
end
