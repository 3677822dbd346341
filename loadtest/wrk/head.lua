-- Keep-alive, one of the three heads of heads.lua.
--   wrk -t1 -c64 -d10s -s head.lua http://127.0.0.1:8080/api/vote/28/status/203.0.113.7 -- curl|guzzle|browser
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
dofile(here .. "report.lua")

function init(args)
  for name, value in pairs(dofile(here .. "heads.lua")[args[1] or "curl"]) do
    wrk.headers[name] = value
  end
end
