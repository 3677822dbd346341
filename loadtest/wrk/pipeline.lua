-- Sixteen requests in one segment.
--   wrk -t1 -c64 -d10s -s pipeline.lua http://127.0.0.1:8080/api/vote/28/status/203.0.113.7
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
dofile(here .. "report.lua")

local DEPTH = 16
local batch

function init(args)
  wrk.headers["User-Agent"] = "curl/8.5.0"
  wrk.headers["Accept"] = "*/*"
  batch = string.rep(wrk.format(), DEPTH)
end

function request()
  return batch
end
