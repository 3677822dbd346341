//! The control listener's client: requests with the key and a JSON body.

use crate::util::client::{exchange, get};
use crate::util::endpoint::Endpoint;
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::wait_until;
use std::net::IpAddr;

/// The control listener's endpoint and key. Each request takes a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    endpoint: Endpoint,
    key: String,
}

impl Control {
    /// The control interface of `endpoint`, entered with `key`.
    pub(crate) fn new(endpoint: impl Into<Endpoint>, key: &str) -> Control {
        Control { endpoint: endpoint.into(), key: key.to_owned() }
    }

    /// The bytes of a request with the key. A body gets a `Content-Length`.
    pub(crate) fn request_bytes(&self, method: &str, path: &str, body: Option<&str>) -> String {
        let key = &self.key;
        let head = format!("{method} {path} HTTP/1.1\r\nHost: control\r\nAuthorization: Bearer {key}\r\n");
        match body {
            None => format!("{head}\r\n"),
            Some(body) => {
                format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            }
        }
    }

    /// `GET path`.
    pub(crate) fn get(&self, path: &str) -> Response {
        exchange(&self.endpoint, self.request_bytes("GET", path, None))
    }

    /// The lines of an export behind its header.
    #[track_caller]
    pub(crate) fn exported(&self) -> Vec<String> {
        let export = self.get("/v1/export");
        assert_eq!(export.status, 200, "{export:?}");
        let mut lines = export.text().lines();
        let header = lines.next().unwrap_or_default();
        assert!(header.starts_with(r#"{"export":"vote-status","version":1,"#), "{header}");
        lines.map(str::to_owned).collect()
    }

    /// `POST path` with a JSON body.
    pub(crate) fn post(&self, path: &str, body: &str) -> Response {
        exchange(&self.endpoint, self.request_bytes("POST", path, Some(body)))
    }

    /// `PUT path` with a JSON body.
    pub(crate) fn put(&self, path: &str, body: &str) -> Response {
        exchange(&self.endpoint, self.request_bytes("PUT", path, Some(body)))
    }

    /// `DELETE path`.
    pub(crate) fn delete(&self, path: &str) -> Response {
        exchange(&self.endpoint, self.request_bytes("DELETE", path, None))
    }

    /// Registers server `id` under `token`, whatever the answer.
    pub(crate) fn put_server(&self, id: u32, token: &str) -> Response {
        self.put(&format!("/v1/servers/{id}"), &format!(r#"{{"token":"{token}"}}"#))
    }

    /// Registers server `id` under `token`, which must be new. A node may have to wait for others, or for its store.
    pub(crate) fn add_server(&self, id: u32, token: &str) {
        until_taken("a server is listed", [201, 200], || self.put_server(id, token));
    }

    /// Casts a vote now, whatever the answer.
    pub(crate) fn cast(&self, server_id: u32, ip: impl Into<IpAddr>) -> Response {
        let ip = ip.into();
        self.post("/v1/votes", &format!(r#"{{"server_id":{server_id},"ip":"{ip}"}}"#))
    }

    /// Casts a vote that was given at `voted_at` (Unix seconds), whatever the answer.
    pub(crate) fn cast_at(&self, server_id: u32, ip: &str, voted_at: i64) -> Response {
        self.post("/v1/votes", &format!(r#"{{"server_id":{server_id},"ip":"{ip}","voted_at":{voted_at}}}"#))
    }
}

/// Sends a change again as long as the answer is 503, as of a node that has just started or that stood still. The answer has to
/// be the first status, or the second one where the change was sent again: the earlier try may have been made.
#[track_caller]
pub(crate) fn until_taken(what: &str, [first, again]: [u16; 2], mut send: impl FnMut() -> Response) -> Response {
    let (mut taken, mut is_again) = (None, false);
    wait_until(what, || {
        let response = send();
        let is_taken = response.status == first || (is_again && response.status == again);
        assert!(is_taken || response.status == 503, "{response:?}");
        is_again = true;
        taken = Some(response).filter(|_| is_taken);
        taken.is_some()
    });
    taken.expect("it was waited for")
}

impl Server {
    /// A server in memory that lists 28 under the token `demo`.
    pub(crate) fn listed(args: &[&str]) -> Server {
        let server = Server::in_memory(args);
        server.control_client().add_server(28, "demo");
        server
    }

    /// The control interface with the key that the server was started with.
    pub(crate) fn control_client(&self) -> Control {
        Control::new(self.control_endpoint(), Server::KEY)
    }

    /// A sample of `/metrics`, `None` where the page lacks it. The name includes the labels as printed.
    pub(crate) fn sample(&self, name: &str) -> Option<f64> {
        let page = get(self.control_endpoint(), "/metrics");
        let value = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value}")))
    }

    /// Waits until a sample is this number.
    #[track_caller]
    pub(crate) fn await_metric(&self, name: &str, value: u64) {
        wait_until(&format!("{name} {value}"), || self.metric(name) == value);
    }

    /// A sample that must be there and be a whole number.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let value = self.sample(name).unwrap_or_else(|| panic!("no {name}"));
        assert!(value >= 0.0 && value.fract() == 0.0, "{name} is {value}");
        value as u64
    }
}
