-- read_task: a push task. KEYS[1] is `wg:{task:<task>}`. Answers { app, total, cursor, `1` where all is queued or nil }, or nil.
local app, total, cursor, done = unpack(redis.call('HMGET', KEYS[1], 'app', 'total', 'cursor', 'done'))
return app and { app, total, cursor, done }
