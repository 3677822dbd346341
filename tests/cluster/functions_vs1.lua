#!lua name=vs1

-- What every node has the store do, each in one atomic step. All instants are whole seconds.
--
-- Scripts are not rolled back on an error, so every read comes before the first write: the reads
-- find keys of a wrong type while nothing has been changed yet. All keys are declared.
--
-- A change of this file is a new library: rename it and every function (vs2_...), as nodes of two
-- versions run side by side during an upgrade and function names are global.

-- The log is only transport; a node that was away for longer reads the state whole.
local LOG_KEEP_MS = 1800000
-- A vote may be stamped this far ahead of the store's clock.
local AHEAD_MAX_S = 5
-- A vote of a node that answered by a clock a little ahead may be given back all the same.
local RESTORE_AHEAD_MAX_S = 60
-- A server's votes are gone this long after the last of them has ended.
local SPARE_S = 60

local FOREIGN = { err = 'VS1STORE this store is empty, or another one than the node follows' }

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

-- Number, milliseconds and name of the newest entry of the log.
local function newest(log)
  local entry = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if not entry then
    return 0, 0, '0-0'
  end
  return tonumber(entry[2][2]), tonumber(string.match(entry[1], '^%d+')), entry[1]
end

-- Appends an entry. Names go on from the last one where the clock has gone back.
local function append(log, n, last_ms, now_ms, ...)
  local name = text(math.max(now_ms, last_ms)) .. '-*'
  return redis.call('XADD', log, 'MINID', '~', text(now_ms - LOG_KEEP_MS), name, 'n', text(n + 1), ...)
end

-- Makes t the pair's vote. The entry says t only where its name does not.
local function put(log, claims, server, ip, t, cd, now_s, now_ms)
  local n, last_ms = newest(log)
  local entry
  if math.floor(math.max(now_ms, last_ms) / 1000) == t then
    entry = append(log, n, last_ms, now_ms, 's', server, 'i', ip)
  else
    entry = append(log, n, last_ms, now_ms, 's', server, 'i', ip, 't', text(t))
  end
  redis.call('ZREMRANGEBYSCORE', claims, '-inf', now_s - cd)
  redis.call('ZADD', claims, t, ip)
  redis.call('PEXPIRE', claims, (cd + SPARE_S) * 1000)
  return entry
end

-- keys: log, claims of the server, dir, meta; args: store, 'cast' or 'record', server, ip, t or ''
-- {0, t, entry} recorded; {1, t} unchanged; {2, t} in cooldown since t; {3} over already;
-- {4} in the future; {5} no such server
local function vote(keys, args)
  local log, claims, dir, meta = keys[1], keys[2], keys[3], keys[4]
  local store, mode, server, ip = args[1], args[2], args[3], args[4]
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  if redis.call('HEXISTS', dir, server) == 0 then
    return { 5 }
  end
  local now_s, now_ms = time()
  local t = tonumber(args[5]) or now_s
  if t > now_s + AHEAD_MAX_S then
    return { 4 }
  end
  if t + cd <= now_s then
    return { 3 }
  end
  local held = tonumber(redis.call('ZSCORE', claims, ip) or nil)
  if held and now_s < held + cd then
    if mode == 'cast' then
      return { 2, held }
    end
    if held >= t then
      return { 1, held }
    end
  end
  return { 0, t, put(log, claims, server, ip, t, cd, now_s, now_ms) }
end

-- keys: log, claims of the server, dir, meta, gone; args: store, server, ip
-- {0, t, entry} cancelled; {1} no cooldown; {5} no such server
local function cancel(keys, args)
  local log, claims, dir, meta, gone = keys[1], keys[2], keys[3], keys[4], keys[5]
  local store, server, ip = args[1], args[2], args[3]
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  if redis.call('HEXISTS', dir, server) == 0 then
    return { 5 }
  end
  local now_s, now_ms = time()
  local held = tonumber(redis.call('ZSCORE', claims, ip) or nil)
  if not held or now_s >= held + cd then
    return { 1 }
  end
  local pair = server .. ':' .. ip
  redis.call('ZSCORE', gone, pair)
  local n, last_ms = newest(log)
  local entry = append(log, n, last_ms, now_ms, 's', server, 'i', ip, 'c', text(held))
  redis.call('ZREM', claims, ip)
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', now_s - cd)
  redis.call('ZADD', gone, held, pair)
  return { 0, held, entry }
end

-- Takes back a vote that this store had lost and a node still knows. Refused where the pair has
-- that vote or a later one, where the vote was cancelled, and where its server was removed since.
-- keys: log, claims of the server, dir, meta, gone; args: store, server, ip, t
-- {0, t, entry} restored; {1} refused
local function restore(keys, args)
  local log, claims, dir, meta, gone = keys[1], keys[2], keys[3], keys[4], keys[5]
  local store, server, ip, t = args[1], args[2], args[3], tonumber(args[4])
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  local now_s, now_ms = time()
  if t + cd <= now_s or t > now_s + RESTORE_AHEAD_MAX_S or redis.call('HEXISTS', dir, server) == 0 then
    return { 1 }
  end
  local held = tonumber(redis.call('ZSCORE', claims, ip) or nil)
  local cancelled = tonumber(redis.call('ZSCORE', gone, server .. ':' .. ip) or nil)
  local removed = tonumber(redis.call('ZSCORE', gone, server) or nil)
  if held and held >= t or cancelled and cancelled >= t or removed and removed >= t then
    return { 1 }
  end
  return { 0, t, put(log, claims, server, ip, t, cd, now_s, now_ms) }
end

-- A record is its version, and then the token; what a later version adds comes after another ';'.
local function token_of(record)
  return string.match(record, '^v1;([^;]+)')
end

-- keys: log, dir, tok, meta; args: store, 'list' or 'rotate', server, token or '', token to take where none is said
-- {0, token, entry} listed; {1, token, entry} another token; {2, token} unchanged; {3} another server's token;
-- {5} no such server
local function server(keys, args)
  local log, dir, tok, meta = keys[1], keys[2], keys[3], keys[4]
  local store, mode, id, said, spare = args[1], args[2], args[3], args[4], args[5]
  if not cooldown(meta, store) then
    return FOREIGN
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
  local _, now_ms = time()
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
-- {0, token, entry} listed; {1} refused
local function relist(keys, args)
  local log, dir, tok, meta, gone = keys[1], keys[2], keys[3], keys[4], keys[5]
  local store, id, token = args[1], args[2], args[3]
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  local now_s, now_ms = time()
  local removed = tonumber(redis.call('ZSCORE', gone, id) or nil)
  local is_listed = redis.call('HEXISTS', dir, id) == 1 or redis.call('HEXISTS', tok, token) == 1
  if is_listed or removed and removed + cd > now_s then
    return { 1 }
  end
  local n, last_ms = newest(log)
  local entry = append(log, n, last_ms, now_ms, 'd', id, 'r', 'v1;' .. token)
  redis.call('HSET', dir, id, 'v1;' .. token)
  redis.call('HSET', tok, token, id)
  return { 0, token, entry }
end

-- keys: log, claims of the server, dir, tok, meta, gone; args: store, server
-- {0, '', entry} removed; {5} no such server
local function remove(keys, args)
  local log, claims, dir, tok, meta, gone = keys[1], keys[2], keys[3], keys[4], keys[5], keys[6]
  local store, id = args[1], args[2]
  local cd = cooldown(meta, store)
  if not cd then
    return FOREIGN
  end
  local record = redis.call('HGET', dir, id)
  if not record then
    return { 5 }
  end
  local held = token_of(record)
  redis.call('HEXISTS', tok, '')
  redis.call('ZSCORE', gone, id)
  local n, last_ms = newest(log)
  local now_s, now_ms = time()
  local entry = append(log, n, last_ms, now_ms, 'd', id, 'r', '')
  redis.call('HDEL', dir, id)
  if held then
    redis.call('HDEL', tok, held)
  end
  redis.call('UNLINK', claims)
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', now_s - cd)
  redis.call('ZADD', gone, now_s, id)
  return { 0, '', entry }
end

-- Where the log ends: {seconds, microseconds, n, entry, store}
local function head(log, meta)
  local parts = redis.call('TIME')
  local n, _, name = newest(log)
  return { tonumber(parts[1]), tonumber(parts[2]), n, name, redis.call('HGET', meta, 'store') or '' }
end

-- keys: log, meta
local function heartbeat(keys)
  return head(keys[1], keys[2])
end

-- keys: log, meta, dir; as head, then {schema, cooldown in seconds, {server, record, server, record, ...}}
local function snap(keys)
  local reply = head(keys[1], keys[2])
  local held = redis.call('HMGET', keys[2], 'schema', 'cd')
  reply[6], reply[7], reply[8] = tonumber(held[1] or 0), tonumber(held[2] or 0), redis.call('HGETALL', keys[3])
  return reply
end

-- Gives an empty store its id, once. keys: meta; args: id, cooldown in seconds
-- {1 where it has it now and 0 where it had one, id, cooldown in seconds}
local function init(keys, args)
  local held = redis.call('HMGET', keys[1], 'store', 'cd')
  if held[1] then
    return { 0, held[1], tonumber(held[2] or 0) }
  end
  redis.call('HSET', keys[1], 'store', args[1], 'schema', '1', 'cd', args[2])
  return { 1, args[1], tonumber(args[2]) }
end

-- Gives the store another id where it has this one. keys: meta; args: from, to; 1 where it has it now
local function adopt(keys, args)
  if redis.call('HGET', keys[1], 'store') ~= args[1] then
    return 0
  end
  redis.call('HSET', keys[1], 'store', args[2])
  return 1
end

redis.register_function('vs1_vote', vote)
redis.register_function('vs1_cancel', cancel)
redis.register_function('vs1_restore', restore)
redis.register_function('vs1_server', server)
redis.register_function('vs1_relist', relist)
redis.register_function('vs1_remove', remove)
redis.register_function({ function_name = 'vs1_head', callback = heartbeat, flags = { 'no-writes' } })
redis.register_function({ function_name = 'vs1_snap', callback = snap, flags = { 'no-writes' } })
redis.register_function('vs1_init', init)
redis.register_function('vs1_adopt', adopt)
