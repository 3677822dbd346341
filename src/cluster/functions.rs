//! The functions in the store: loaded where they are missing, compared where they are there.

use redis::cmd;

use super::entry::{items, text};
use super::keys;
use super::link::{LinkError, StoreLink};
use super::reason::Reason;
use crate::vote::id::ServerId;

/// What every node has the store do.
pub const CODE: &str = include_str!("functions.lua");
/// The library's name.
pub const LIBRARY: &str = "vote_status";

/// Loads the functions if they are missing, and says whether those in the store are of this version. Never
/// replaces any: nodes of another version may be using them.
///
/// # Errors
/// Where the store cannot be asked, or knows no functions.
pub fn ensure(link: &mut StoreLink) -> Result<bool, LinkError> {
    if let Some(code) = loaded(link)? {
        return Ok(is_same(&code, CODE));
    }
    match link.ask(cmd("FUNCTION").arg("LOAD").arg(CODE)) {
        // Another node has loaded them meanwhile.
        Err(LinkError::Refused(_, why)) if why.contains("already exists") => {
            Ok(loaded(link)?.is_some_and(|code| is_same(&code, CODE)))
        }
        loaded => loaded.map(|_name| true).map_err(|error| lacking(error, link)),
    }
}

/// Each machine of a server in cluster mode has its own functions: one may lack them.
fn lacking(error: LinkError, link: &StoreLink) -> LinkError {
    let LinkError::Refused(_, why) = error else { return error };
    let host = link.host();
    let why = format!("the store at {host} lacks the functions {LIBRARY}, and they cannot be loaded there: {why}");
    LinkError::Refused(Reason::Functions, why)
}

/// The commands, each with its key, that a node needs and this connection's user may not use.
///
/// # Errors
/// Either kind.
pub fn missing_rights(link: &mut StoreLink) -> Result<Vec<String>, LinkError> {
    let (claims, mut question) = (keys::claims(ServerId(0)), cmd("FCALL_RO"));
    let keys = [keys::LOG, &claims, keys::DIRECTORY, keys::TOKENS, keys::META, keys::GONE, keys::NODES];
    question.arg("vote_status_rights").arg(keys.len()).arg(&keys[..]);
    let reply = link.ask(&question)?;
    let missing = items(&reply).and_then(|calls| calls.iter().map(|call| text(call).map(str::to_owned)).collect());
    missing.ok_or_else(|| link.strange("a list of commands"))
}

/// Whether two libraries do the same: they may differ in their comments, of whole lines or behind a line's
/// code, and in blanks around lines. Where it is not plain that something is a comment it counts as code.
fn is_same(one: &str, other: &str) -> bool {
    one == other || code_lines(one).eq(code_lines(other))
}

fn code_lines(code: &str) -> impl Iterator<Item = &str> {
    // The first line is the library's name.
    code.lines().map(|line| without_comment(line).trim()).filter(|line| !line.is_empty())
}

fn without_comment(line: &str) -> &str {
    let Some((before, comment)) = line.split_once("--") else { return line };
    let is_long = comment.starts_with('[');
    let is_in_text = ['\'', '"'].iter().any(|quote| before.matches(*quote).count() % 2 == 1);
    if is_long || is_in_text { line } else { before }
}

/// The code of the library in the store, if it is there.
///
/// # Errors
/// Where the store cannot be asked, or knows no functions.
fn loaded(link: &mut StoreLink) -> Result<Option<String>, LinkError> {
    let reply = link.ask(cmd("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(LIBRARY).arg("WITHCODE"));
    let reply = reply.map_err(|error| match error {
        LinkError::Refused(reason, why) if why.contains("unknown command") => {
            LinkError::Refused(reason, format!("{why}; Redis 7.0 or Valkey is wanted"))
        }
        other => other,
    })?;
    // Libraries, each with names and values in turn.
    let fields = items(&reply).and_then(|libraries| items(libraries.first()?)).unwrap_or_default();
    let code = fields.chunks_exact(2).find(|pair| text(&pair[0]) == Some("library_code"));
    Ok(code.and_then(|code| text(&code[1])).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::{CODE, LIBRARY, is_same};

    #[test]
    fn a_comment_makes_no_other_library() {
        let same = [
            format!("{CODE}\n-- of another hand\n"),
            CODE.replace("local SPARE_S = 60", "  local SPARE_S = 60 -- why"),
            CODE.lines().filter(|line| !line.starts_with("--")).map(|line| format!("{line}\r\n")).collect(),
        ];
        for other in &same {
            assert!(is_same(other, CODE), "{other}");
        }
        let different = [
            CODE.replace("local SPARE_S = 60", "local SPARE_S = 61"),
            CODE.replace("local SPARE_S = 60", "--[[ local SPARE_S = 60"),
            CODE.replace("'-inf'", "'--inf'"),
            CODE.replace(LIBRARY, "other"),
            format!("{CODE}\nreturn 1"),
        ];
        for other in &different {
            assert!(!is_same(other, CODE), "{other}");
        }
    }
}
