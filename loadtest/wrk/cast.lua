-- Single durable votes, each for an address of its own.
--   wrk -t1 -c64 -d10s -s cast.lua http://127.0.0.1:8081 -- KEY FIRST
-- FIRST numbers the first address; every vote takes the next.
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
dofile(here .. "report.lua")

local floor, nth, head = math.floor, 0, ""

function init(args)
  nth = tonumber(args[2]) or 0
  head = "POST /v1/votes HTTP/1.1\r\nHost: control\r\nAuthorization: Bearer " .. args[1]
    .. "\r\nContent-Type: application/json\r\nContent-Length: "
end

function request()
  nth = nth + 1
  local body = string.format('{"server_id":28,"ip":"%d.%d.%d.%d"}',
    1 + floor(nth / 16777216) % 200, floor(nth / 65536) % 256, floor(nth / 256) % 256, nth % 256)
  return head .. #body .. "\r\n\r\n" .. body
end
