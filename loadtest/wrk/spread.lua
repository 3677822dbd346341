-- Reads spread over all cooldowns, one in ten in cooldown.
--   wrk -t1 -c64 -d10s -s spread.lua http://127.0.0.1:8080 -- COOLDOWNS
-- The run loads these cooldowns: servers 1000 to 1999, and for each of them the addresses
-- 110.120.100.100, .101, ... (two octets of 100 to 199). The other nine of ten requests ask for 111.120.x.y,
-- which is never in cooldown; all requests have the same length.
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
dofile(here .. "report.lua")

local SERVERS, ADDRESSES = 1000, 10000
local random, floor = math.random, math.floor
local head, tail, per_server

function init(args)
  per_server = floor((tonumber(args[1]) or SERVERS) / SERVERS)
  math.randomseed(28)
  head = "GET /api/vote/"
  tail = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"
end

function request()
  local first, nth = "/status/111.120.", random(0, ADDRESSES - 1)
  if random(10) == 1 then
    first, nth = "/status/110.120.", random(0, per_server - 1)
  end
  return head .. random(1000, 999 + SERVERS) .. first
    .. (100 + floor(nth / 100)) .. "." .. (100 + nth % 100) .. tail
end
