-- The answer of the nginx + Lua + Redis peer: one MGET over a pooled connection, and a format string
-- for a body this small.
local redis = require "nginx.redis"

local COOLDOWN_MINUTES = 90
local CAN_VOTE = '{"success":true,"can_vote":true,"message":"%s","next_vote_at":null,"cooldown_minutes":'
  .. COOLDOWN_MINUTES .. '%s}'
local IN_COOLDOWN = '{"success":false,"can_vote":false,"message":"Vous pourrez voter à nouveau dans %d minutes",'
  .. '"next_vote_at":"%s","cooldown_minutes":' .. COOLDOWN_MINUTES .. '}'

local M = {}

local function refuse(status, message, word)
  ngx.status = status
  ngx.print(CAN_VOTE:format(message, ',"error":"' .. word .. '"'))
end

function M.answer(port, id, ip)
  local store = redis:new()
  store:set_timeout(1000)
  local connected = store:connect("127.0.0.1", port)
  local found = connected and store:mget("server:" .. id, "cooldown:" .. id .. ":" .. ip)
  if not found then
    return refuse(503, "Service momentanément indisponible", "not_ready")
  end
  store:set_keepalive(60000, 1024)
  if found[1] == ngx.null then
    return refuse(404, "Serveur inconnu", "unknown_server")
  end
  local left = found[2] ~= ngx.null and tonumber(found[2]) - ngx.time() or 0
  if left <= 0 then
    return ngx.print(CAN_VOTE:format("Vous pouvez voter maintenant", ""))
  end
  local instant = os.date("!%Y-%m-%dT%H:%M:%SZ", tonumber(found[2]))
  ngx.print(IN_COOLDOWN:format(math.ceil(left / 60), instant))
end

return M
