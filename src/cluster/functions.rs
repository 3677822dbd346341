//! The functions in the store: loads them if they are missing, compares them with this version's, and calls them.

use std::sync::LazyLock;

use super::entry::{items, number, text};
use super::keys;
use super::link::{LinkError, StoreLink};
use super::reason::Reason;
use super::resp::Value;
use super::wire::sha1;
use crate::vote::id::ServerId;

/// The text of the functions, before it names its version.
pub const CODE: &str = include_str!("functions.lua");
/// The library's name.
pub const LIBRARY: &str = "vote_status";

/// The text that [`CODE`] has in the place of its version.
const NO_VERSION: &str = "'unknown'";
/// The schema of 1.0.0, which this version takes over.
pub(super) const SCHEMA_BEFORE: &str = "2";
/// The beginning of the names of 1.0.0's functions. Later names begin with their schema.
const PREFIX_OF_1_0_0: &str = "vote_status_";

static VERSION: LazyLock<String> = LazyLock::new(|| sha1::hex(CODE.as_bytes()));
static LOADED: LazyLock<String> = LazyLock::new(|| CODE.replacen(NO_VERSION, &format!("'{}'", version()), 1));

/// The version of the functions: the SHA-1 of their text. Each heartbeat compares it.
#[must_use]
pub fn version() -> &'static str {
    &VERSION
}

/// The text to load, which names its version.
#[must_use]
pub fn loaded() -> &'static str {
    &LOADED
}

/// Loads the functions if the store has none or those of 1.0.0. Gives whether the functions in the store are now of this version.
/// The call replaces no others: nodes of another version may be using them.
///
/// # Errors
/// If the store cannot be asked, or does not support functions.
pub fn ensure(link: &mut StoreLink) -> Result<bool, LinkError> {
    let mut words = vec!["FUNCTION", "LOAD"];
    match find(link)? {
        None => {}
        // The nodes of 1.0.0 see another library within a second, and take no votes.
        Some(library) if library.is_of_1_0_0() => {
            words.push("REPLACE");
        }
        Some(library) => return Ok(library.code == loaded()),
    }
    words.push(loaded());
    match link.ask(&words) {
        // Another node has loaded the library meanwhile. The error for a function name of another library reads differently.
        Err(LinkError::Refused(_, why)) if why.contains("ibrary") && why.contains("already exists") => {
            Ok(find(link)?.is_some_and(|library| library.code == loaded()))
        }
        done => done.map(|_name| true).map_err(|error| lacking(error, link)),
    }
}

/// In cluster mode each machine has its own functions, so one may lack them.
fn lacking(error: LinkError, link: &StoreLink) -> LinkError {
    let LinkError::Refused(_, why) = error else { return error };
    let host = link.host();
    let why = format!("the store at {host} lacks the functions {LIBRARY}, and they cannot be loaded there: {why}");
    LinkError::Refused(Reason::Functions, why)
}

/// Takes over the keys of 1.0.0, once the functions are loaded. Gives the names of 1.0.0's nodes, which take no votes any more;
/// `None` if there is nothing to take over. Several nodes may call this at once: the store does it once. The bits tell the
/// takeover's entry from all others.
///
/// # Errors
/// If the store cannot be asked, or refuses.
pub fn take_over(link: &mut StoreLink, bits: i64) -> Result<Option<Vec<String>>, LinkError> {
    let held = link.ask(&["HMGET", keys::META, "store", "schema"])?;
    let Some([store, schema]) = items(&held) else { return Err(link.strange("an id")) };
    let Some(store) = text(store).filter(|_| text(schema) == Some(SCHEMA_BEFORE)) else { return Ok(None) };
    let keys = [keys::LOG, keys::DIRECTORY, keys::TOKENS, keys::META, keys::GONE, keys::NODES];
    let bits = bits.to_string();
    let words = [&["FCALL", "vs3_takeover", "6"], &keys[..], &[store, &bits]].concat();
    let reply = call(link, &words)?;
    match reply.iter().map(text).collect::<Option<Vec<_>>>().as_deref() {
        Some(["made", _last, nodes @ ..]) => Ok(Some(nodes.iter().map(|name| (*name).to_owned()).collect())),
        Some(["has", ..]) => Ok(None),
        _ => Err(link.strange("an answer")),
    }
}

/// The commands, each with its key, that a node needs and this connection's user may not use.
///
/// # Errors
/// If the connection is lost, or the store refuses.
pub fn missing_rights(link: &mut StoreLink) -> Result<Vec<String>, LinkError> {
    let claims = keys::claims(ServerId(0));
    let keys = [keys::LOG, &claims, keys::DIRECTORY, keys::TOKENS, keys::META, keys::GONE, keys::NODES];
    let reply = call(link, &[&["FCALL_RO", "vs3_rights", "7"], &keys[..]].concat())?;
    match reply.iter().map(text).collect::<Option<Vec<_>>>().as_deref() {
        Some(["missing", missing @ ..]) => Ok(missing.iter().map(|right| (*right).to_owned()).collect()),
        _ => Err(link.strange("a list of commands")),
    }
}

/// Calls a function. Gives its reply without the store's time: a word, and the fields that belong to it.
///
/// # Errors
/// If the connection is lost, or the store or the function refuses.
pub(super) fn call(link: &mut StoreLink, words: &[&str]) -> Result<Vec<Value>, LinkError> {
    let reply = link.ask(words)?;
    answered(link, reply)
}

/// The fields of a function's reply behind the store's time.
///
/// # Errors
/// If the function refuses, or the reply is none of a function.
pub(super) fn answered(link: &StoreLink, reply: Value) -> Result<Vec<Value>, LinkError> {
    let Value::Array(mut fields) = reply else { return Err(link.strange("an answer")) };
    let is_timed = fields.first().is_some_and(|time| number(time).is_some());
    let Some(word) = fields.get(1).and_then(text).filter(|_| is_timed) else { return Err(link.strange("an answer")) };
    if word.starts_with("VS") {
        let why = fields.get(2).and_then(text).unwrap_or_default();
        return Err(link.refused(&format!("{word} {why}")));
    }
    fields.remove(0);
    Ok(fields)
}

/// A library in the store.
struct Library {
    code: String,
    /// The names of its functions.
    names: Vec<String>,
}

impl Library {
    fn is_of_1_0_0(&self) -> bool {
        !self.names.is_empty() && self.names.iter().all(|name| name.starts_with(PREFIX_OF_1_0_0))
    }

    /// Reads the first library of a reply: names and values in turn.
    fn read(reply: &Value) -> Option<Self> {
        let fields = items(items(reply)?.first()?)?;
        let field = |fields: &'_ [Value], name: &str| {
            fields.chunks_exact(2).find(|pair| text(&pair[0]) == Some(name)).map(|pair| pair[1].clone())
        };
        let code = field(fields, "library_code")?;
        let functions = field(fields, "functions")?;
        let names = items(&functions)?.iter().map(|function| field(items(function)?, "name"));
        let names = names.map(|name| text(&name?).map(str::to_owned)).collect::<Option<_>>()?;
        // Code that is no text is not ours: it counts as an empty text.
        Some(Self { code: text(&code).unwrap_or_default().to_owned(), names })
    }
}

/// The library in the store, if it is there.
///
/// # Errors
/// If the store cannot be asked, or does not support functions.
fn find(link: &mut StoreLink) -> Result<Option<Library>, LinkError> {
    let reply = link.ask(&["FUNCTION", "LIST", "LIBRARYNAME", LIBRARY, "WITHCODE"]);
    let reply = reply.map_err(|error| match error {
        LinkError::Refused(reason, why) if why.contains("unknown command") => {
            LinkError::Refused(reason, format!("{why}; Redis 7.0 or Valkey is wanted"))
        }
        other => other,
    })?;
    if items(&reply).is_some_and(<[Value]>::is_empty) {
        return Ok(None);
    }
    Library::read(&reply).map(Some).ok_or_else(|| link.strange("a library"))
}

#[cfg(test)]
mod tests {

    use super::{CODE, LIBRARY, Library, NO_VERSION, loaded, version};
    use crate::cluster::keys::SCHEMA;
    use crate::cluster::resp::Value;

    #[test]
    fn what_is_loaded_says_its_version() {
        assert_eq!(CODE.matches(NO_VERSION).count(), 1);
        assert!(CODE.starts_with(&format!("#!lua name={LIBRARY}\n")));
        assert!(CODE.contains(&format!("\nlocal SCHEMA = '{SCHEMA}'\n")));
        assert!(loaded().contains(&format!("\nlocal VERSION = '{}'\n", version())));
        assert_eq!(loaded().replace(&format!("'{}'", version()), NO_VERSION), CODE);
        assert!(CODE.contains(&format!("'vs{SCHEMA}_' .. name")));
    }

    #[test]
    fn only_the_library_of_1_0_0_is_replaced() {
        let bulk = |text: &str| Value::Text(text.as_bytes().to_vec());
        let library = |names: &[&str]| {
            let function = |name: &&str| {
                Value::Array(vec![
                    bulk("name"),
                    bulk(name),
                    bulk("description"),
                    Value::Nil,
                    bulk("flags"),
                    Value::Array(vec![]),
                ])
            };
            let functions = Value::Array(names.iter().map(function).collect());
            let fields = ["library_name", "engine", "functions", "library_code"].map(bulk);
            let values = [bulk(LIBRARY), bulk("LUA"), functions, bulk("code")];
            let fields = fields.into_iter().zip(values).flat_map(<[Value; 2]>::from).collect();
            Library::read(&Value::Array(vec![Value::Array(fields)])).expect("a library")
        };
        assert_eq!(library(&["vote_status_vote"]).code, "code");
        assert!(library(&["vote_status_vote", "vote_status_head"]).is_of_1_0_0());
        // A later version's library has other names again.
        for names in [&["vs3_head", "vs3_vote"][..], &["vs4_head"], &["vs3_vote", "vote_status_vote"], &[]] {
            assert!(!library(names).is_of_1_0_0(), "{names:?}");
        }
        assert!(Library::read(&Value::Array(vec![])).is_none());
    }
}
