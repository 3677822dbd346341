-- A FiveM resource's server script. In server.cfg: set vote_status_url "https://example.org/api/vote/28"
local URL = GetConvar("vote_status_url", "http://localhost:8080/api/vote/28")
local WAIT = GetConvarInt("vote_status_wait", 25)

local function reward(player)
  print(("pay %s"):format(GetPlayerName(player))) -- the server's own reward
end

-- One value, written at once, has both keys: a vote pays one player, and a player once. A FiveM server sees IPv4
-- addresses. For IPv6, take the network: the first 64 bits.
local function pay_once(player, address, next_vote_at)
  local key = ("paid %s %s"):format(URL, next_vote_at)
  local paid = json.decode(GetResourceKvpString(key) or "{}")
  local license = GetPlayerIdentifierByType(player, "license")
  if paid["player " .. license] or paid["address " .. address] then return end
  paid["player " .. license], paid["address " .. address] = true, true
  SetResourceKvp(key, json.encode(paid))
  reward(player)
end

-- Both dates are read as local ones, so the zone and summer time cancel out.
local function seconds_until(next_vote_at)
  local now, date = os.date("!*t"), {}
  date.year, date.month, date.day, date.hour, date.min, date.sec =
    next_vote_at:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)")
  now.isdst, date.isdst = false, false
  return os.time(date) - os.time(now)
end

local function follow(player, pause, said)
  local endpoint = GetPlayerEndpoint(player)
  if not endpoint then return end -- the player has left
  local address = endpoint:match("^(%d+%.%d+%.%d+%.%d+):%d+$") or endpoint
  local asked = GetGameTimer()
  local function again(seconds, next_pause, message)
    SetTimeout(math.floor(1000 * seconds), function() follow(player, next_pause, message) end)
  end
  PerformHttpRequest(("%s/status/%s?wait=%d"):format(URL, address:gsub("%%", "%%25"), WAIT), function(status, body, _, fault)
    local is_json, answer = pcall(json.decode, body or (fault or ""):match("{.*}") or "")
    answer = is_json and type(answer) == "table" and answer or {}
    local has_voted = answer.can_vote == false and type(answer.next_vote_at) == "string"
    if answer.error or not (has_voted or answer.can_vote == true) then -- a fault is never a vote
      local message = answer.message or ("Réponse invalide (%s)"):format(status)
      if message ~= said then print(message) end
      if status >= 400 and status < 500 and status ~= 408 and status ~= 429 then return end
      return again(pause, math.min(2 * pause, 60), message)
    end
    if has_voted then
      pay_once(player, address, answer.next_vote_at)
      return again(math.max(5, seconds_until(answer.next_vote_at)), 5)
    end
    again(GetGameTimer() - asked < 1000 * WAIT and 5 or 0, 5) -- 5 s if the answer came sooner than asked for
  end, "GET", "", { Accept = "application/json" }, { followLocation = false })
end

AddEventHandler("playerJoining", function() follow(source, 5) end)
