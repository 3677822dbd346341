-- The environment that the store gives a library: `redis`, and no other name that a real store lacks. Gets the store's
-- call, the check of rights, the registration and SHA-1. Gives the function that runs a library's function.
local ask, may_call, register, sha1hex = ...

local function fail(said)
  error({ err = 'ERR ' .. said }, 0)
end

redis = {
  -- An error is thrown as a table, which a function may catch.
  call = function(...)
    local reply, is_refused = ask(...)
    if is_refused then
      error(reply, 0)
    end
    return reply
  end,
  pcall = function(...)
    local reply = ask(...)
    return reply
  end,
  acl_check_cmd = may_call,
  sha1hex = sha1hex,
  register_function = function(name, callback)
    local flags = {}
    if type(name) == 'table' then
      name, callback, flags = name.function_name, name.callback, name.flags or {}
    end
    register(name, callback, flags)
  end,
}

-- A function that catches an error of the store finds its text.
local plain_pcall = pcall
function pcall(...)
  local results = { plain_pcall(...) }
  if not results[1] and type(results[2]) == 'table' and results[2].err then
    results[2] = results[2].err
  end
  return unpack(results)
end

for _, name in ipairs({
  'collectgarbage', 'coroutine', 'debug', 'dofile', 'getfenv', 'io', 'load', 'loadfile', 'loadstring', 'module',
  'newproxy', 'os', 'package', 'print', 'require', 'setfenv',
}) do
  _G[name] = nil
end
setmetatable(_G, {
  __index = function(_, name)
    fail('Script attempted to access nonexistent global variable \'' .. tostring(name) .. '\'')
  end,
  __newindex = function()
    fail('Attempt to modify a readonly table')
  end,
})

return function(callback, ...)
  local is_done, reply = plain_pcall(callback, ...)
  if is_done or type(reply) == 'table' then
    return is_done, reply
  end
  return false, { err = 'ERR ' .. tostring(reply) }
end
