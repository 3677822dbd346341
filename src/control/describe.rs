//! What the access log may tell of a control request: the path as it was understood.

use super::ControlService;
use super::request::{self, Ask};
use crate::http::head::Head;
use crate::net::access::Describe;
use crate::vote::id::ServerId;

impl Describe for ControlService {
    fn describe(&mut self, head: &Head<'_>) -> String {
        let Ok(ask) = request::read(head) else { return "-".into() };
        match ask {
            Ask::Page => "/".into(),
            Ask::Health => "/healthz".into(),
            Ask::Ready => "/readyz".into(),
            Ask::Metrics => "/metrics".into(),
            Ask::Vote(_) => "/v1/votes".into(),
            Ask::VoteBatch(..) => "/v1/votes/batch".into(),
            Ask::Cancel(server, address) => format!("/v1/votes/{}/{address}", self.listed(server)),
            Ask::ListServers(..) => "/v1/servers".into(),
            Ask::ServerBatch(..) => "/v1/servers/batch".into(),
            Ask::ShowServer(server) | Ask::PutServer(server) | Ask::RemoveServer(server) => {
                format!("/v1/servers/{}", self.listed(server))
            }
            Ask::RotateToken(server) => format!("/v1/servers/{}/token", self.listed(server)),
            Ask::Export => "/v1/export".into(),
            Ask::Cluster => "/v1/cluster".into(),
            Ask::ClusterDigest => "/v1/cluster/digest".into(),
        }
    }
}

impl ControlService {
    /// The number, unless no server has it: then it might be a token of digits in the wrong place.
    fn listed(&mut self, server: ServerId) -> String {
        let is_listed = self.parts.directory.current().contains(server);
        if is_listed { server.to_string() } else { "-".into() }
    }
}
