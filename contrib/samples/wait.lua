-- Lua 5.2 or later with LuaSocket and dkjson.
local http, json, ltn12, socket = require("socket.http"), require("dkjson"), require("ltn12"), require("socket")
local BASE = os.getenv("VOTE_STATUS_URL") or "http://localhost:8080"
local PAID = os.getenv("VOTE_STATUS_PAID") or "paid.txt"
local WAIT = tonumber(os.getenv("VOTE_STATUS_WAIT") or 25)
local SECONDS = tonumber(os.getenv("VOTE_STATUS_SECONDS") or 600) -- of play
http.TIMEOUT = WAIT + 10
io.stdout:setvbuf("line")

-- The answer's fields; or nil, what is wrong, and whether asking again does not help. A fault is never a vote.
local function ask(url)
  local parts = {}
  local done, status = http.request { url = url .. "?wait=" .. WAIT, redirect = false, sink = ltn12.sink.table(parts) }
  if not done then return nil, status end
  local answer = json.decode(table.concat(parts))
  answer = type(answer) == "table" and answer or {}
  local has_voted = answer.can_vote == false and type(answer.next_vote_at) == "string"
  if not answer.error and (has_voted or answer.can_vote == true) then return answer end
  local is_final = status >= 400 and status < 500 and status ~= 408 and status ~= 429
  return nil, answer.message or ("Réponse invalide (%d)"):format(status), is_final
end

-- For IPv6, the network.
local function network(ip)
  ip = ip:gsub("^::[fF][fF][fF][fF]:(%d+%.)", "%1")
  if not ip:find(":", 1, true) then return ip end
  local head, tail = ip:match("^(.-)::(.*)$")
  local _, groups = ((head or ip) .. ":" .. (tail or "")):gsub("%x+", "")
  local all = tail and head .. (":0"):rep(8 - groups) .. ":" or ip
  local found = {}
  for group in all:gmatch("%x+") do found[#found + 1] = ("%x"):format(tonumber(group, 16)) end
  return table.concat(found, ":", 1, math.min(4, #found))
end

-- The first line with this vote and this player, or this vote and this address, pays.
-- In a plugin: one INSERT into a table with two unique keys.
local function pay_once(server, ip, player, next_vote_at)
  local vote, key = server .. " " .. next_vote_at, network(ip)
  local mine = table.concat({ vote, player, key, tostring({}) .. socket.gettime() }, "\t")
  local paid = assert(io.open(PAID, "a"))
  assert(paid:write(mine, "\n"))
  assert(paid:close())
  for line in io.lines(PAID) do
    local of, name, address = line:match("^(.-)\t(.-)\t(.-)\t")
    if of == vote and (name == player or address == key) then
      if line == mine then print(("pay %s %s %s %s"):format(server, player, ip, next_vote_at)) end
      return
    end
  end
end

-- Both dates are read as local ones, so the zone and summer time cancel out.
local function seconds_until(next_vote_at)
  local now, date = os.date("!*t"), {}
  date.year, date.month, date.day, date.hour, date.min, date.sec =
    next_vote_at:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)")
  now.isdst, date.isdst = false, false
  return os.time(date) - os.time(now)
end

local function main(server, ip, player)
  local url = ("%s/api/vote/%s/status/%s"):format(BASE, server, ip:gsub("%%", "%%25"))
  local pause, said, has_voted = 5, nil, false
  local leaves = socket.gettime() + SECONDS
  while socket.gettime() < leaves do
    local asked = socket.gettime()
    local answer, fault, is_final = ask(url)
    if not answer then
      if fault ~= said then io.stderr:write(fault, "\n") end
      if is_final then return 2 end
      said = fault
      socket.sleep(pause)
      pause = math.min(2 * pause, 60)
    else
      pause, said = 5, nil
      if not answer.can_vote then
        has_voted = true
        pay_once(server, ip, player, answer.next_vote_at)
        socket.sleep(math.max(5, math.min(seconds_until(answer.next_vote_at), leaves - socket.gettime())))
      elseif socket.gettime() - asked < WAIT then
        socket.sleep(5) -- sooner than asked for
      end
    end
  end
  return has_voted and 0 or 1
end

os.exit(main(arg[1] or "28", arg[2] or "203.0.113.7", arg[3] or "Alex"))
