-- advance_task: notes how many deliveries of a task are in their lanes. KEYS[1] is `wg:{task:<task>}`.
-- ARGV: how many, '1' where these are all. The number never goes back. Answers 1, or 0 where the task is not known.
local cursor = redis.call('HGET', KEYS[1], 'cursor')
if not cursor then return 0 end
if tonumber(ARGV[1]) > tonumber(cursor) then
  redis.call('HSET', KEYS[1], 'cursor', ARGV[1])
end
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[1], 'done', 1)
end
return 1
