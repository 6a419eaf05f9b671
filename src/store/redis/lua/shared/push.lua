-- A delivery of a push task: a field of its task's hash in its lane's slot, `at_ms TAB lane TAB state as JSON`.
local function write_child(task, delivery, lane, state)
  redis.call('HSET', K.push(task), delivery, table.concat({ digits(now), lane, state }, '\t'))
end

-- `change` is `task TAB delivery TAB state`, or '' for nothing. One that is not known any more stays so.
local function change_child(lane, change)
  local task, delivery, state = change:match('^([^\t]*)\t([^\t]*)\t(.*)$')
  if task and redis.call('HEXISTS', K.push(task), delivery) == 1 then
    write_child(task, delivery, lane, state)
  end
end
