//! The export of a node, read line by line. Only `cluster check` and `reseed` read one, and it is compiled with them.
//! `export` writes the bytes to a file, and `import` sends a file's lines on.

use std::io::BufReader;

use super::CliError;
use super::client::ControlClient;
use super::lines::Lines;
use crate::control::body::{self, BodyLine};
use crate::control::export_header;
use crate::recorder::command::ServerName;
use crate::store::StoredVote;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::Pair;

/// A server or a vote that a node holds.
pub(super) enum Held {
    /// A server and its token.
    Server(ServerId, Token),
    /// A live vote.
    Vote(StoredVote),
}

/// Reads everything that a node holds: its servers, then its votes. `visit` gets each, and the bytes read so far.
///
/// # Errors
/// Where the node cannot be reached, the stream is cut, or `visit` fails.
pub(super) fn read(
    client: &ControlClient,
    mut visit: impl FnMut(Held, u64) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let url = client.url().to_owned();
    let mut lines = Lines::new(BufReader::new(client.stream("/v1/export")?));
    let cut = |error| CliError::new(format_args!("the export from {url} was cut off: {error}; try again"));
    while let Some(line) = lines.next().map_err(cut)? {
        let number = line.number;
        let strange = || CliError::new(format_args!("line {number} of the export from {url} makes no sense"));
        let text = line.text.ok_or_else(strange)?;
        if text.trim_ascii().is_empty() {
            continue;
        }
        if export_header::is_header(text) {
            // The settings are those of the node, which `node_client` gives.
            export_header::read(text).map_err(|invalid| CliError::new(format_args!("{url}: {}", invalid.message)))?;
            continue;
        }
        let held = held(text).ok_or_else(strange)?;
        visit(held, lines.bytes_read())?;
    }
    Ok(())
}

fn held(text: &[u8]) -> Option<Held> {
    match body::line(text, "invalid").ok()? {
        BodyLine::Server(server) => Some(Held::Server(server.server, server.token?)),
        BodyLine::Vote(vote) => {
            let ServerName::Id(server) = vote.server else { return None };
            let pair = Pair { server, address: vote.voter.first() };
            Some(Held::Vote(StoredVote { pair, voted_at: vote.voted_at? }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, held};
    use crate::vote::id::{ServerId, Token};
    use crate::vote::time::UnixSeconds;

    #[test]
    fn lines_of_an_export() {
        let vote = held(br#"{"server_id":28,"ip":"203.0.113.7","voted_at":"2026-11-20T11:04:56Z"}"#);
        assert!(matches!(vote, Some(Held::Vote(vote)) if vote.voted_at == UnixSeconds(1_795_172_696)));
        let server = held(br#"{"server_id":28,"token":"demo"}"#);
        let token = Token::new("demo").expect("a token");
        assert!(matches!(server, Some(Held::Server(ServerId(28), held)) if held == token));
        for strange in [&br#"{"server_id":28}"#[..], br#"{"token":"demo","ip":"203.0.113.7"}"#, b"x"] {
            assert!(held(strange).is_none());
        }
    }
}
