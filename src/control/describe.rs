//! What the access log may tell of a control request: the path as it was understood.

use super::ControlService;
use super::request::{self, ControlRequest};
use crate::http::head::Head;
use crate::net::access_log::Describe;
use crate::vote::id::ServerId;

impl Describe for ControlService {
    fn describe(&mut self, head: &Head<'_>) -> String {
        let Ok(ask) = request::read(head) else { return "-".into() };
        match ask {
            ControlRequest::Page => "/".into(),
            ControlRequest::Health => "/healthz".into(),
            ControlRequest::Ready => "/readyz".into(),
            ControlRequest::Metrics => "/metrics".into(),
            ControlRequest::Vote(_) => "/v1/votes".into(),
            ControlRequest::VoteBatch(..) => "/v1/votes/batch".into(),
            ControlRequest::ShowVote(server, address) | ControlRequest::Cancel(server, address) => {
                format!("/v1/votes/{}/{address}", self.listed(server))
            }
            ControlRequest::ListServers(..) => "/v1/servers".into(),
            ControlRequest::ServerBatch(..) => "/v1/servers/batch".into(),
            ControlRequest::ShowServer(server)
            | ControlRequest::PutServer(server)
            | ControlRequest::RemoveServer(server) => {
                format!("/v1/servers/{}", self.listed(server))
            }
            ControlRequest::RotateToken(server) => format!("/v1/servers/{}/token", self.listed(server)),
            ControlRequest::Export => "/v1/export".into(),
            ControlRequest::Watch => "/v1/watch".into(),
            ControlRequest::Cluster => "/v1/cluster".into(),
            ControlRequest::ClusterDigest => "/v1/cluster/digest".into(),
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
