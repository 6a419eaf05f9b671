-- read_contact: KEYS[1] is `wg:contact:<app>:<sender>`. Answers its fields and values, in turn.
return redis.call('HGETALL', KEYS[1])
