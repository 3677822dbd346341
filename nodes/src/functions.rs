//! The functions in the store: a library in Lua, run in one step as the store runs it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;

use mlua::{Function, IntoLua, Lua, MultiValue, Table, Value, Variadic};
use vote_status::cluster::wire::sha1;

use crate::commands::find;
use crate::reply::{Answer, Reply, said, whole};
use crate::store::{Refusal, Store};

/// The functions of the service, as the nodes load them.
pub const CODE: &str = include_str!("../../src/cluster/functions.lua");
/// The functions of version 1.0.0. This version takes its keys over.
pub const CODE_OF_1_0_0: &str = include_str!("../tests/kept/functions-1.0.0.lua");
/// The Lua environment that the store gives the library.
pub const PRELUDE: &str = include_str!("prelude.lua");

struct Registered {
    callback: Function,
    writes: bool,
}

/// The state during one call: the store that the call changes, and whether it may.
struct Running {
    store: Store,
    may_write: bool,
}

/// A library, which any number of stores may call.
pub struct Functions {
    lua: Lua,
    run: Function,
    registered: BTreeMap<String, Registered>,
    running: Rc<RefCell<Running>>,
}

impl Functions {
    /// Loads a library.
    ///
    /// # Errors
    /// The error of the language.
    pub fn load(code: &str) -> mlua::Result<Self> {
        Self::load_in(PRELUDE, code)
    }

    /// Loads a library with another environment: for faults that a test has to find.
    ///
    /// # Errors
    /// The error of the language.
    pub fn load_in(prelude: &str, code: &str) -> mlua::Result<Self> {
        let lua = Lua::new();
        let running = Rc::new(RefCell::new(Running { store: Store::new(0), may_write: true }));
        let registered = Rc::new(RefCell::new(BTreeMap::new()));
        let of_call = Rc::clone(&running);
        let ask = lua.create_function(move |lua, words: Variadic<Value>| {
            let answer = call(&mut of_call.borrow_mut(), &words);
            let is_refused = answer.is_err();
            Ok((as_lua(lua, &answer.unwrap_or_else(Reply::Refused))?, is_refused))
        })?;
        let of_call = Rc::clone(&running);
        let may_call = lua.create_function(move |_, words: Variadic<Value>| {
            let command = spelled(&words).ok().and_then(|words| find(words.first()?));
            let command =
                command.ok_or_else(|| mlua::Error::runtime("Invalid command passed to redis.acl_check_cmd()"))?;
            Ok(of_call.borrow().store.may_call(command))
        })?;
        let of_library = Rc::clone(&registered);
        let register = lua.create_function(move |_, (name, callback, flags): (String, Function, Vec<String>)| {
            let writes = !flags.iter().any(|flag| flag == "no-writes");
            of_library.borrow_mut().insert(name, Registered { callback, writes });
            Ok(())
        })?;
        let digest = lua.create_function(|_, text: mlua::LuaString| Ok(sha1::hex(&text.as_bytes())))?;
        let run = lua.load(prelude).set_name("prelude").call((ask, may_call, register, digest))?;
        // The first line names language and library. The other lines keep their numbers.
        let body = code.strip_prefix("#!lua name=").and_then(|rest| rest.find('\n').map(|end| &rest[end..]));
        let body = body.ok_or_else(|| mlua::Error::runtime("Missing library metadata"))?;
        lua.load(body).set_name("@user_function").exec()?;
        let registered = mem::take(&mut *registered.borrow_mut());
        Ok(Self { lua, run, registered, running })
    }

    /// Carries out a client's question to a store: a call of a function, or any other command.
    pub fn ask<W: AsRef<[u8]>>(&self, store: &mut Store, words: &[W]) -> Reply {
        let is = |name: &str| words.first().is_some_and(|word| word.as_ref().eq_ignore_ascii_case(name.as_bytes()));
        if words.len() < 3 || !is("FCALL") && !is("FCALL_RO") {
            return store.ask(words);
        }
        let words: Vec<Vec<u8>> = words[1..].iter().map(|word| word.as_ref().to_vec()).collect();
        self.call(store, &words, is("FCALL_RO")).unwrap_or_else(Reply::Refused)
    }

    /// Makes a call: the store refuses it as a whole before it begins, or makes it as a whole.
    fn call(&self, store: &mut Store, words: &[Vec<u8>], is_read: bool) -> Answer {
        let name = if is_read { "fcall_ro" } else { "fcall" };
        if store.denied.contains(name) {
            return Err(format!("NOPERM this user has no permissions to run the '{name}' command"));
        }
        let function = self.registered.get(&said(&words[0])).ok_or("ERR Function not found")?;
        if let Some(refusal) = store.refusal.filter(|_| function.writes) {
            return Err(refusal.said().to_owned());
        }
        let count = whole(&words[1]).map_err(|_| "ERR Bad number of keys provided")?;
        let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
        if count > words.len() - 2 {
            return Err("ERR Number of keys can't be greater than number of args".to_owned());
        }
        if function.writes && is_read {
            return Err("ERR Can not execute a script with write flag using *_ro command.".to_owned());
        }
        let (keys, args) = words[2..].split_at(count);
        self.swap(store, function.writes);
        let made = self.made(function, keys, args);
        self.swap(store, true);
        made.unwrap_or_else(|error| Err(format!("ERR {error}")))
    }

    /// Gives the store to the call, or back to the caller.
    fn swap(&self, store: &mut Store, may_write: bool) {
        let running = &mut *self.running.borrow_mut();
        mem::swap(&mut running.store, store);
        running.may_write = may_write;
    }

    fn made(&self, function: &Registered, keys: &[Vec<u8>], args: &[Vec<u8>]) -> mlua::Result<Answer> {
        let list = |words: &[Vec<u8>]| -> mlua::Result<Table> {
            self.lua.create_sequence_from(
                words.iter().map(|word| self.lua.create_string(word)).collect::<Result<Vec<_>, _>>()?,
            )
        };
        let mut back: MultiValue = self.run.call((&function.callback, list(keys)?, list(args)?))?;
        let is_done = back.pop_front() == Some(Value::Boolean(true));
        let reply = as_reply(&back.pop_front().unwrap_or(Value::Nil))?;
        Ok(match reply {
            reply if is_done => Ok(reply),
            Reply::Refused(why) => Err(why),
            _ => Err("ERR unknown error".to_owned()),
        })
    }
}

/// Carries out a command of a function. It is refused like any other, and also as a write of a read-only function.
fn call(running: &mut Running, words: &[Value]) -> Answer {
    let words = spelled(words)?;
    let (name, args) =
        words.split_first().ok_or("ERR Please specify at least one argument for this redis.call() call")?;
    let Some(command) = find(name) else { return Err("ERR Unknown Redis command called from script".to_owned()) };
    if !(command.words_min..=command.words_max).contains(&args.len()) {
        return Err("ERR Wrong number of args calling Redis command from script".to_owned());
    }
    running.store.called.insert(command.name);
    if !running.store.may_call(command) {
        return Err(format!("ERR ACL failure in script: no permissions to run the '{}' command", command.name));
    }
    if command.writes && !running.may_write {
        return Err("ERR Write commands are not allowed from read-only scripts.".to_owned());
    }
    if running.store.refusal == Some(Refusal::Memory) && command.grows {
        return Err(Refusal::Memory.said().to_owned());
    }
    running.store.run(command, args)
}

/// The words of a command: strings as they are, numbers as the store spells them.
fn spelled(words: &[Value]) -> Result<Vec<Vec<u8>>, String> {
    let spell = |word: &Value| match word {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        _ => Err("ERR Lua redis lib command arguments must be strings or integers".to_owned()),
    };
    words.iter().map(spell).collect()
}

/// A reply as a Lua value: nil is `false`, an error and a status are tables.
fn as_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let named = |name: &str, text: &str| {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Int(number) => number.into_lua(lua),
        Reply::Status(text) => named("ok", text),
        Reply::Refused(text) => named("err", text),
        Reply::Bulk(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Reply::Array(items) => {
            let items = items.iter().map(|item| as_lua(lua, item)).collect::<mlua::Result<Vec<_>>>()?;
            Ok(Value::Table(lua.create_sequence_from(items)?))
        }
    }
}

/// A Lua value as a reply: numbers are cut, `true` is 1 and `false` nil, and a list ends at the first nil.
#[expect(clippy::cast_possible_truncation, reason = "as the store does")]
fn as_reply(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Integer(number) => Reply::Int(*number),
        // A number that does not fit is the smallest one, as on the servers' processor.
        Value::Number(number) if number.abs() < 9.2e18 => Reply::Int(*number as i64),
        Value::Number(_) => Reply::Int(i64::MIN),
        Value::Boolean(true) => Reply::Int(1),
        Value::String(text) => Reply::bulk(&*text.as_bytes()),
        Value::Table(table) => {
            if let Value::String(why) = table.raw_get("err")? {
                return Ok(Reply::Refused(said(&why.as_bytes()).replace(['\r', '\n'], " ")));
            }
            if let Value::String(text) = table.raw_get("ok")? {
                return Ok(Reply::Status(said(&text.as_bytes())));
            }
            let mut items = Vec::new();
            loop {
                match table.raw_get(items.len() + 1)? {
                    Value::Nil => break,
                    item => items.push(as_reply(&item)?),
                }
            }
            Reply::Array(items)
        }
        _ => Reply::Nil,
    })
}
