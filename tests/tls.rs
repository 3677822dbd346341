//! `serve --tls-cert … --tls-key …`: the contract under TLS, certificates and their files, and
//! clients that mean harm. Where `openssl`, which makes the certificates, is missing, all of it is
//! left out.

mod abuse;
mod buffers;
mod certificates;
mod takeover;
mod wire;

use crate::util::answers::CAN_VOTE;
use crate::util::client::Client;
use crate::util::endpoint::{Endpoint, Transport, connect_tcp};
use crate::util::needs::has;
use crate::util::random::Random;
use crate::util::server::Server;
use crate::util::tls::{Pair, TlsStream};
use rustls::ClientConfig;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A request that every server of these tests answers with [`CAN_VOTE`].
const GET: &str = "GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n";

/// A server with one public listener under TLS, and the folder with its certificate.
struct Service {
    folder: TempDir,
    server: Server,
}

impl Service {
    /// In memory, with server 28, `args` added. `None` where there is nothing to make a certificate with.
    fn start(args: &[&str]) -> Option<Service> {
        let service = Self::empty("ec", args)?;
        service.server.control_client().add_server(28, "demo");
        Some(service)
    }

    /// The same without any server, with a key of the kind `newkey`.
    fn empty(newkey: &str, args: &[&str]) -> Option<Service> {
        let folder = folder()?;
        let pair = Pair::make(folder.path(), "first", newkey);
        let (cert, key) = (text(&pair.cert), text(&pair.key));
        let tls = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key];
        let server = Server::listening(&[&tls, args].concat());
        Some(Service { folder, server })
    }

    fn endpoint(&self) -> &Endpoint {
        &self.server.publics()[0]
    }

    fn connect(&self) -> Client {
        Client::connect(self.endpoint())
    }

    /// A connection as `config` has it, of which the bytes may leave in slices.
    fn connect_as(&self, config: &Arc<ClientConfig>, slices: Option<Random>) -> Client {
        let socket = connect_tcp(self.server.public()).expect("the server listens");
        Client::over(Transport::Tls(Box::new(TlsStream::new(socket, Arc::clone(config), slices))))
    }
}

/// A folder for certificates, unless they cannot be made here.
fn folder() -> Option<TempDir> {
    has(&["openssl"]).then(|| tempfile::tempdir().expect("a temporary folder"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is UTF-8")
}

/// One request on a connection that must be good.
fn ask(client: &mut Client) {
    client.send(GET);
    let response = client.read_response(false);
    assert_eq!(response.text(), CAN_VOTE.body, "{response:?}");
}
