-- open_task: opens a push task, where no other is known under its id. KEYS[1] is `wg:{task:<task>}`.
-- ARGV: app, digest, total, ms it is known. Answers { `open`, cursor }, { `done` }, { `conflict` }.
local digest, cursor, done = unpack(redis.call('HMGET', KEYS[1], 'digest', 'cursor', 'done'))
if not digest then
  redis.call('HSET', KEYS[1], 'app', ARGV[1], 'digest', ARGV[2], 'total', ARGV[3], 'cursor', 0)
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  return { 'open', 0 }
end
if digest ~= ARGV[2] then
  return { 'conflict' }
end
return done and { 'done' } or { 'open', tonumber(cursor) or 0 }
