//! The functions in the store: loaded where they are missing, compared where they are there.

use redis::{Value, cmd};

use super::entry::text;
use super::link::{Link, LinkError};
use crate::recorder::shared::reason::Reason;

/// What every node has the store do.
pub const CODE: &str = include_str!("functions.lua");
/// The library's name; another one for every version of the code.
const LIBRARY: &str = "vs1";

/// Sees to it that the functions are there; whether they are the ones of this version. Nothing is
/// ever replaced: nodes of two versions may run side by side.
///
/// # Errors
/// Where the store cannot be asked, or knows no functions.
pub fn ensure(link: &mut Link) -> Result<bool, LinkError> {
    if let Some(code) = loaded(link)? {
        return Ok(code == CODE);
    }
    match link.ask(cmd("FUNCTION").arg("LOAD").arg(CODE)) {
        // Another node may have been quicker.
        Err(LinkError::Refused(_, why)) if why.contains("already exists") => {
            Ok(loaded(link)?.is_some_and(|code| code == CODE))
        }
        loaded => loaded.map(|_name| true).map_err(|error| lacking(error, link)),
    }
}

/// Functions are each machine's own: of a server in cluster mode one may have them and another not.
fn lacking(error: LinkError, link: &Link) -> LinkError {
    let LinkError::Refused(_, why) = error else { return error };
    let host = link.host();
    let why = format!("the store at {host} lacks the functions {LIBRARY}, and they cannot be loaded there: {why}");
    LinkError::Refused(Reason::Functions, why)
}

fn loaded(link: &mut Link) -> Result<Option<String>, LinkError> {
    let reply = link.ask(cmd("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(LIBRARY).arg("WITHCODE"));
    let reply = reply.map_err(|error| match error {
        LinkError::Refused(reason, why) if why.contains("unknown command") => {
            LinkError::Refused(reason, format!("{why}; Redis 7.0 or Valkey is wanted"))
        }
        other => other,
    })?;
    Ok(code(&reply).map(str::to_owned))
}

/// The code in a listing of libraries: names and values in turn.
fn code(listing: &Value) -> Option<&str> {
    let Value::Array(libraries) = listing else { return None };
    let Value::Array(fields) = libraries.first()? else { return None };
    let code = fields.chunks_exact(2).find(|pair| text(&pair[0]) == Some("library_code"))?;
    text(&code[1])
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::{CODE, LIBRARY, code};

    #[test]
    fn the_library_has_the_name_that_is_looked_for() {
        assert_eq!(CODE.lines().next(), Some(format!("#!lua name={LIBRARY}").as_str()));
        for line in CODE.lines().filter(|line| line.contains("register_function")) {
            assert!(line.contains(&format!("'{LIBRARY}_")), "{line}");
        }
    }

    #[test]
    fn the_code_is_found_in_a_listing() {
        let listing = "*1\r\n*4\r\n$12\r\nlibrary_name\r\n$3\r\nvs1\r\n$12\r\nlibrary_code\r\n$4\r\ncode\r\n";
        let listing = parse_redis_value(listing.as_bytes()).expect("a reply");
        assert_eq!(code(&listing), Some("code"));
        assert_eq!(code(&parse_redis_value(b"*0\r\n").expect("a reply")), None);
    }
}
