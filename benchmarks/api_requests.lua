-- wrk's requests to /recommend, and what came of them as one line of JSON:  wrk ... -s api_requests.lua URL -- KIND SEED
-- known: 36 questions by turns.  new: each with a batch size that nobody has asked for.  constant: a GET without a body.
local kind, seed, asked = "constant", 0, 0
local json = { ["Content-Type"] = "application/json" }

function init(args)
  kind, seed = args[1], tonumber(args[2])
end

function request()
  if kind == "constant" then
    return wrk.format("GET")
  end
  asked = asked + 1
  local batch = kind == "known" and 2560 + 3600 * (asked % 18) or 2560 + 60000 * ((asked * 0.6180339887 + seed * 0.0137) % 1)
  local latency = 20 * (math.floor(asked / 18) % 2)
  local body = string.format('{"batch_size":%.9g,"latency_ms":%d}', batch, latency)
  return wrk.format("POST", nil, json, body)
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "failed": %d, "p50_ms": %.3f, "p99_ms": %.3f}\n',
    summary.requests, summary.duration / 1e6, failed, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3
  ))
end
