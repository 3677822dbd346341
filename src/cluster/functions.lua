#!lua name=vote_status

-- What every node has the store do, each in one atomic step. All instants are whole seconds.
--
-- Scripts are not rolled back on an error, so every read comes before the first write: the reads
-- find keys of a wrong type while nothing has been changed yet. For the same reason each function
-- asks whether its caller may make all of the writes, before the first of them. All keys are declared.
--
-- An IPv4 address is its number in decimal digits, ten at most. An IPv6 network is its first 64 bits in 16
-- hexadecimal digits, which the node has cut to the store's prefix.

-- The log is only transport; a node that was away for longer reads the state whole.
local LOG_KEEP_MS = 1800000
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

-- Now, in seconds and in milliseconds.
local function time()
  local parts = redis.call('TIME')
  return tonumber(parts[1]), parts[1] * 1000 + math.floor(parts[2] / 1000)
end

-- The length of the cooldown in seconds; nil where the store is not the one that is meant.
local function cooldown(meta, store)
  local held = redis.call('HMGET', meta, 'store', 'cd')
  return held[1] == store and tonumber(held[2]) or nil
end

-- The first of these calls that the caller may not make, as a refusal. Each is a command and its key, with
-- as many arguments as it needs to be one.
local function denied(...)
  for _, call in ipairs({ ... }) do
    if not redis.acl_check_cmd(unpack(call)) then
      local what = string.lower(call[1]) .. ' ' .. call[2]
      return { err = 'VSRIGHTS the user of this node may not ' .. what .. ': nothing was done' }
    end
  end
end

-- A member's score; nil where it is none.
local function score(key, member)
  return tonumber(redis.call('ZSCORE', key, member) or nil)
end

-- The number that an entry of ours begins with.
local function number_of(entry)
  return entry[2][1] == 'n' and string.match(entry[2][2], '^%d+$') and tonumber(entry[2][2])
end

-- Of the log: number of our newest entry, milliseconds of the newest one, name of ours, name of the newest.
-- They differ where somebody else has written there, whom nobody has asked to.
local function newest(log)
  local entry = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if not entry then
    return 0, 0, '0-0', '0-0'
  end
  local last = entry[1]
  local last_ms = tonumber(string.match(last, '^%d+'))
  local n = number_of(entry)
  if not n then
    local latest = redis.call('XREVRANGE', log, last, '-', 'COUNT', STRANGE_MAX)
    for _, older in ipairs(latest) do
      n = number_of(older)
      if n then
        return n, last_ms, older[1], last
      end
    end
    if #latest == STRANGE_MAX or last_ms > EXACT_MAX then
      error({ err = 'VSLOG ' .. log .. ' is full of what vote-status did not write, up to ' .. last .. ': DEL it' })
    end
    return 0, last_ms, '0-0', last
  end
  return n, last_ms, last, last
end

-- Appends an entry. Names go on from the last one where the clock has gone back.
local function append(log, n, last_ms, now_ms, ...)
  local name = text(math.max(now_ms, last_ms)) .. '-*'
  return redis.call('XADD', log, 'MINID', '~', text(now_ms - LOG_KEEP_MS), name, 'n', text(n + 1), ...)
end

-- Makes t the vote of all these addresses, for each of which the claims were asked before. Gives the name of the
-- last entry that says so; or a refusal. An entry says t only where its name does not, and with 'm' how many more of
-- the same vote follow: nodes show all of them or none.
local function put(log, claims, server, ips, t, cd, now_s, now_ms)
  local n, last_ms = newest(log)
  local refusal = denied(
    { 'XADD', log, '*', 'n', '1' },
    { 'ZREMRANGEBYSCORE', claims, '-inf', '0' },
    { 'ZADD', claims, '0', '0' },
    { 'PEXPIRE', claims, '1' }
  )
  if refusal then
    return nil, refusal
  end
  local is_said = math.floor(math.max(now_ms, last_ms) / 1000) == t
  local entry
  for at, ip in ipairs(ips) do
    local fields = { 's', server, 'i', ip }
    if not is_said then
      table.insert(fields, 't')
      table.insert(fields, text(t))
    end
    if at < #ips then
      table.insert(fields, 'm')
      table.insert(fields, text(#ips - at))
    end
    entry = append(log, n + at - 1, last_ms, now_ms, unpack(fields))
  end
  -- What is over goes: a clock that is set back brings none of it back.
  redis.call('ZREMRANGEBYSCORE', claims, '-inf', now_s - cd)
  for _, ip in ipairs(ips) do
    redis.call('ZADD', claims, t, ip)
  end
  redis.call('PEXPIRE', claims, (cd + SPARE_S) * 1000)
  return entry
end

-- The arguments from this one on, each once.
local function each_once(args, from)
  local ips, known = {}, {}
  for at = from, #args do
    if not known[args[at]] then
      known[args[at]] = true
      table.insert(ips, args[at])
    end
  end
  return ips
end

-- What a caller has asked for is done until the instant that it says, in milliseconds of the store's clock, and
-- never later. The network may hold a call up for as long as it likes, while its caller was told that nobody
-- knows: a cancellation would end a later vote that was acknowledged.

-- keys: log, claims of the server, dir, meta, gone; args: store, until, 'cast' or 'record', server,
-- t or '', and the addresses that the voter was seen with: one vote, which counts for all of them or for none
-- {0, t, entry} recorded; {1, t} unchanged; {2, t, address} in cooldown since t, the latest; {3} over already;
-- {4} in the future; {5} no such server
--
-- Server, address and instant are what a reward is made unique by. So a vote that is cast once another one of
-- the pair was taken away, with its server or alone, is of a later second than that one, also where the clock
-- has not come so far. What is recorded is of the caller's own books: it stays as it is, and of each address the
-- later vote stays.
local function vote(keys, args)
  local log, claims, dir, meta, gone = unpack(keys)
  local store, until_ms, mode, server, ips = args[1], tonumber(args[2]), args[3], args[4], each_once(args, 6)
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  local now_s, now_ms = time()
  if now_ms > until_ms then
    return LATE
  end
  if not redis.call('HGET', dir, server) then
    return { 5 }
  end
  local t = tonumber(args[5]) or now_s
  if t > now_s + AHEAD_MAX_S then
    return { 4 }
  end
  if t + cd <= now_s then
    return { 3 }
  end
  local removed = score(gone, server)
  local latest, latest_ip, cancelled_last
  local earlier, back = {}, {}
  for _, ip in ipairs(ips) do
    local pair = server .. ':' .. ip
    local held, cancelled = score(claims, ip), score(gone, pair)
    local is_live = held and now_s < held + cd
    if is_live and held > (latest or -1) then
      latest, latest_ip = held, ip
    end
    if not (is_live and held >= t) then
      table.insert(earlier, ip)
      if mode == 'record' and cancelled == t then
        table.insert(back, pair)
      end
    end
    cancelled_last = math.max(cancelled_last or -1, cancelled or -1)
  end
  if mode == 'cast' then
    if latest then
      return { 2, latest, latest_ip }
    end
    t = math.max(t, cancelled_last + 1)
    if args[5] == '' then
      -- When the votes of a removed server were cast is known no more: before it was removed.
      t = math.max(t, (removed or -1) + 1)
    end
  elseif #earlier == 0 then
    return { 1, latest }
  end
  local refusal = #back > 0 and denied({ 'ZREM', gone, back[1] })
  if refusal then
    return refusal
  end
  local entry, refused = put(log, claims, server, earlier, t, cd, now_s, now_ms)
  if not entry then
    return refused
  end
  for _, pair in ipairs(back) do
    -- That very vote counts again: should it be lost, it may be given back.
    redis.call('ZREM', gone, pair)
  end
  return { 0, t, entry }
end

-- keys: log, claims of the server, dir, meta, gone; args: store, until, server, address
-- {0, t, entry} cancelled; {1} no cooldown; {5} no such server
local function cancel(keys, args)
  local log, claims, dir, meta, gone = unpack(keys)
  local store, until_ms, server, ip = args[1], tonumber(args[2]), args[3], args[4]
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  local now_s, now_ms = time()
  if now_ms > until_ms then
    return LATE
  end
  if not redis.call('HGET', dir, server) then
    return { 5 }
  end
  local held = score(claims, ip)
  if not held or now_s >= held + cd then
    return { 1 }
  end
  local pair = server .. ':' .. ip
  local before = score(gone, pair)
  local n, last_ms = newest(log)
  local refusal = denied(
    { 'XADD', log, '*', 'n', '1' },
    { 'ZREM', claims, ip },
    { 'ZREMRANGEBYSCORE', gone, '-inf', '0' },
    { 'ZADD', gone, '0', pair }
  )
  if refusal then
    return refusal
  end
  local entry = append(log, n, last_ms, now_ms, 's', server, 'i', ip, 'c', text(held))
  redis.call('ZREM', claims, ip)
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', now_s - cd)
  redis.call('ZADD', gone, math.max(held, before or 0), pair)
  return { 0, held, entry }
end

-- Takes back a vote that this store had lost and a node still knows, also one that is ahead of the store's
-- clock: another machine's had stamped it. Refused where the pair has that vote or a later one, where the
-- vote was cancelled, and where its server was removed since; with what the pair has, for the node to show.
-- keys: log, claims of the server, dir, meta, gone; args: store, server, address, t
-- {0, t, entry} restored; {1} refused, the pair has none; {1, t} refused, it has this one
local function restore(keys, args)
  local log, claims, dir, meta, gone = unpack(keys)
  local store, server, ip, t = args[1], args[2], args[3], tonumber(args[4])
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  local now_s, now_ms = time()
  local record = redis.call('HGET', dir, server)
  local held, removed = score(claims, ip), score(gone, server)
  local cancelled = score(gone, server .. ':' .. ip)
  local is_past = t + cd <= now_s or held and held >= t or cancelled and cancelled >= t or removed and removed >= t
  if is_past or not record then
    return { 1, record and held or nil }
  end
  local entry, refused = put(log, claims, server, { ip }, t, cd, now_s, now_ms)
  return refused or { 0, t, entry }
end

-- A record is its version, and then the token; what a later version adds comes after another ';'.
local function token_of(record)
  return string.match(record, '^v1;([^;]+)')
end

local function may_list(log, dir, tok)
  return denied({ 'XADD', log, '*', 'n', '1' }, { 'HSET', dir, '1', '' }, { 'HSET', tok, '1', '' })
end

-- keys: log, dir, tok, meta;
-- args: store, until, 'list' or 'rotate', server, token or '', token to take where none is said
-- {0, token, entry} listed; {1, token, entry} another token; {2, token} unchanged; {3} another server's token;
-- {5} no such server
local function server(keys, args)
  local log, dir, tok, meta = keys[1], keys[2], keys[3], keys[4]
  local store, until_ms, mode, id, said, spare = args[1], tonumber(args[2]), args[3], args[4], args[5], args[6]
  if not cooldown(meta, store) then
    return FOREIGN
  end
  local _, now_ms = time()
  if now_ms > until_ms then
    return LATE
  end
  local record = redis.call('HGET', dir, id)
  local held = record and token_of(record)
  if mode == 'rotate' then
    if not held then
      return { 5 }
    end
  elseif held and (said == '' or said == held) then
    return { 2, held }
  end
  local token = said ~= '' and said or spare
  if redis.call('HEXISTS', tok, token) == 1 then
    return { 3 }
  end
  local n, last_ms = newest(log)
  local refusal = may_list(log, dir, tok) or denied({ 'HDEL', tok, token })
  if refusal then
    return refusal
  end
  local entry = append(log, n, last_ms, now_ms, 'd', id, 'r', 'v1;' .. token)
  if held then
    redis.call('HDEL', tok, held)
  end
  redis.call('HSET', dir, id, 'v1;' .. token)
  redis.call('HSET', tok, token, id)
  return { held and 1 or 0, token, entry }
end

-- Takes back a server that this store had lost and a node still knows. Refused where it is listed,
-- where it was removed within the last cooldown, and where its token is another server's by now.
-- keys: log, dir, tok, meta, gone; args: store, server, token
-- {0, token, entry} listed; {1} refused; {1, record} refused, as it is listed so
local function relist(keys, args)
  local log, dir, tok, meta, gone = keys[1], keys[2], keys[3], keys[4], keys[5]
  local store, id, token = args[1], args[2], args[3]
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  local now_s, now_ms = time()
  local removed = score(gone, id)
  local record = redis.call('HGET', dir, id)
  if record or redis.call('HEXISTS', tok, token) == 1 or removed and removed + cd > now_s then
    return { 1, record or nil }
  end
  local n, last_ms = newest(log)
  local refusal = may_list(log, dir, tok)
  if refusal then
    return refusal
  end
  local entry = append(log, n, last_ms, now_ms, 'd', id, 'r', 'v1;' .. token)
  redis.call('HSET', dir, id, 'v1;' .. token)
  redis.call('HSET', tok, token, id)
  return { 0, token, entry }
end

-- keys: log, claims of the server, dir, tok, meta, gone; args: store, until, server
-- {0, '', entry} removed; {5} no such server
local function remove(keys, args)
  local log, claims, dir, tok, meta, gone = unpack(keys)
  local store, until_ms, id = args[1], tonumber(args[2]), args[3]
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  local now_s, now_ms = time()
  if now_ms > until_ms then
    return LATE
  end
  local record = redis.call('HGET', dir, id)
  if not record then
    return { 5 }
  end
  local held = token_of(record)
  redis.call('HEXISTS', tok, '')
  local before = score(gone, id) or 0
  -- Up to when its votes were cast: some may be ahead of the clock.
  local latest = math.max(now_s, before)
  local ahead = redis.call('ZRANGEBYSCORE', claims, now_s, '+inf', 'WITHSCORES')
  latest = math.max(latest, tonumber(ahead[#ahead] or 0))
  local n, last_ms = newest(log)
  local refusal = denied(
    { 'XADD', log, '*', 'n', '1' },
    { 'HDEL', dir, id },
    { 'HDEL', tok, '1' },
    { 'UNLINK', claims },
    { 'ZREMRANGEBYSCORE', gone, '-inf', '0' },
    { 'ZADD', gone, '0', id }
  )
  if refusal then
    return refusal
  end
  local entry = append(log, n, last_ms, now_ms, 'd', id, 'r', '')
  redis.call('HDEL', dir, id)
  if held then
    redis.call('HDEL', tok, held)
  end
  redis.call('UNLINK', claims)
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', now_s - cd)
  redis.call('ZADD', gone, latest, id)
  return { 0, '', entry }
end

-- Where the log ends: {seconds, microseconds, n, our newest entry, store, the newest entry}. keys: log, meta
local function head(keys)
  local log, meta = keys[1], keys[2]
  local parts = redis.call('TIME')
  local n, _, name, last = newest(log)
  return { tonumber(parts[1]), tonumber(parts[2]), n, name, redis.call('HGET', meta, 'store') or '', last }
end

-- What the caller may not do, each as a command and its key: all that nodes have done here and do themselves.
-- keys: log, claims of any server, dir, tok, meta, gone, nodes
local function rights(keys)
  local log, claims, dir, tok, meta, gone, nodes = unpack(keys)
  local calls = {
    { 'XADD', log, '*', 'n', '1' },
    { 'XREVRANGE', log, '+', '-' },
    { 'XREAD', 'STREAMS', log, '0-0', key = log },
    { 'HGET', dir, '1' },
    { 'HEXISTS', dir, '1' },
    { 'HGETALL', dir },
    { 'HSET', dir, '1', '' },
    { 'HDEL', dir, '1' },
    { 'HMGET', tok, '1' },
    { 'HEXISTS', tok, '1' },
    { 'HSET', tok, '1', '' },
    { 'HDEL', tok, '1' },
    { 'HGET', meta, 'store' },
    { 'HMGET', meta, 'store' },
    { 'ZSCORE', gone, '1' },
    { 'ZADD', gone, '0', '1' },
    { 'ZREM', gone, '1' },
    { 'ZREMRANGEBYSCORE', gone, '0', '1' },
    { 'ZSCORE', claims, '1' },
    { 'ZADD', claims, '0', '1' },
    { 'ZREM', claims, '1' },
    { 'ZRANGEBYSCORE', claims, '0', '1' },
    { 'ZREMRANGEBYSCORE', claims, '0', '1' },
    { 'PEXPIRE', claims, '1' },
    { 'UNLINK', claims },
    { 'HGETALL', nodes },
    { 'HSET', nodes, '1', '' },
    { 'HDEL', nodes, '1' },
  }
  local missing = {}
  for _, call in ipairs(calls) do
    if not redis.acl_check_cmd(unpack(call)) then
      missing[#missing + 1] = string.lower(call[1]) .. ' ' .. (call.key or call[2])
    end
  end
  return missing
end

-- A node says up to which of the store's histories it has given back all that it knows. Who starts in one that
-- it does not know waits for the others to say so of it. A record is the history, and the second in which it
-- was said; what a later version adds comes after another ';'.
-- keys: meta, nodes; args: store, node, history, who the node was before its restart or '',
-- 'tidy' to forget who has long said nothing
-- 1 once it is noted
local function node(keys, args)
  local meta, nodes = keys[1], keys[2]
  local store, name, history, former, tidy = args[1], args[2], args[3], args[4], args[5]
  if not cooldown(meta, store) then
    return FOREIGN
  end
  local known = redis.call('HGETALL', nodes)
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
  local held = redis.call('HMGET', keys[1], 'store', 'cd', 'v6')
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
  if redis.call('HGET', keys[1], 'store') ~= args[1] then
    return 0
  end
  redis.call('HSET', keys[1], 'store', args[2])
  return 1
end

redis.register_function('vote_status_vote', vote)
redis.register_function('vote_status_cancel', cancel)
redis.register_function('vote_status_restore', restore)
redis.register_function('vote_status_server', server)
redis.register_function('vote_status_relist', relist)
redis.register_function('vote_status_remove', remove)
redis.register_function('vote_status_node', node)
redis.register_function({ function_name = 'vote_status_rights', callback = rights, flags = { 'no-writes' } })
redis.register_function({ function_name = 'vote_status_head', callback = head, flags = { 'no-writes' } })
redis.register_function('vote_status_init', init)
redis.register_function('vote_status_adopt', adopt)
