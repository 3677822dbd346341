-- The three request heads seen in the field, as header tables for wrk. `Host` is wrk's own.
local browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"

return {
  -- curl and the shops that call it: four lines with Host.
  curl = {
    ["User-Agent"] = "curl/8.5.0",
    ["Accept"] = "*/*",
  },
  -- A PHP client (Guzzle) whose call comes in through a content delivery network: 24 lines with Host.
  guzzle = {
    ["User-Agent"] = "GuzzleHttp/7",
    ["Accept"] = "application/json",
    ["Accept-Encoding"] = "gzip, br",
    ["Content-Type"] = "application/json",
    ["CDN-Loop"] = "cdn-example; loops=1",
    ["CF-Connecting-IP"] = "198.51.100.24",
    ["CF-IPCountry"] = "FR",
    ["CF-RAY"] = "8e5c1a2b3c4d5e6f-CDG",
    ["CF-Visitor"] = '{"scheme":"https"}',
    ["X-Forwarded-For"] = "198.51.100.24",
    ["X-Forwarded-Proto"] = "https",
    ["X-Forwarded-Host"] = "votes.example.org",
    ["X-Forwarded-Port"] = "443",
    ["X-Forwarded-Server"] = "edge-7.example.org",
    ["X-Real-IP"] = "198.51.100.24",
    ["X-Request-ID"] = "6b1f6d0e4f7c4a7f9d0a2f5a3e1c9b84",
    ["X-Amzn-Trace-Id"] = "Root=1-673d8f2a-4c1b2a3d4e5f60718293a4b5",
    ["Via"] = "1.1 edge-7.example.org",
    ["Forwarded"] = "for=198.51.100.24;proto=https;host=votes.example.org",
    ["traceparent"] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ["tracestate"] = "edge=t61rcWkgMzE",
    ["Cache-Control"] = "no-cache",
    ["Pragma"] = "no-cache",
  },
  -- A page that asks with fetch().
  browser = {
    ["User-Agent"] = browser,
    ["Accept"] = "application/json, text/plain, */*",
    ["Accept-Language"] = "fr-FR,fr;q=0.9,en-US;q=0.8,en;q=0.7",
    ["Accept-Encoding"] = "gzip, deflate, br, zstd",
    ["Origin"] = "https://www.example.org",
    ["Referer"] = "https://www.example.org/vote",
    ["Connection"] = "keep-alive",
    ["DNT"] = "1",
    ["Sec-Fetch-Dest"] = "empty",
    ["Sec-Fetch-Mode"] = "cors",
    ["Sec-Fetch-Site"] = "cross-site",
    ["sec-ch-ua"] = '"Chromium";v="130", "Not?A_Brand";v="99"',
    ["sec-ch-ua-mobile"] = "?0",
    ["sec-ch-ua-platform"] = '"Linux"',
    ["Priority"] = "u=1, i",
  },
}
