//! What the access log may tell of a public request: the path as it was understood.

use super::PublicService;
use crate::http::head::Head;
use crate::http::route;
use crate::net::access_log::Describe;
use crate::vote::answer::{Question, ServerKey};

/// Paths that are written as they are.
const PLAIN: [&str; 5] = ["*", "/", "/openapi.json", "/healthz", "/readyz"];

impl Describe for PublicService {
    fn describe(&mut self, head: &Head<'_>) -> String {
        let decoded = route::decode(head.path);
        let Some(Question { server, address }) = route::question(&decoded) else {
            let plain = PLAIN.into_iter().find(|plain| plain.as_bytes() == head.path);
            return plain.unwrap_or("-").into();
        };
        let address = address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        match server {
            ServerKey::Token(_) => format!("/api/servers/***/vote-status/{address}"),
            // A number that no server has might be a token of digits in the wrong place.
            ServerKey::Id(Ok(server)) if self.reader.directory.current().contains(server) => {
                format!("/api/vote/{server}/status/{address}")
            }
            ServerKey::Id(_) => format!("/api/vote/-/status/{address}"),
        }
    }
}
