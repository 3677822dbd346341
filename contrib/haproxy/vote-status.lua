-- What is no request that HAProxy takes: it would answer with a page, or with nothing, and callers in
-- the field take either for a vote. So it goes to a node as it came, the node's answer goes back, and
-- the connection is closed. Where no node answers, the answer is one of the two below.
-- haproxy.cfg loads this file from /etc/haproxy/vote-status.lua.

-- What --cooldown-minutes says: change it here where that is not 90.
local cooldown_minutes = 90
-- Of a caller's 5 s, for each step of asking one node: connecting, and each line of its answer.
local node_timeout_s = 1
-- For all nodes together. The node itself waits longer for a head that does not end.
local all_timeout_s = 3

local function answer(status, extra, message, error)
    local body = '{"success":true,"can_vote":true,"message":"' .. message .. '","next_vote_at":null,"cooldown_minutes":'
        .. cooldown_minutes .. ',"error":"' .. error .. '"}'
    return "HTTP/1.1 " .. status .. "\r\nContent-Type: application/json; charset=utf-8\r\n"
        .. "Cache-Control: no-store\r\nAccess-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n"
        .. extra .. "Content-Length: " .. #body .. "\r\nConnection: close\r\n\r\n", body
end

-- The head of a node's answer, with `Connection: close` for what it says of the connection, and its body.
local function read_answer(node, is_head)
    local lines, length, closes = {}, 0, false
    while true do
        local line = node:receive("*l")
        if not line then return nil end
        if line == "" then break end
        local name, value = line:match("^([^:]+):%s*(.-)%s*$")
        name = name and name:lower()
        if name == "content-length" then length = tonumber(value) or 0 end
        if name == "connection" then closes = closes or value:lower() == "close" else lines[#lines + 1] = line end
    end
    local status = (lines[1] or ""):match("^HTTP/1%.1 (%d%d%d) ")
    -- A node that says 100 waits for contents, which are not passed on: its silence is the end of it.
    if status and status < "200" then return read_answer(node, is_head) end
    local body = ""
    if closes then
        body = node:receive("*a")
    elseif length > 0 and not is_head then
        body = node:receive(length)
    end
    -- Half a body is none. To HEAD there may be none, or the whole one where a node took it for no HEAD.
    local is_whole = body and (#body == length or (is_head and body == ""))
    if not status or not is_whole then return nil end
    return table.concat(lines, "\r\n") .. "\r\nConnection: close\r\n\r\n", body
end

-- Whether the node took the question, and its answer if there was one.
local function ask(server, bytes, is_head)
    local node = core.tcp()
    node:settimeout(node_timeout_s)
    local head, body
    local is_asked = node:connect(server:get_addr()) and node:send(bytes)
    if is_asked then head, body = read_answer(node, is_head) end
    node:close()
    return is_asked, head, body
end

-- Whether what came behind a head is the beginning of plain chunks and their end. Extensions and trailers
-- are not: they are allowed, and nobody sends them.
local function is_well_chunked(contents)
    while contents ~= "" do
        local size, rest = contents:match("^(%x+)\r\n(.*)$")
        if not size then return contents:find("^%x+\r?$") ~= nil and #contents <= 9 end
        if #size > 8 then return false end
        local length = tonumber(size, 16)
        if length == 0 then return rest == "" or rest == "\r" or rest == "\r\n" end
        local last = rest:sub(length + 1, length + 2)
        if last ~= "\r\n" then return last == "" or last == "\r" end
        contents = rest:sub(length + 3)
    end
    return true
end

-- Takes a request with a whole head in hexadecimal digits. HAProxy would answer a bad chunk with its page.
core.register_converters("vote-status-is-well-chunked", function(digits)
    local bytes = digits:gsub("%x%x", function(two) return string.char(tonumber(two, 16)) end)
    return is_well_chunked(bytes:match("\r\n\r\n(.*)$") or "")
end)

core.register_service("vote-status-as-it-came", "tcp", function(applet)
    local bytes = applet:get_var("txn.bytes") or ""
    local is_head = bytes:find("^HEAD ") ~= nil
    local until_s = core.now().sec + all_timeout_s
    local is_asked, head, body
    for _, server in pairs(core.backends["vote-status"].servers) do
        local status = server:get_stats().status
        local may_be_asked = status:find("^UP") or status:find("^no check")
        if may_be_asked and core.now().sec < until_s then
            is_asked, head, body = ask(server, bytes, is_head)
            if head then
                applet:send(head .. body)
                return
            end
        end
    end
    -- A node that is there and silent may wait for the rest of a head.
    if is_asked and not bytes:find("\r\n\r\n", 1, true) then
        head, body = answer("408 Request Timeout", "", "Délai de requête dépassé", "request_timeout")
    else
        head, body = answer("503 Service Unavailable", "Retry-After: 1\r\n", "Service momentanément indisponible", "not_ready")
    end
    applet:send(head .. (is_head and "" or body))
end)
