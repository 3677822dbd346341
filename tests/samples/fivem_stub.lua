-- A stub: the calls of FiveM that contrib/samples/fivem.lua makes, on LuaSocket. Time passes in SetTimeout; players are
-- there for VOTE_STATUS_SECONDS.   fivem_stub.lua SCRIPT SERVER {IP LICENSE}…
local http, ltn12, socket = require("socket.http"), require("ltn12"), require("socket")
json = require("dkjson")
local leaves = math.huge
local kvp, timers = os.getenv("VOTE_STATUS_PAID"), {}

local function stored()
  local file = io.open(kvp)
  return file and json.decode(file:read("a")) or {}
end

function GetConvar() return ("%s/api/vote/%s"):format(os.getenv("VOTE_STATUS_URL"), arg[2]) end
function GetConvarInt(_, default) return tonumber(os.getenv("VOTE_STATUS_WAIT") or default) end
function GetGameTimer() return math.floor(1000 * socket.gettime()) end
function GetPlayerName(player) return arg[2 * player + 2] end
function GetPlayerIdentifierByType(player) return "license:" .. arg[2 * player + 2] end
function GetPlayerEndpoint(player) return socket.gettime() < leaves and arg[2 * player + 1] or nil end
function GetResourceKvpString(key) return stored()[key] end
function SetResourceKvp(key, value)
  local all = stored()
  all[key] = value
  io.open(kvp, "w"):write(json.encode(all)):close()
end
function SetTimeout(ms, call) timers[#timers + 1] = { socket.gettime() + ms / 1000, call } end
function PerformHttpRequest(url, call, method, _, headers)
  local parts = {}
  local done, status = http.request { url = url, method = method, headers = headers, sink = ltn12.sink.table(parts) }
  local body = table.concat(parts)
  if done and status < 400 then return call(status, body, {}) end
  call(done and status or 0, nil, {}, ("HTTP %s: %s"):format(status, body)) -- the body comes as a text of the error
end
function AddEventHandler(_, call) for player = 1, #arg // 2 - 1 do source = player call() end end
dofile(arg[1])
leaves = socket.gettime() + tonumber(os.getenv("VOTE_STATUS_SECONDS") or 600)
while timers[1] do
  local due = table.remove(timers, 1)
  socket.sleep(math.max(0, math.min(due[1], leaves) - socket.gettime()))
  due[2]()
end
