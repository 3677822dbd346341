//! What watchers may be told of a public request: what was asked, and the answer in a word.

use super::{PublicReply, PublicService, outcome};
use crate::http::head::Head;
use crate::http::route;
use crate::metrics::answers::Variant;
use crate::net::watched::Watchable;
use crate::vote::answer::{Question, ServerKey};
use crate::vote::id::ServerId;
use crate::watch::{TokenBeginning, WatchedQuestion};

/// Paths that mean something else than a question.
const OTHER_PATHS: [&str; 5] = ["*", "/", "/openapi.json", "/healthz", "/readyz"];

impl Watchable for PublicService {
    fn watched(&mut self, head: &Head<'_>) -> Option<WatchedQuestion> {
        let decoded = route::decode(head.path);
        let Some(Question { server, address }) = route::question(&decoded) else {
            // A path that is nothing here may be a question by the wrong path.
            return (!OTHER_PATHS.iter().any(|path| path.as_bytes() == head.path)).then(WatchedQuestion::default);
        };
        let servers = self.reader.directory.current();
        let address = address.map(|address| self.reader.cooldowns.voter(address));
        let mut asked = WatchedQuestion { address, ..WatchedQuestion::default() };
        match server {
            ServerKey::Token(token) => {
                asked.variant = Some(Variant::Token.label());
                asked.server = servers.find(token);
                if asked.server.is_none() {
                    asked.token_begins = TokenBeginning::of(token, servers);
                }
            }
            ServerKey::Id(server) => {
                asked.variant = Some(Variant::Id.label());
                // A number that is a token in the wrong place is not told.
                let is_secret = |server: &ServerId| servers.find(server.to_string().as_bytes()).is_some();
                asked.server = server.ok().filter(|server| servers.contains(*server) || !is_secret(server));
            }
        }
        Some(asked)
    }

    fn watched_answer(&self, reply: &PublicReply) -> Option<(&'static str, u16)> {
        match reply {
            PublicReply::Status(_, answer) => {
                let (outcome, status) = (outcome(*answer).labels(), outcome(*answer).status());
                Some((outcome.1.unwrap_or(outcome.0), status))
            }
            PublicReply::Refused(fault) => Some((fault.word(), fault.status())),
            PublicReply::Waiting(_) | PublicReply::Options | PublicReply::Page(..) | PublicReply::Health(_) => None,
        }
    }
}
