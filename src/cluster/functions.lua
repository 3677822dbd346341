#!lua name=vote_status

-- The functions that every node calls. Each one is one atomic step.
--
-- FACTS. The store and each node hold facts. A node gives a fact back that the store has forgotten. There are four kinds:
--
--   x  a listing of a server was taken away      LISTING
--   c  votes up to an instant were taken away    ADDRESS:INSTANT
--   r  a listing has this token since a stamp    RECORD, which is v2;LISTING;STAMP;TOKEN
--   v  a vote was made under a listing           ADDRESS:INSTANT
--
-- THE JOIN. Facts may come late, twice and in any order. The same facts make the same state, by these rules:
--
--   1. What was taken away never comes back.
--   2. Of the votes of an address the latest one stands. So a vote is never made that is earlier than one that was taken
--      away: a node may learn of both in any order.
--   3. Of two listings of a server the greater one stands. It takes the other one away, with its votes.
--   4. Of two tokens of a listing the one with the later stamp stands. Of equal stamps the greater token stands.
--   5. Of two servers with one token the one with the later stamp keeps it. The other one gets a spare token, which
--      follows from its record, and its stamp + 1. Any later rotation beats a spare: the stamps of rotations are
--      whole tens.
--
-- An instant is a whole second. An IPv4 address is its number in decimal digits. An IPv6 network is its first 64 bits in
-- 16 hexadecimal digits. A stamp is a microsecond. A listing is its first stamp in 16 digits, and 64 random bits in
-- hexadecimal digits.
--
-- THE LOG. Each change appends one entry: its number, 64 random bits, the last digits of the bits of the entry before it,
-- and all facts that it made. `meta` keeps the last entry as "NUMBER NAME BITS". Each caller says which entry it knows
-- last. A store without that entry has lost something, and refuses.
--
-- REPLIES. A reply is an array: the store's time in milliseconds, a word, and more fields by the word. The code of a
-- refusal begins with VS; a text follows.
--
-- WRITES. The store does not roll a function back. So a function reads first, and notes what it changes. `commit` asks
-- for the right to each write, and then makes all of them. All keys are declared.

local SCHEMA = '3'
-- A node that loads this text puts its hash here. Each heartbeat says it, so that nodes of another version notice.
local VERSION = 'unknown'
-- The log only carries changes to the nodes. A node that was away for longer reads the state whole.
local LOG_ENTRIES = 262144
-- A vote may be stamped this far ahead of the store's clock.
local AHEAD_MAX_S = 5
-- The votes of a server expire once to twice this long after the last of them has ended: few changes have to prolong that.
local SPARE_S = 60
-- `meta` has the names of this many last entries. Nearly every caller knows one of these, and the log costs more to ask.
local RECENT_ENTRIES = 256
-- The most words of a command.
local WORDS_MAX = 4000
-- The digits that an entry repeats of the bits before it: a node that waits sees that the log was exchanged meanwhile.
local DIGITS_BEFORE = 6
-- Stamps are microseconds. Those of rotations are whole multiples of this, so that a spare fits in between.
local STAMP_STEP = 10
-- One change in this number takes votes that have ended out of the store.
local SWEEP_EVERY = 16

local function refuse(code, why)
  error({ code, why }, 0)
end

-- Lua's own text of a number has 14 digits at most, and costs less.
local function text(number)
  return number < 1e14 and tostring(number) or string.format('%.0f', number)
end

-- What stores of several versions say of a command that the user may not call.
local DENIALS = { 'ACL failure', "can't run this command", "can't access at least one of the keys" }

local function deny(command, key)
  refuse('VSRIGHTS', string.lower(command) .. ' ' .. key)
end

-- Asks the store. An error of type names the key, which the store's own message does not.
local function ask(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) == 'table' and reply.err then
    if string.match(reply.err, '^WRONGTYPE') then
      refuse('VSKEY', key .. ' is no key of vote-status: ' .. command .. ' does not fit its type')
    end
    for _, denial in ipairs(DENIALS) do
      if string.find(reply.err, denial, 1, true) then
        deny(command, key)
      end
    end
    refuse('VSFAILED', reply.err)
  end
  return reply
end

-- Asks for the right to each write before the first of them is made. It is a right to a command and its key.
local function ask_rights(writes)
  for _, write in ipairs(writes) do
    if not redis.acl_check_cmd(write[1], write[2]) then
      deny(write[1], write[2])
    end
  end
end

-- Registers a function: its reply begins with the store's time, also where it refuses.
local function register(name, run, flags)
  local function callback(keys, args)
    local parts = redis.call('TIME')
    local now_ms = parts[1] * 1000 + math.floor(parts[2] / 1000)
    local is_done, reply = pcall(run, keys, args, now_ms)
    if not is_done and type(reply) ~= 'table' then
      reply = { 'VSFAILED', tostring(reply) }
    end
    table.insert(reply, 1, now_ms)
    return reply
  end
  redis.register_function({ function_name = 'vs3_' .. name, callback = callback, flags = flags })
end

-- Tokens and listings are ordered by their bytes. Lua's own order depends on the machine's locale.
local function is_greater(one, other)
  for at = 1, #one do
    local left, right = string.byte(one, at), string.byte(other, at) or -1
    if left ~= right then
      return left > right
    end
  end
  return false
end

local function is_later(stamp, name, other_stamp, other_name)
  return stamp > other_stamp or stamp == other_stamp and is_greater(name, other_name)
end

local function read_record(record)
  if not record then
    return nil
  end
  local listing, stamp, token = string.match(record, '^v2;([^;]+);(%d+);(.+)$')
  if not listing then
    refuse('VSKEY', 'a record of the directory is of a form that this version does not know')
  end
  return { listing = listing, stamp = tonumber(stamp), token = token }
end

-- The field of `meta` for the entry of this number.
local function recent_field(n)
  return 'e' .. n % RECENT_ENTRIES
end

-- Whether the store holds the entry that a caller knows last. `last` is the store's, and `recent` another one that it is
-- known to hold. A trimmed log cannot say so.
local function holds(log, last, said, recent)
  if said == '' or said == last or said == recent then
    return true
  end
  local n, name, bits = string.match(said, '^(%d+) (%d+%-%d+) (%-?%d+)$')
  if not n then
    refuse('VSCALL', 'the last entry is of another form')
  end
  if n == '0' then
    return true
  end
  local entry = ask('XREVRANGE', log, name, name, 'COUNT', 1)[1]
  local fields = entry and entry[2] or {}
  return fields[3] == 'b' and fields[4] == bits
end

local function held_word(log, last, said)
  return holds(log, last, said) and 'held' or 'lost'
end

-- What a change knows of the store, each read once.
local SOURCES = {
  votes = { 'ZSCORE', 'claims' },
  gone = { 'ZSCORE', 'gone' },
  records = { 'HGET', 'dir' },
  holders = { 'HGET', 'tok' },
}

local function get(call, kind, name)
  local known = call.known[kind]
  local value = known[name]
  if value == nil then
    local source = SOURCES[kind]
    value = not (kind == 'votes' and call.is_emptied) and ask(source[1], call[source[2]], name)
    known[name] = value
  end
  return value
end

-- Notes a value, or false for none.
local function set(call, kind, name, value)
  call.known[kind][name] = value
  call.changed[kind] = call.changed[kind] or {}
  call.changed[kind][name] = value
end

-- Notes a fact for the entry. Facts of one server follow its number.
local function tell(call, server, kind, value)
  local entry = call.entry
  if not entry then
    local n, before = string.match(call.last, '^(%d+) %S+ %-?(%d+)$')
    call.n = n + 1
    before = string.sub(before, -DIGITS_BEFORE)
    entry = { 'XADD', call.log, 'MAXLEN', '~', LOG_ENTRIES, '*', 'n', text(call.n), 'b', call.bits, 'p', before }
    call.entry = entry
  end
  local at = #entry
  if call.told ~= server then
    call.told = server
    entry[at + 1], entry[at + 2] = 's', server
    at = at + 2
  end
  entry[at + 1], entry[at + 2] = kind, value
end

-- Adds the writes of the values noted of one kind: one command removes, one sets.
local function add_writes(writes, changed, key, removing, setting)
  local to_remove, to_set
  for name, value in pairs(changed or {}) do
    if not value then
      to_remove = to_remove or { removing, key }
      to_remove[#to_remove + 1] = name
    else
      to_set = to_set or { setting, key }
      local at, is_score = #to_set, setting == 'ZADD'
      to_set[at + 1] = is_score and value or name
      to_set[at + 2] = is_score and name or value
    end
  end
  writes[#writes + 1] = to_remove
  writes[#writes + 1] = to_set
end

-- Whether this change takes votes that have ended out of the store.
local function is_sweeping(call)
  return call.n % SWEEP_EVERY == 0
end

-- The latest instant of the server's votes, in the store as it was.
local function latest_vote(call)
  local last = not call.is_emptied and ask('ZRANGE', call.claims, -1, -1, 'WITHSCORES')[2]
  return tonumber(last or 0)
end

-- The first multiple of SPARE_S behind an instant: votes up to there need no longer time.
local function spare_end(t)
  return (math.floor(t / SPARE_S) + 1) * SPARE_S
end

-- Adds the write that prolongs the time of the server's votes, where the noted ones need that.
local function add_expiry(writes, call, over_s)
  local latest, may_be_new = 0, call.is_emptied or is_sweeping(call)
  for _, t in pairs(call.changed.votes or {}) do
    latest, may_be_new = math.max(latest, tonumber(t or 0)), may_be_new or not t
  end
  if latest == 0 then
    return
  end
  -- An earlier vote may be ahead of a clock that went back.
  local before = latest_vote(call)
  -- A key goes with the last vote in it, and has no time where it comes back.
  if may_be_new or spare_end(latest) > spare_end(before) then
    local ends = spare_end(math.max(latest, before))
    writes[#writes + 1] = { 'PEXPIRE', call.claims, text((ends - over_s + SPARE_S) * 1000) }
  end
end

-- Makes the noted changes, if any, and appends their entry. Gives the entry as "NUMBER NAME BITS".
local function commit(call)
  local entry, changed, claims = call.entry, call.changed, call.claims
  if not entry then
    return ''
  end
  local over_s = call.now_s - call.cd
  local meta = { 'HSET', call.meta, 'last', '', recent_field(call.n), '' }
  if call.stamp ~= call.stamp_before then
    meta[7], meta[8] = 'stamp', text(call.stamp)
  end
  local writes = { entry, meta }
  if call.is_emptied then
    writes[#writes + 1] = { 'UNLINK', claims }
  end
  if changed.votes and is_sweeping(call) then
    writes[#writes + 1] = { 'ZREMRANGEBYSCORE', claims, '-inf', text(over_s) }
  end
  add_writes(writes, changed.votes, claims, 'ZREM', 'ZADD')
  add_expiry(writes, call, over_s)
  if changed.gone then
    writes[#writes + 1] = { 'ZREMRANGEBYSCORE', call.gone, '-inf', text(over_s) }
  end
  add_writes(writes, changed.gone, call.gone, 'ZREM', 'ZADD')
  add_writes(writes, changed.records, call.dir, 'HDEL', 'HSET')
  add_writes(writes, changed.holders, call.tok, 'HDEL', 'HSET')
  ask_rights(writes)
  -- The only write that can still fail, as the log's type was not looked at, comes first.
  local last = text(call.n) .. ' ' .. ask(unpack(entry)) .. ' ' .. call.bits
  meta[4], meta[6] = last, last
  for at = 2, #writes do
    local reply = redis.pcall(unpack(writes[at]))
    if type(reply) == 'table' and reply.err then
      refuse('VSHALF', string.lower(writes[at][1]) .. ' ' .. writes[at][2] .. ': ' .. reply.err)
    end
  end
  return last
end

-- What every change begins with. A caller waits until an instant, in milliseconds of the store's clock. The store must not
-- carry out a call that comes later: the node has answered by then that the outcome is unknown. A fact that is given back
-- waits for ever: ''.
--
-- keys: log, claims of the server, dir, tok, meta, gone; args: store, until, last entry, bits, server, more for `make`
local function change(make)
  return function(keys, args, now_ms)
    local store, until_ms, last, bits, server = unpack(args)
    if not tonumber(server) or not string.match(bits, '^%-?%d+$') then
      refuse('VSCALL', 'the arguments are of another form')
    end
    local log, claims, dir, tok, meta, gone = unpack(keys)
    local recent = recent_field(string.match(last, '^%d+') or 0)
    local held = ask('HMGET', meta, 'store', 'schema', 'cd', 'last', 'stamp', recent)
    if held[1] ~= store then
      refuse('VSSTORE', 'this store is empty, or another one than the node follows')
    elseif held[2] ~= SCHEMA or not tonumber(held[3]) then
      refuse('VSSCHEMA', 'this store has schema ' .. tostring(held[2]) .. ', and this version knows ' .. SCHEMA)
    elseif until_ms ~= '' and now_ms > tonumber(until_ms) then
      refuse('VSLATE', 'the call came when nobody waited for it any more')
    end
    local call = {
      log = log,
      claims = claims,
      dir = dir,
      tok = tok,
      meta = meta,
      gone = gone,
      server = server,
      bits = bits,
      now_s = math.floor(now_ms / 1000),
      now_ms = now_ms,
      cd = tonumber(held[3]),
      last = held[4] or '0 0-0 0',
      stamp = tonumber(held[5] or 0),
      stamp_before = tonumber(held[5] or 0),
      known = { votes = {}, gone = {}, records = {}, holders = {} },
      changed = {},
    }
    if not holds(log, call.last, last, held[6]) then
      refuse('VSLOST', 'the store does not hold, or cannot show, the last entry that the node knows')
    end
    return make(call, unpack(args, 6))
  end
end

local function address_name(call, address)
  return call.server .. ':' .. address
end

-- The instant of the live vote of an address, if there is one.
local function live_vote(call, address)
  local held = tonumber(get(call, 'votes', address) or nil)
  return held and call.now_s < held + call.cd and held or nil
end

-- Up to which instant votes of an address were taken away; 0 where none was.
local function gone_until(call, address)
  return tonumber(get(call, 'gone', address_name(call, address)) or 0)
end

-- Takes the votes of an address up to an instant away. Gives whether that was news.
local function take_votes_away(call, address, t)
  if t <= gone_until(call, address) then
    return false
  end
  set(call, 'gone', address_name(call, address), text(t))
  local held = tonumber(get(call, 'votes', address) or nil)
  if held and held <= t then
    set(call, 'votes', address, false)
  end
  tell(call, call.server, 'c', address .. ':' .. text(t))
  return true
end

-- Makes a vote that is neither gone nor earlier than the one that stands.
local function make_vote(call, address, t)
  local said = text(t)
  set(call, 'votes', address, said)
  tell(call, call.server, 'v', address .. ':' .. said)
end

local function record_of(call, server)
  return read_record(get(call, 'records', server))
end

-- Another server that has this token by its own record: the map of tokens alone may be older than the directory.
local function holder_of(call, token, server)
  local holder = get(call, 'holders', token)
  if not holder or holder == server then
    return nil
  end
  local record = record_of(call, holder)
  return record and record.token == token and holder or nil, record
end

-- Gives a server this record, or a spare where its token is another one's.
local function place(call, server, listing, stamp, token)
  local spare = redis.sha1hex(listing .. ';' .. token)
  local holder, other = holder_of(call, token, server)
  if holder and not is_later(stamp, listing, other.stamp, other.listing) then
    return place(call, server, listing, stamp + 1, spare)
  end
  local former = record_of(call, server)
  if former and get(call, 'holders', former.token) == server then
    set(call, 'holders', former.token, false)
  end
  local record = 'v2;' .. listing .. ';' .. text(stamp) .. ';' .. token
  set(call, 'holders', token, server)
  set(call, 'records', server, record)
  tell(call, server, 'r', record)
  call.stamp = math.max(call.stamp, stamp)
  if holder then
    place(call, holder, other.listing, other.stamp + 1, redis.sha1hex(other.listing .. ';' .. token))
  end
end

-- The server of a listing that 1.0.0 took away is not known, and is 0.
local function is_listing_gone(call, listing)
  return get(call, 'gone', call.server .. ':' .. listing) or get(call, 'gone', '0:' .. listing)
end

-- Gives whether that was news. A listing that is not the present one is only noted as gone.
local function take_listing_away(call, listing)
  local present = record_of(call, call.server)
  local is_present = present and present.listing == listing
  if is_listing_gone(call, listing) and not is_present then
    return false
  end
  set(call, 'gone', call.server .. ':' .. listing, '+inf')
  tell(call, call.server, 'x', listing)
  if is_present then
    local latest = math.max(call.now_s, tonumber(get(call, 'gone', call.server) or 0), latest_vote(call))
    set(call, 'gone', call.server, text(math.min(latest, call.now_s + AHEAD_MAX_S)))
    set(call, 'records', call.server, false)
    if get(call, 'holders', present.token) == call.server then
      set(call, 'holders', present.token, false)
    end
    call.is_emptied = true
    call.known.votes, call.changed.votes = {}, nil
  end
  return true
end

-- The arguments, each once.
local function each_once(...)
  local all, known = {}, {}
  for _, one in ipairs({ ... }) do
    if not known[one] then
      known[one] = true
      table.insert(all, one)
    end
  end
  return all
end

-- The latest instant of the votes of earlier listings; 0 where there was none. One too far ahead is of a clock that went
-- back since, which is no reason to refuse every vote.
local function ended_s(call)
  local ended = tonumber(get(call, 'gone', call.server) or 0)
  return ended <= call.now_s + AHEAD_MAX_S and ended or 0
end

-- The first second from `t` on that is after the votes of earlier listings, and after the votes of these addresses that were
-- taken away. nil if that second is too far ahead.
local function free_instant(call, addresses, listing, t)
  local listed_s = math.floor(string.sub(listing, 1, 16) / 1000000)
  if t < listed_s then
    t = math.max(t, ended_s(call) + 1)
  end
  for _, address in ipairs(addresses) do
    t = math.max(t, gone_until(call, address) + 1)
  end
  return t <= call.now_s + AHEAD_MAX_S and t or nil
end

-- A vote of all these addresses, or of none.
-- more args: 'cast' or 'record', the instant or '' for now, addresses
local function vote(call, mode, said, ...)
  local addresses, record = each_once(...), record_of(call, call.server)
  if #addresses == 0 then
    refuse('VSCALL', 'a vote has no address')
  elseif not record then
    return { 'unlisted', '' }
  end
  local t, latest, latest_address = tonumber(said) or call.now_s, nil, nil
  if t > call.now_s + AHEAD_MAX_S then
    return { 'future', '' }
  elseif t + call.cd <= call.now_s then
    return { 'over', '' }
  end
  local open = {}
  for _, address in ipairs(addresses) do
    local held = live_vote(call, address)
    if held and held > (latest or -1) then
      latest, latest_address = held, address
    end
    if mode == 'cast' or not held or held < t then
      table.insert(open, address)
    end
  end
  if mode == 'cast' then
    if latest then
      return { 'cooldown', '', text(latest), latest_address }
    end
    t = free_instant(call, open, record.listing, t)
    if not t then
      return { 'many', '' }
    end
  elseif #open == 0 then
    return { 'unchanged', '', text(latest) }
  end
  for _, address in ipairs(mode == 'record' and open or {}) do
    if t <= gone_until(call, address) then
      return { 'cancelled', '', address }
    end
  end
  for _, address in ipairs(open) do
    make_vote(call, address, t)
  end
  return { 'recorded', commit(call), text(t), get(call, 'records', call.server) }
end

-- more args: address, the instant of the vote that is meant
local function cancel(call, address, said)
  if not record_of(call, call.server) then
    return { 'unlisted', '' }
  end
  local held = live_vote(call, address)
  if not held or text(held) ~= said then
    return { 'other', '', held and text(held) or '' }
  end
  take_votes_away(call, address, held)
  return { 'cancelled', commit(call) }
end

-- Lists a server, or gives it another token.
-- more args: the record that is to be changed or '', token, bits of a new listing, the greatest stamp that the caller knows
local function list(call, before, token, bits, stamp)
  local held = get(call, 'records', call.server) or ''
  if held ~= before then
    return { 'other', '', held }
  end
  local record = record_of(call, call.server)
  if record and record.token == token then
    return { 'unchanged', '', held }
  elseif holder_of(call, token, call.server) then
    return { 'in_use', '' }
  end
  local known = math.max(call.stamp, tonumber(stamp))
  local at = math.max(call.now_ms * 1000, (math.floor(known / STAMP_STEP) + 1) * STAMP_STEP)
  if not record then
    -- Server, address and instant make a reward unique: casts begin behind the votes of an earlier listing.
    at = math.max(at, (ended_s(call) + 1) * 1000000)
  end
  local listing = record and record.listing or string.format('%016.0f-%s', at, bits)
  place(call, call.server, listing, at, token)
  return { 'listed', commit(call), get(call, 'records', call.server) }
end

-- more args: the listing that is meant
local function remove(call, listing)
  local record = record_of(call, call.server)
  if not record or record.listing ~= listing then
    return { 'other', '', get(call, 'records', call.server) or '' }
  end
  take_listing_away(call, listing)
  return { 'removed', commit(call) }
end

local function give_record(call, said)
  local given, held = read_record(said), record_of(call, call.server)
  local word = 'made'
  if is_listing_gone(call, given.listing) then
    word = 'ended'
  elseif held and held.listing ~= given.listing and is_greater(held.listing, given.listing) then
    take_listing_away(call, given.listing)
    word = 'ended'
  elseif held and held.listing == given.listing and not is_later(given.stamp, given.token, held.stamp, held.token) then
    word = 'has'
  else
    if held and held.listing ~= given.listing then
      take_listing_away(call, held.listing)
    end
    place(call, call.server, given.listing, given.stamp, given.token)
  end
  return word, get(call, 'records', call.server) or ''
end

local function give_vote(call, listing, address, t)
  local record, held = record_of(call, call.server), live_vote(call, address)
  local is_of_present = record and record.listing == listing
  local now = held and text(held) or ''
  if t + call.cd <= call.now_s then
    return 'over', now
  elseif is_listing_gone(call, listing) then
    return 'ended', now
  elseif t <= gone_until(call, address) then
    return 'gone', now
  elseif not is_of_present then
    return 'unlisted', now
  elseif held == t then
    return 'has', now
  elseif held and held > t then
    return 'later', now
  end
  make_vote(call, address, t)
  return 'made', text(t)
end

-- Takes back facts of one server that the store may have forgotten.
-- more args: pairs of a kind and a value; 'l' names the listing of the votes that follow
-- For each pair the reply has a word, and what the store has now. 'gone' says that the vote was taken away, and 'ended' that
-- its listing was.
local function give(call, ...)
  local pairs_given, listing, fields = { ... }, '', {}
  for at = 1, #pairs_given, 2 do
    local kind, value = pairs_given[at], pairs_given[at + 1] or ''
    local address, t = string.match(value, '^(%x+):(%d+)$')
    local word, now = 'made', ''
    if kind == 'l' then
      word, listing = 'ok', value
    elseif kind == 'x' then
      word = take_listing_away(call, value) and word or 'has'
    elseif kind == 'r' then
      word, now = give_record(call, value)
    elseif kind == 'c' and address and t + call.cd <= call.now_s then
      word = 'over'
    elseif kind == 'c' and address then
      word = take_votes_away(call, address, tonumber(t)) and word or 'has'
    elseif kind == 'v' and address then
      word, now = give_vote(call, listing, address, tonumber(t))
    else
      refuse('VSCALL', 'a fact is of another form')
    end
    table.insert(fields, word)
    table.insert(fields, now)
  end
  return { 'given', commit(call), unpack(fields) }
end

-- Where the log ends. keys: log, meta; args: the last entry that the caller knows
local function head(keys, args)
  local held = ask('HMGET', keys[2], 'last', 'store', 'schema')
  local last = held[1] or '0 0-0 0'
  return { held_word(keys[1], last, args[1]), last, held[2] or '', held[3] or '', VERSION }
end

-- A node says how much it owes, and to which last entry that applies. A record is v2;COUNTER;OWED;held or lost;LAST.
-- keys: log, meta, nodes; args: store, last entry, name, counter, how much it owes, names to forget
local function node(keys, args)
  local log, meta, nodes = unpack(keys)
  local store, said, name, counter, owed = unpack(args)
  local held = ask('HMGET', meta, 'store', 'last')
  if held[1] ~= store then
    refuse('VSSTORE', 'this store is empty, or another one than the node follows')
  end
  local last = held[2] or '0 0-0 0'
  local word = held_word(log, last, said)
  -- A read, which finds a key of another type before the first write.
  ask('HGET', nodes, name)
  local forget = { 'HDEL', nodes, unpack(args, 6) }
  local record = { 'HSET', nodes, name, table.concat({ 'v2', counter, owed, word, said }, ';') }
  ask_rights({ record, #forget > 2 and forget or nil })
  ask(unpack(record))
  -- A node that leaves forgets itself.
  if #forget > 2 then
    ask(unpack(forget))
  end
  return { word, last, VERSION, unpack(ask('HGETALL', nodes)) }
end

-- What the caller may not do, each as a command and its key: all that the functions and the nodes do.
-- keys: log, claims of any server, dir, tok, meta, gone, nodes
local function rights(keys)
  local log, claims, dir, tok, meta, gone, nodes = unpack(keys)
  local missing = { 'missing' }
  for _, call in ipairs({
    { 'XADD', log, '*', 'n', '1' },
    { 'XREVRANGE', log, '+', '-' },
    { 'XREAD', 'STREAMS', log, '0-0', key = log },
    { 'HGET', dir, '1' },
    { 'HSCAN', dir, '0' },
    { 'HSET', dir, '1', '' },
    { 'HDEL', dir, '1' },
    { 'HMGET', tok, '1' },
    { 'HGET', tok, '1' },
    { 'HSET', tok, '1', '' },
    { 'HDEL', tok, '1' },
    { 'HGET', meta, 'store' },
    { 'HMGET', meta, 'store' },
    { 'HSET', meta, 'last', '' },
    { 'ZSCORE', gone, '1' },
    { 'ZRANGE', gone, '0', '1' },
    { 'ZADD', gone, '0', '1' },
    { 'ZREMRANGEBYSCORE', gone, '0', '1' },
    { 'ZSCORE', claims, '1' },
    { 'ZADD', claims, '0', '1' },
    { 'ZREM', claims, '1' },
    { 'ZRANGE', claims, '0', '1' },
    { 'ZRANGEBYSCORE', claims, '0', '1' },
    { 'ZREMRANGEBYSCORE', claims, '0', '1' },
    { 'PEXPIRE', claims, '1' },
    { 'UNLINK', claims },
    { 'HGET', nodes, '1' },
    { 'HGETALL', nodes },
    { 'HSET', nodes, '1', '' },
    { 'HDEL', nodes, '1' },
  }) do
    if not redis.acl_check_cmd(unpack(call)) then
      table.insert(missing, string.lower(call[1]) .. ' ' .. (call.key or call[2]))
    end
  end
  return missing
end

-- Gives an empty store its id, once. keys: meta; args: id, cooldown in seconds, bits of an IPv6 network
local function init(keys, args)
  local held = ask('HMGET', keys[1], 'store', 'cd', 'v6')
  if held[1] then
    return { 'has', held[1], held[2] or '', held[3] or '' }
  end
  ask('HSET', keys[1], 'store', args[1], 'schema', SCHEMA, 'cd', args[2], 'v6', args[3])
  return { 'made', args[1], args[2], args[3] }
end

-- Gives the store another id where it has this one. keys: meta; args: from, to
local function adopt(keys, args)
  if ask('HGET', keys[1], 'store') ~= args[1] then
    return { 'other' }
  end
  ask('HSET', keys[1], 'store', args[2])
  return { 'made' }
end

-- Makes the writes of a long list of words, in pieces.
local function write_all(command, key, words)
  for at = 1, #words, WORDS_MAX do
    ask(command, key, unpack(words, at, math.min(at + WORDS_MAX - 1, #words)))
  end
end

-- Takes the keys of 1.0.0 over. The stamp of each token is 0: a later one would let an older copy, which is taken over
-- after this store, beat newer tokens. Gives the names of the nodes of 1.0.0, which take no votes any more.
-- keys: log, dir, tok, meta, gone, nodes; args: store, bits
local function takeover(keys, args)
  local log, dir, _, meta, gone, nodes = unpack(keys)
  local held = ask('HMGET', meta, 'store', 'schema')
  if held[1] ~= args[1] then
    refuse('VSSTORE', 'this store is empty, or another one than the node follows')
  elseif held[2] == SCHEMA then
    return { 'has', '' }
  elseif held[2] ~= '2' then
    refuse('VSSCHEMA', 'this store has schema ' .. tostring(held[2]) .. ', which this version does not take over')
  end
  local old, records = ask('HGETALL', dir), {}
  for at = 1, #old, 2 do
    local server, record = old[at], old[at + 1]
    local token, id = string.match(record, '^v1;([^;]+);?([^;]*)')
    if not token then
      refuse('VSKEY', dir .. ' has a record of server ' .. server .. ' of a form that this version does not know')
    end
    id = id ~= '' and id or string.format('%016.0f', server)
    table.insert(records, server)
    table.insert(records, 'v2;0000000000000000-' .. id .. ';0;' .. token)
  end
  -- In the order of their instants: the latest vote of an address counts.
  local names, taken_over, tombstones = ask('ZRANGE', gone, 0, -1), {}, {}
  for _, name in ipairs(names) do
    local voter, at = string.match(name, '^(%d+:%x+):(%d+)$')
    local listing = #name == 16 and string.match(name, '^%x+$')
    if voter or listing then
      table.insert(taken_over, name)
      table.insert(tombstones, at or '+inf')
      table.insert(tombstones, voter or '0:0000000000000000-' .. listing)
    end
  end
  local known, others = ask('HGETALL', nodes), {}
  for at = 1, #known, 2 do
    table.insert(others, known[at])
  end
  ask_rights({
    { 'XADD', log, '*', 'n', '1' },
    { 'HSET', dir, '1', '' },
    { 'HSET', meta, 'schema', '' },
    { 'HDEL', meta, 'ahead' },
    { 'ZADD', gone, '0', '1' },
    { 'ZREM', gone, '1' },
    { 'HDEL', nodes, '1' },
  })
  local last = '1 ' .. ask('XADD', log, '*', 'n', '1', 'b', args[2], 'p', '0') .. ' ' .. args[2]
  write_all('HSET', dir, records)
  write_all('ZADD', gone, tombstones)
  write_all('ZREM', gone, taken_over)
  write_all('HDEL', nodes, others)
  ask('HDEL', meta, 'ahead')
  ask('HSET', meta, 'schema', SCHEMA, 'last', last, 'stamp', '0')
  return { 'made', last, unpack(others) }
end

register('vote', change(vote))
register('cancel', change(cancel))
register('list', change(list))
register('remove', change(remove))
register('give', change(give))
register('head', head, { 'no-writes' })
register('node', node)
register('rights', rights, { 'no-writes' })
register('init', init)
register('adopt', adopt)
register('takeover', takeover)
