-- read_pushes: what is known here of a task's deliveries.
-- ARGV[1]: the task. Answers { delivery id, `at_ms TAB lane TAB state`, … }.
return redis.call('HGETALL', K.push(ARGV[1]))
