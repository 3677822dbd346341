-- What a library finds in the store: `redis`, and no name that the store does not give it.
-- Gets: the store's call, the check of rights, the registration. Gives: what loads a library, and what runs a function.
local ask, may_call, register = ...

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
  register_function = function(name, callback)
    local flags = {}
    if type(name) == 'table' then
      name, callback, flags = name.function_name, name.callback, name.flags or {}
    end
    register(name, callback, flags)
  end,
}

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
  local is_done, reply = pcall(callback, ...)
  if is_done or type(reply) == 'table' then
    return is_done, reply
  end
  return false, { err = 'ERR ' .. tostring(reply) }
end
