-- wrk's side of the load: posts prebuilt requests, one after the other, from a file of `<length>\n<request>` records.
-- Arguments: the file, how many to read, and `once` where each may be posted one time only. The summary goes to stdout
-- as one line of JSON. One wrk thread only: each thread would begin at the first request.

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  local file = assert(io.open(args[1], "rb"))
  local limit = tonumber(args[2])
  once = args[3] == "once"
  exhausted = false
  requests = {}
  at = 0
  while #requests < limit do
    local length = file:read("*n")
    if not length then break end
    file:read(1)
    requests[#requests + 1] = file:read(length)
  end
  file:close()
end

function request()
  at = at + 1
  if at > #requests then
    at = 1
    exhausted = once
  end
  return requests[at]
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"micros":%d,"non_2xx":%d,"broken":%d,"timeouts":%d,"p50":%d,"p99":%d,"exhausted":%s}\n',
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write, errors.timeout,
    latency:percentile(50), latency:percentile(99), tostring(threads[1]:get("exhausted"))
  ))
end
