-- A new connection for every request, as the PHP clients do.
--   wrk -t1 -c64 -d10s -s close.lua http://127.0.0.1:8080/api/vote/28/status/203.0.113.7
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
dofile(here .. "report.lua")

wrk.headers["User-Agent"] = "curl/8.5.0"
wrk.headers["Accept"] = "*/*"
wrk.headers["Connection"] = "close"
