-- The requests of a load, for wrk. Arguments: what to ask (create, list, delete, mix), the path of lists, the first id, a
-- file with one Authorization value a line. The plant with an id belongs to the line that is the id modulo the number of
-- lines. Then a file with numbers of such lines, whose request each one is ('-' without), and how many requests came
-- before. For one thread only: ids count up in one place.
local authorizations, turns, kind, path = {}, {}, '', ''
local before, asked, id = 0, 0, 0

function init(args)
  kind, path, id = args[1], args[2], tonumber(args[3]) - 1
  for line in io.lines(args[4]) do authorizations[#authorizations + 1] = line end
  if args[5] ~= '-' then
    for line in io.lines(args[5]) do turns[#turns + 1] = tonumber(line) end
  end
  before = tonumber(args[6])
end

-- The authorization of the request: of the owner whose turn it is, else that of a number.
local function authorization_of(number)
  local turn = turns[(before + asked - 1) % #turns + 1]
  return authorizations[turn or number % #authorizations + 1]
end

function request()
  asked = asked + 1
  if kind == 'list' or (kind == 'mix' and asked % 10 ~= 0) then
    return wrk.format('GET', path, { Authorization = authorization_of(before + asked) })
  end
  id = id + 1
  local headers = { Authorization = authorization_of(id) }
  if kind == 'delete' then return wrk.format('DELETE', string.format('/plants/%d', id), headers) end
  headers['Content-Type'] = 'application/json'
  local body = string.format('{"name":"Monstera deliciosa %d","tag":"aroid","id":%d}', id, id)
  return wrk.format('POST', '/plants', headers, body)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"seconds":%.6f,"failed":%d,"p50":%.3f,"p99":%.3f,"p999":%.3f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3))
end
