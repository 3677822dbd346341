#!lua name=vote_status

-- What every node has the store do, each in one atomic step. All instants are whole seconds.
--
-- Scripts are not rolled back on an error, so every read comes before the first write: the reads
-- find keys of a wrong type while nothing has been changed yet. For the same reason each function
-- asks whether its caller may make all of the writes, before the first of them. All keys are declared.
--
-- An IPv4 address is its number in decimal digits, ten at most. An IPv6 network is its first 64 bits in 16
-- hexadecimal digits, which the node has cut to the store's prefix.
--
-- A vote is server, address and instant. Each listing of a server has an id of its own, drawn by a node. `gone` has
-- what was taken away, until the last vote that it ends is over anyway: votes as server:address:instant, listings by
-- their ids, and by the server's number the latest second of the votes that went with its last listing. What a node
-- gives back is refused where that very vote or listing was taken away, whatever else was.

-- The log is only transport; a node that was away for longer reads the state whole.
local LOG_KEEP_MS = 1800000
-- Names of the log go on by the clock, unless they are ahead of it by more than this.
local NAMES_AHEAD_MS = 1000
-- A vote may be stamped this far ahead of the store's clock.
local AHEAD_MAX_S = 5
-- A server's votes are gone this long after the last of them has ended.
local SPARE_S = 60
-- Entries of others that are looked through for the newest one of ours.
local STRANGE_MAX = 1000
-- A node that has said nothing for so long is not waited for.
local NODE_SILENT_S = 60
-- Numbers up to here are exact.
local EXACT_MAX = 9007199254740991

local LATE = { err = 'VSLATE it came when nobody waited for it any more: nothing was done' }
local FOREIGN = { err = 'VSSTORE this store is empty, or another one than the node follows' }

local function text(number)
  return string.format('%.0f', number)
end

-- Reads. Of a key of a wrong type the store says all but its name.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) == 'table' and reply.err then
    if string.match(reply.err, '^WRONGTYPE') then
      error({ err = 'VSKEY ' .. key .. ' is no key of vote-status: ' .. command .. ' does not fit its type' })
    end
    error(reply)
  end
  return reply
end

-- A member's score; nil where it is none.
local function score(key, member)
  return tonumber(read('ZSCORE', key, member) or nil)
end

-- Now, in seconds and in milliseconds.
local function time()
  local parts = redis.call('TIME')
  return tonumber(parts[1]), parts[1] * 1000 + math.floor(parts[2] / 1000)
end

-- A call, as it is told: a command and its key.
local function name_of(call)
  return string.lower(call[1]) .. ' ' .. (call.key or call[2])
end

-- The first of these calls that the caller may not make, as a refusal. Each has as many arguments as it needs to be one.
local function denied(...)
  for _, call in ipairs({ ... }) do
    if not redis.acl_check_cmd(unpack(call)) then
      return { err = 'VSRIGHTS the user of this node may not ' .. name_of(call) .. ': nothing was done' }
    end
  end
end

-- The number that an entry of ours begins with.
local function number_of(entry)
  return entry[2][1] == 'n' and string.match(entry[2][2], '^%d+$') and tonumber(entry[2][2])
end

-- Of the log: number of our newest entry, milliseconds of the newest one, which another program may have written, and
-- name of ours.
local function newest(log)
  local entry = read('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if not entry then
    return 0, 0, '0-0'
  end
  local last = entry[1]
  local last_ms = tonumber(string.match(last, '^%d+'))
  local n = number_of(entry)
  if not n then
    local latest = read('XREVRANGE', log, last, '-', 'COUNT', STRANGE_MAX)
    for _, older in ipairs(latest) do
      n = number_of(older)
      if n then
        return n, last_ms, older[1]
      end
    end
    if #latest == STRANGE_MAX or last_ms > EXACT_MAX then
      error({ err = 'VSLOG ' .. log .. ' is full of what vote-status did not write, up to ' .. last .. ': DEL it' })
    end
    return 0, last_ms, '0-0'
  end
  return n, last_ms, last
end

-- What every change begins with: whether the store is the one that is meant, whether the caller still waits, and whether
-- the server is listed. A caller says until when it waits, in milliseconds of the store's clock, and the change is made by
-- then or never: the network may hold a call up for as long as it likes, while its caller was told that nobody knows, and a
-- cancellation would end a later vote that was acknowledged. What is given back may come at any time, and says ''.
--
-- keys: log, claims of the server, dir, tok, meta, gone; args: store, until, server, and what `make` wants besides.
-- `make` is given what there is to know of the call: its keys, the server and its record, the length of the cooldown, now
-- in seconds, and for `append` the number and the milliseconds of the log's last entry, and how far names are ahead of
-- the clock where that has changed.
local function change(is_of_listed, make)
  return function(keys, args)
    local log, claims, dir, tok, meta, gone = unpack(keys)
    local held = read('HMGET', meta, 'store', 'cd', 'ahead')
    local cd = tonumber(held[2])
    if held[1] ~= args[1] or not cd then
      return FOREIGN
    end
    local now_s, now_ms = time()
    if args[2] ~= '' and now_ms > tonumber(args[2]) then
      return LATE
    end
    local n, last_ms = newest(log)
    local record = read('HGET', dir, args[3])
    if is_of_listed and not record then
      return { 5 }
    end
    -- Where the clock has gone back, names keep the distance that they had then, and go on as fast as it does: so the
    -- log is trimmed by its own names.
    local kept, ahead = tonumber(held[3]) or 0, 0
    if last_ms > now_ms + NAMES_AHEAD_MS then
      ahead = math.max(last_ms - now_ms, kept)
    end
    local call = {
      log = log,
      claims = claims,
      dir = dir,
      tok = tok,
      meta = meta,
      gone = gone,
      server = args[3],
      record = record,
      cd = cd,
      now_s = now_s,
      n = n,
      ms = math.max(now_ms + ahead, last_ms),
      ahead = ahead ~= kept and ahead,
    }
    return make(call, unpack(args, 4))
  end
end

-- Appends an entry. The first one says also how far names are ahead of the clock, where that has changed.
local function append(call, ...)
  if call.ahead then
    redis.call('HSET', call.meta, 'ahead', text(call.ahead))
    call.ahead = false
  end
  call.n = call.n + 1
  local name, oldest = text(call.ms) .. '-*', text(call.ms - LOG_KEEP_MS)
  return redis.call('XADD', call.log, 'MINID', '~', oldest, name, 'n', text(call.n), ...)
end

-- Whether the caller may append an entry, and make these calls.
local function may_append(call, ...)
  local refusal = call.ahead and denied({ 'HSET', call.meta, 'ahead', '0' })
  return refusal or denied({ 'XADD', call.log, '*', 'n', '1' }, ...)
end

-- Makes t the vote of all these addresses, for each of which the claims were asked before. Gives the name of the
-- last entry that says so; or a refusal. An entry says t only where its name does not, and with 'm' how many more of
-- the same vote follow: nodes show all of them or none.
local function put(call, ips, t)
  local claims = call.claims
  local refusal = may_append(
    call,
    { 'ZREMRANGEBYSCORE', claims, '-inf', '0' },
    { 'ZADD', claims, '0', '0' },
    { 'PEXPIRE', claims, '1' }
  )
  if refusal then
    return nil, refusal
  end
  local is_said = math.floor(call.ms / 1000) == t
  local entry
  for at, ip in ipairs(ips) do
    local fields = { 's', call.server, 'i', ip }
    if not is_said then
      table.insert(fields, 't')
      table.insert(fields, text(t))
    end
    if at < #ips then
      table.insert(fields, 'm')
      table.insert(fields, text(#ips - at))
    end
    entry = append(call, unpack(fields))
  end
  -- What is over goes: a clock that is set back brings none of it back.
  redis.call('ZREMRANGEBYSCORE', claims, '-inf', call.now_s - call.cd)
  for _, ip in ipairs(ips) do
    redis.call('ZADD', claims, t, ip)
  end
  -- The last vote may be ahead of a clock that has gone back.
  local last = redis.call('ZRANGE', claims, -1, -1, 'WITHSCORES')
  redis.call('PEXPIRE', claims, text((last[2] - call.now_s + call.cd + SPARE_S) * 1000))
  return entry
end

-- The arguments, each once.
local function each_once(...)
  local ips, known = {}, {}
  for _, ip in ipairs({ ... }) do
    if not known[ip] then
      known[ip] = true
      table.insert(ips, ip)
    end
  end
  return ips
end

local function vote_name(call, ip, t)
  return call.server .. ':' .. ip .. ':' .. text(t)
end

-- more args: 'cast' or 'record', t or '', and the addresses that the voter was seen with: one vote, which counts for
-- all of them or for none
-- {0, t, entry} recorded; {1, t} unchanged; {2, t, address} in cooldown since t, the latest; {3} over already;
-- {4} in the future; {5} no such server; {6} too many changes of this vote within seconds
--
-- Server, address and instant are what a reward is made unique by. So a vote that is cast is never one that was taken
-- away: it gets the next second that is free, and a later one than all votes of an earlier listing had. What is
-- recorded is of the caller's own books: it stays as it is, and of each address the later vote stays.
local function vote(call, mode, said, ...)
  local gone, cd, now_s = call.gone, call.cd, call.now_s
  local ips, t = each_once(...), tonumber(said) or now_s
  if t > now_s + AHEAD_MAX_S then
    return { 4 }
  end
  if t + cd <= now_s then
    return { 3 }
  end
  local latest, latest_ip
  local earlier, back = {}, {}
  for _, ip in ipairs(ips) do
    local held = score(call.claims, ip)
    local is_live = held and now_s < held + cd
    if is_live and held > (latest or -1) then
      latest, latest_ip = held, ip
    end
    if not (is_live and held >= t) then
      table.insert(earlier, ip)
      local name = mode == 'record' and vote_name(call, ip, t)
      if name and score(gone, name) then
        table.insert(back, name)
      end
    end
  end
  if mode == 'cast' then
    if latest then
      return { 2, latest, latest_ip }
    end
    local removed = score(gone, call.server)
    if removed and removed <= now_s + AHEAD_MAX_S then
      -- Else the clock has gone back since, which is no reason to refuse every vote.
      t = math.max(t, removed + 1)
    end
    local at = 1
    while at <= #ips do
      if t > now_s + AHEAD_MAX_S then
        return { 6 }
      elseif score(gone, vote_name(call, ips[at], t)) then
        t, at = t + 1, 1
      else
        at = at + 1
      end
    end
  elseif #earlier == 0 then
    return { 1, latest }
  end
  local refusal = #back > 0 and denied({ 'ZREM', gone, back[1] })
  if refusal then
    return refusal
  end
  local entry, refused = put(call, earlier, t)
  if not entry then
    return refused
  end
  for _, name in ipairs(back) do
    -- That very vote counts again: should it be lost, it may be given back.
    redis.call('ZREM', gone, name)
  end
  return { 0, t, entry }
end

-- more args: address
-- {0, t, entry} cancelled; {1} no cooldown; {5} no such server
local function cancel(call, ip)
  local claims, gone = call.claims, call.gone
  local held = score(claims, ip)
  if not held or call.now_s >= held + call.cd then
    return { 1 }
  end
  local name = vote_name(call, ip, held)
  score(gone, name)
  local refusal = may_append(
    call,
    { 'ZREM', claims, ip },
    { 'ZREMRANGEBYSCORE', gone, '-inf', '0' },
    { 'ZADD', gone, '0', name }
  )
  if refusal then
    return refusal
  end
  local entry = append(call, 's', call.server, 'i', ip, 'c', text(held))
  redis.call('ZREM', claims, ip)
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', call.now_s - call.cd)
  redis.call('ZADD', gone, held, name)
  return { 0, held, entry }
end

-- Takes back a vote that this store had lost and a node still knows, also one that is ahead of the store's
-- clock: another machine's had stamped it. Refused where the pair has that vote or a later one, where the
-- vote was cancelled, and where its listing was removed; with what the pair has, for the node to show.
-- more args: address, t, the listing under which it was given
-- {0, t, entry} restored; {1} refused, the pair has none; {1, t} refused, it has this one
local function restore(call, ip, said, listing)
  local t, held = tonumber(said), score(call.claims, ip)
  local is_past = t + call.cd <= call.now_s or held and held >= t
  if is_past or not call.record or score(call.gone, vote_name(call, ip, t)) or score(call.gone, listing) then
    return { 1, call.record and held or nil }
  end
  local entry, refused = put(call, { ip }, t)
  return refused or { 0, t, entry }
end

-- A record is its version, the token and the id of the listing; what a later version adds comes after another ';'.
local function parts_of(record)
  return string.match(record, '^v1;([^;]+);?([^;]*)')
end

-- Whether another server has this token. A store that drops keys may have lost the directory and kept the tokens.
local function is_of_another(call, token)
  local holder = read('HGET', call.tok, token)
  return holder and holder ~= call.server
end

-- Writes the record, of which the token is no other server's. Gives {what, token, entry}; or a refusal.
local function list(call, what, token, listing, former)
  local dir, tok, id = call.dir, call.tok, call.server
  local refusal = may_append(call, { 'HSET', dir, id, '' }, { 'HSET', tok, token, '' }, { 'HDEL', tok, token })
  if refusal then
    return refusal
  end
  local record = 'v1;' .. token .. ';' .. listing
  local entry = append(call, 'd', id, 'r', record)
  if former then
    redis.call('HDEL', tok, former)
  end
  redis.call('HSET', dir, id, record)
  redis.call('HSET', tok, token, id)
  return { what, token, entry }
end

-- more args: 'list' or 'rotate', token or '', token to take where none is said, id of the listing where it is a new one
-- {0, token, entry} listed; {1, token, entry} another token; {2, token} unchanged; {3} another server's token;
-- {5} no such server
local function server(call, mode, said, spare, listing)
  local held, listed
  if call.record then
    held, listed = parts_of(call.record)
  end
  if mode == 'rotate' then
    if not held then
      return { 5 }
    end
  elseif held and (said == '' or said == held) then
    return { 2, held }
  end
  local token = said ~= '' and said or spare
  if is_of_another(call, token) then
    return { 3 }
  end
  return list(call, held and 1 or 0, token, listed and listed ~= '' and listed or listing, held)
end

-- Takes back a server that this store had lost and a node still knows. Refused where it is listed, where that
-- listing was removed, and where its token is another server's by now.
-- more args: token, id of the listing
-- {0, token, entry} listed; {1} refused; {1, record} refused, as it is listed so
local function relist(call, token, listing)
  if call.record or is_of_another(call, token) or score(call.gone, listing) then
    return { 1, call.record or nil }
  end
  return list(call, 0, token, listing)
end

-- {0, '', entry} removed; {5} no such server
local function remove(call)
  local claims, dir, tok, gone, id = call.claims, call.dir, call.tok, call.gone, call.server
  local held, listing = parts_of(call.record)
  read('HGET', tok, '')
  -- Up to when its votes were cast: some may be ahead of the clock, and the store may have lost some of the last ones.
  local last = read('ZRANGE', claims, -1, -1, 'WITHSCORES')
  local latest = math.max(call.now_s, score(gone, id) or 0, tonumber(last[2]) or 0)
  local refusal = may_append(
    call,
    { 'HDEL', dir, id },
    { 'HDEL', tok, '1' },
    { 'UNLINK', claims },
    { 'ZREMRANGEBYSCORE', gone, '-inf', '0' },
    { 'ZADD', gone, '0', id }
  )
  if refusal then
    return refusal
  end
  local entry = append(call, 'd', id, 'r', '')
  redis.call('HDEL', dir, id)
  if held then
    redis.call('HDEL', tok, held)
  end
  redis.call('UNLINK', claims)
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', call.now_s - call.cd)
  redis.call('ZADD', gone, math.min(latest, call.now_s + AHEAD_MAX_S), id)
  if listing and listing ~= '' then
    redis.call('ZADD', gone, latest + AHEAD_MAX_S, listing)
  end
  return { 0, '', entry }
end

-- Where the log ends: {seconds, microseconds, n, our newest entry, store}. keys: log, meta
local function head(keys)
  local log, meta = keys[1], keys[2]
  local parts = redis.call('TIME')
  local n, _, name = newest(log)
  return { tonumber(parts[1]), tonumber(parts[2]), n, name, read('HGET', meta, 'store') or '' }
end

-- What the caller may not do, each as a command and its key: all that nodes have done here and do themselves.
-- keys: log, claims of any server, dir, tok, meta, gone, nodes
local function rights(keys)
  local log, claims, dir, tok, meta, gone, nodes = unpack(keys)
  local missing = {}
  for _, call in ipairs({
    { 'XADD', log, '*', 'n', '1' },
    { 'XREVRANGE', log, '+', '-' },
    { 'XREAD', 'STREAMS', log, '0-0', key = log },
    { 'HGET', dir, '1' },
    { 'HGETALL', dir },
    { 'HSET', dir, '1', '' },
    { 'HDEL', dir, '1' },
    { 'HMGET', tok, '1' },
    { 'HGET', tok, '1' },
    { 'HSET', tok, '1', '' },
    { 'HDEL', tok, '1' },
    { 'HGET', meta, 'store' },
    { 'HMGET', meta, 'store' },
    { 'HSET', meta, 'ahead', '0' },
    { 'ZSCORE', gone, '1' },
    { 'ZADD', gone, '0', '1' },
    { 'ZREM', gone, '1' },
    { 'ZREMRANGEBYSCORE', gone, '0', '1' },
    { 'ZSCORE', claims, '1' },
    { 'ZADD', claims, '0', '1' },
    { 'ZREM', claims, '1' },
    { 'ZRANGE', claims, '0', '1' },
    { 'ZRANGEBYSCORE', claims, '0', '1' },
    { 'ZREMRANGEBYSCORE', claims, '0', '1' },
    { 'PEXPIRE', claims, '1' },
    { 'UNLINK', claims },
    { 'HGETALL', nodes },
    { 'HSET', nodes, '1', '' },
    { 'HDEL', nodes, '1' },
  }) do
    if denied(call) then
      table.insert(missing, name_of(call))
    end
  end
  return missing
end

-- A node says up to which of the store's histories it has given back all that it knows. Who starts in one that
-- it does not know waits for the others to say so of it. A record is the history, and the second in which it
-- was said; what a later version adds comes after another ';'.
-- keys: meta, nodes; args: store, node, history, the node's name before its restart or '',
-- 'tidy' to forget nodes that have long said nothing
-- 1 once it is noted
local function node(keys, args)
  local meta, nodes = keys[1], keys[2]
  local store, name, history, former, tidy = unpack(args)
  if read('HGET', meta, 'store') ~= store then
    return FOREIGN
  end
  local known = read('HGETALL', nodes)
  local refusal = denied({ 'HSET', nodes, '1', '' }, { 'HDEL', nodes, '1' })
  if refusal then
    return refusal
  end
  local now_s = time()
  for at = 1, #known, 2 do
    local other, record = known[at], known[at + 1]
    local seen_s = tonumber(string.match(record, '^[^;]*;(%d+)') or 0)
    local is_silent = tidy == 'tidy' and math.abs(now_s - seen_s) > NODE_SILENT_S
    if other == former or is_silent then
      redis.call('HDEL', nodes, other)
    end
  end
  redis.call('HSET', nodes, name, history .. ';' .. text(now_s))
  return 1
end

-- Gives an empty store its id, once. keys: meta; args: id, cooldown in seconds, bits of an IPv6 network
-- {1 where it has it now and 0 where it had one, id, cooldown in seconds, bits}
local function init(keys, args)
  local held = read('HMGET', keys[1], 'store', 'cd', 'v6')
  if held[1] then
    return { 0, held[1], tonumber(held[2] or 0), tonumber(held[3] or 0) }
  end
  local refusal = denied({ 'HSET', keys[1], 'store', '' })
  if refusal then
    return refusal
  end
  redis.call('HSET', keys[1], 'store', args[1], 'schema', '2', 'cd', args[2], 'v6', args[3])
  return { 1, args[1], tonumber(args[2]), tonumber(args[3]) }
end

-- Gives the store another id where it has this one. keys: meta; args: from, to; 1 where it has it now
local function adopt(keys, args)
  if read('HGET', keys[1], 'store') ~= args[1] then
    return 0
  end
  redis.call('HSET', keys[1], 'store', args[2])
  return 1
end

redis.register_function('vote_status_vote', change(true, vote))
redis.register_function('vote_status_cancel', change(true, cancel))
redis.register_function('vote_status_restore', change(false, restore))
redis.register_function('vote_status_server', change(false, server))
redis.register_function('vote_status_relist', change(false, relist))
redis.register_function('vote_status_remove', change(true, remove))
redis.register_function('vote_status_node', node)
redis.register_function({ function_name = 'vote_status_rights', callback = rights, flags = { 'no-writes' } })
redis.register_function({ function_name = 'vote_status_head', callback = head, flags = { 'no-writes' } })
redis.register_function('vote_status_init', init)
redis.register_function('vote_status_adopt', adopt)
