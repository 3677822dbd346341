//! A real store under TLS, with real certificates from the test's own authority.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::load::SERVERS;
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::oracle::settle;
use crate::cluster::util::resp::Redis;
use crate::util::endpoint::free_port;
use crate::util::ledger::address;
use crate::util::load::Load;
use crate::util::needs::{has, rounds};
use crate::util::wait_until;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// An authority, and the certificates that it has signed for 127.0.0.1.
struct Authority {
    folder: TempDir,
}

impl Authority {
    fn new() -> Authority {
        let authority = Authority { folder: tempfile::tempdir().expect("a temporary folder") };
        authority.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt");
        for name in ["store", "node"] {
            authority.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name} -addext subjectAltName=IP:127.0.0.1 \
                 -addext basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key -keyout {name}.key -out {name}.crt"
            ));
        }
        authority
    }

    fn openssl(&self, words: &str) {
        let mut command = Command::new("openssl");
        let output = command.args(words.split_whitespace()).current_dir(self.folder.path()).output();
        let output = output.expect("openssl can be run");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("it is there")
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The arguments with which Redis also listens under TLS, besides its port in the clear.
    fn arguments(&self, port: u16, auth: &str) -> Vec<String> {
        let options = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", self.text("store.crt")),
            ("--tls-key-file", self.text("store.key")),
            ("--tls-ca-cert-file", self.text("ca.crt")),
            ("--tls-auth-clients", auth.to_owned()),
        ];
        options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

/// A Redis under TLS, the address of its TLS port, and its authority.
fn secured(auth: &str) -> Option<(Engine, SocketAddr, Authority)> {
    // Some packages have a server without TLS.
    if !has(&["redis-server", "openssl"]) || !crate::cluster::util::engine::knows_tls() {
        return None;
    }
    let authority = Authority::new();
    let port = free_port().port();
    let arguments = authority.arguments(port, auth);
    let engine = Engine::start(&arguments.iter().map(String::as_str).collect::<Vec<&str>>());
    Some((engine, ([127, 0, 0, 1], port).into(), authority))
}

fn init(store: &str, with: &[&str]) -> crate::util::server::Ended {
    client(&[&["cluster", "init", "--store", store][..], with].concat())
}

/// As documented: with the authority, and with a certificate for a store that wants one.
#[test]
fn nodes_follow_a_store_under_tls() {
    let Some((engine, addr, authority)) = secured("yes") else { return };
    let store = format!("rediss://{addr}");
    let (ca, cert, key) = (authority.text("ca.crt"), authority.text("node.crt"), authority.text("node.key"));
    let believed = ["--store-ca", &ca];
    let with = ["--store-ca", &ca, "--store-cert", &cert, "--store-key", &key];
    // The system does not know the authority. The store refuses clients without a certificate.
    let strange = init(&store, &[]);
    assert!(strange.status.code() == Some(2) && strange.stderr.contains("TLS: "), "{}", strange.stderr);
    let unknown = init(&store, &believed);
    assert!(unknown.status.code() == Some(2), "{}{}", unknown.stdout, unknown.stderr);
    assert!(unknown.stderr.to_lowercase().contains("certificate"), "{}", unknown.stderr);
    let made = init(&store, &with);
    assert!(made.status.success(), "{}", made.stderr);
    // A connection in the clear has no certificate to verify.
    let clear = init(&engine.url(), &believed);
    assert!(clear.stderr.contains("begins with rediss://"), "{}", clear.stderr);

    let nodes = Node::start_many(2, &store, &with);
    nodes[0].add_servers(3);
    for number in 0..300 {
        nodes[number as usize % 2].record_vote(1 + number % 3, address(number));
    }
    let late = Node::start(&store, &with);
    let all = [&nodes[0], &nodes[1], &late];
    assert_eq!(settle(&mut engine.connect(), &all, "under TLS").votes.len(), 300);
    let compared =
        client(&[&["cluster", "check", "--store", &store, "--control-url", &late.control_url()][..], &with].concat());
    assert_eq!(compared.status.code(), Some(0), "{}{}", compared.stdout, compared.stderr);
}

/// The node reads its files at each connection: it reports a wrong one, and a better one needs no restart.
#[test]
fn a_certificate_that_is_not_believed_any_more_is_told_as_tls() {
    let Some((engine, addr, authority)) = secured("no") else { return };
    let store = format!("rediss://{addr}");
    let ca = authority.text("ca.crt");
    assert!(init(&store, &["--store-ca", &ca]).status.success());
    let node = Node::start(&store, &["--store-ca", &ca]);
    node.add_servers(1);
    let other = Authority::new();
    let (own, others) = (authority.path("ca.crt"), other.path("ca.crt"));
    let kept = std::fs::read(&own).expect("it is there");
    let hang_up = || engine.connect().ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let replace = |from: &Path| std::fs::copy(from, &own).expect("a copy");
    replace(&others);
    hang_up();
    wait_until("it is told as TLS", || node.readiness().json()["store"]["feed"]["reason"] == "tls");
    wait_until("votes are refused for it", || {
        node.control().cast(1, address(1)).status == 503 && node.readiness().json()["store"]["votes"]["reason"] == "tls"
    });
    node.server().wait_for_lines("TLS: invalid peer certificate", 1);
    std::fs::write(&own, kept).expect("the folder takes a file");
    node.wait_until_recording(1);
}

/// The store and the nodes get other certificates, and at last another authority, while votes are cast and every connection
/// is renewed. No vote is lost, none counts twice, and votes go on.
#[test]
fn certificates_and_their_authority_are_renewed_under_load() {
    const MORE: usize = 200;
    let Some((engine, addr, mut authority)) = secured("yes") else { return };
    // The folder that the nodes read, where the test replaces certificates.
    let of_nodes = tempfile::tempdir().expect("a temporary folder");
    let put = |name: &str, bytes: Vec<u8>| {
        let new = of_nodes.path().join("new");
        std::fs::write(&new, bytes).expect("the folder takes a file");
        std::fs::rename(&new, of_nodes.path().join(name)).expect("a file can be replaced");
    };
    let renew_nodes = |from: &Authority, names: &[&str]| names.iter().for_each(|name| put(name, from.read(name)));
    renew_nodes(&authority, &["ca.crt", "node.crt", "node.key"]);
    let [ca, cert, key] =
        ["ca.crt", "node.crt", "node.key"].map(|name| of_nodes.path().join(name).display().to_string());
    let with = ["--store-ca", &ca, "--store-cert", &cert, "--store-key", &key];
    let store = format!("rediss://{addr}");
    assert!(init(&store, &with).status.success());
    let nodes = Node::start_many(2, &store, &with);
    nodes[0].add_servers(SERVERS);

    let load = Load::voting(&[&nodes[0], &nodes[1]], 8, 0, 0);
    load.wait_for_more(MORE);
    let mut redis = engine.connect();
    // Ends all connections of the nodes. Votes go on over new ones.
    let hang_up = |redis: &mut Redis| {
        redis.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        load.wait_for_more(MORE);
    };
    for _ in 0..rounds(3) {
        let next = Authority::new();
        // First the store and all nodes trust both authorities.
        let both = [authority.read("ca.crt"), next.read("ca.crt")].concat();
        let bundle = next.text("both.crt");
        std::fs::write(&bundle, &both).expect("the folder takes a file");
        put("ca.crt", both);
        redis.ask(&["CONFIG", "SET", "tls-ca-cert-file", &bundle]);
        hang_up(&mut redis);
        // Then each side presents a certificate of the new one,
        let (store_cert, store_key) = (next.text("store.crt"), next.text("store.key"));
        redis.ask(&["CONFIG", "SET", "tls-cert-file", &store_cert, "tls-key-file", &store_key]);
        hang_up(&mut redis);
        renew_nodes(&next, &["node.crt", "node.key"]);
        hang_up(&mut redis);
        // and at last no side trusts the old one.
        renew_nodes(&next, &["ca.crt"]);
        redis.ask(&["CONFIG", "SET", "tls-ca-cert-file", &next.text("ca.crt")]);
        hang_up(&mut redis);
        authority = next;
    }
    let tally = load.stop();
    let truth = settle(&mut redis, &[&nodes[0], &nodes[1]], "with renewed certificates");
    let lost = tally.recorded.keys().filter(|pair| !truth.votes.contains_key(pair)).count();
    println!("{} votes, {} answered 503", tally.recorded.len(), tally.unavailable);
    assert_eq!((lost, tally.doubles.len()), (0, 0));
    let checked = client(
        &[&["cluster", "check", "--store", &store, "--control-url", &nodes[0].control_url()][..], &with].concat(),
    );
    assert_eq!(checked.status.code(), Some(0), "{}{}", checked.stdout, checked.stderr);
}

/// Regression: a port in the clear takes the start of TLS for a command, and waits for its rest. With `rediss://` the error
/// was the system's for a socket that has nothing to read yet.
#[test]
fn a_port_that_says_nothing_under_tls_is_told_as_slow() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let store = format!("rediss://{}", silent.local_addr().expect("an address"));
    let tried = init(&store, &[]);
    assert_eq!(tried.status.code(), Some(2), "{}", tried.stderr);
    assert!(tried.stderr.contains("TLS: it takes too long"), "{}", tried.stderr);
}

/// Sentinels and the machines that they watch, all under TLS.
#[test]
fn nodes_ask_sentinels_under_tls() {
    let Some((engine, addr, authority)) = secured("no") else { return };
    let ports = [(); 3].map(|()| free_port().port());
    let sentinels = ports.map(|port| {
        let mut lines = vec!["tls-replication yes".to_owned()];
        let arguments = authority.arguments(port, "no");
        lines.extend(arguments.chunks(2).map(|pair| format!("{} {}", pair[0].trim_start_matches('-'), pair[1])));
        Engine::sentinel(addr, 2, 1_000, &lines)
    });
    let named: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let store = format!("rediss+sentinel://{}/votes", named.join(","));
    let ca = authority.text("ca.crt");
    let made = init(&store, &["--store-ca", &ca]);
    assert!(made.status.success(), "{}", made.stderr);
    let node = Node::start(&store, &["--store-ca", &ca]);
    node.add_servers(1);
    node.record_vote(1, address(1));
    assert_eq!(settle(&mut engine.connect(), &[&node], "by Sentinels under TLS").votes.len(), 1);

    // One of three Sentinels is not more than half: it may be the one that is cut off.
    let mut sentinels = sentinels;
    sentinels[0].kill();
    assert!(init(&store, &["--store-ca", &ca]).status.success(), "two of three are");
    sentinels[1].kill();
    let alone = init(&store, &["--store-ca", &ca]);
    assert!(alone.stderr.contains("of 3 sentinels 1 answer, and more than half have to name one"), "{}", alone.stderr);
    // A node that is connected stays so.
    node.record_at_once(1, address(2));
}
