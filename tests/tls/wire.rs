//! What goes over the wire: the contract in both versions of TLS, records in any slices, sessions
//! that are resumed, ends that are announced, and those who do not speak TLS.

use super::{CAN_VOTE, GET, Service, ask};
use crate::util::DEADLINE;
use crate::util::answers::{BAD_REQUEST, prepare};
use crate::util::checks;
use crate::util::client::{Client, exchange, get};
use crate::util::needs::left_out;
use crate::util::random::Random;
use crate::util::tls::{client, old_client};
use rustix::net::{SendFlags, send};
use rustix::process::Signal;
use rustls::{HandshakeKind, ProtocolVersion};
use std::io::Write;
use std::process::Command;
use std::sync::Arc;

#[test]
fn the_contract_holds_there() {
    let Some(service) = Service::empty("ec", &[]) else { return };
    let next = prepare(&service.server);
    checks::whole_contract(service.endpoint(), &next);
}

#[test]
fn both_versions_and_both_kinds_of_key_are_spoken() {
    for newkey in ["ec", "rsa:2048"] {
        let Some(service) = Service::empty(newkey, &[]) else { return };
        service.server.control_client().add_server(28, "demo");
        for (config, version) in [(client(), ProtocolVersion::TLSv1_3), (old_client(), ProtocolVersion::TLSv1_2)] {
            let mut client = service.connect_as(&config, None);
            ask(&mut client);
            let connection = client.tls().connection();
            assert_eq!(connection.protocol_version(), Some(version), "{newkey}");
            assert_eq!(connection.alpn_protocol(), Some(&b"http/1.1"[..]), "{newkey}");
            client.send(GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
            assert!(client.read_response(false).says_close());
            client.expect_closed();
        }
    }
}

/// As libcurl does where it is told to speak HTTP/1.0.
#[test]
fn a_client_that_offers_http_1_0_alone_is_served() {
    let Some(service) = Service::start(&[]) else { return };
    for config in [client(), old_client()] {
        let mut config = (*config).clone();
        config.alpn_protocols = vec![b"http/1.0".to_vec()];
        let mut client = service.connect_as(&Arc::new(config), None);
        client.send(GET.replace("HTTP/1.1", "HTTP/1.0"));
        let response = client.read_response(false);
        assert_eq!(response.text(), CAN_VOTE.body, "{response:?}");
        assert_eq!(client.tls().connection().alpn_protocol(), Some(&b"http/1.0"[..]));
        client.expect_closed();
    }
}

#[test]
fn bytes_may_come_in_any_slices() {
    const ROUNDS: usize = 60;
    let Some(service) = Service::start(&[]) else { return };
    let mut random = Random::from_environment();
    for round in 0..ROUNDS {
        let config = if round % 2 == 0 { client() } else { old_client() };
        let seed = Random::seeded(random.next());
        let mut client = service.connect_as(&config, Some(seed));
        ask(&mut client);
        // Several requests in one record, and one request in several.
        client.send(GET.repeat(3));
        for _ in 0..3 {
            assert_eq!(client.read_response(false).text(), CAN_VOTE.body);
        }
        let (start, end) = GET.split_at(random.below(GET.len()));
        client.send(start);
        client.send(end);
        assert_eq!(client.read_response(false).text(), CAN_VOTE.body);
        client.shutdown_write();
        client.expect_closed();
    }
}

#[test]
fn sessions_are_resumed() {
    let Some(service) = Service::start(&[]) else { return };
    for config in [client(), old_client()] {
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
            let mut client = service.connect_as(&config, None);
            ask(&mut client);
            assert_eq!(client.tls().connection().handshake_kind(), Some(expected));
        }
    }
}

#[test]
fn keys_may_be_changed_under_way() {
    let Some(service) = Service::start(&[]) else { return };
    let mut client = service.connect();
    for _ in 0..5 {
        ask(&mut client);
        client.tls().connection().refresh_traffic_keys().expect("the handshake is done");
    }
    ask(&mut client);
}

#[test]
fn every_end_is_announced() {
    let Some(mut service) = Service::start(&["--idle-timeout", "0.3", "--workers", "1"]) else { return };
    // The client of these tests takes an end without close_notify for a failure.
    let mut idle = service.connect();
    ask(&mut idle);
    idle.expect_closed();
    let mut refused = service.connect();
    refused.send("nonsense\r\n\r\n");
    assert_eq!(refused.read_response(false).text(), BAD_REQUEST.body);
    refused.expect_closed();
    let mut half_closed = service.connect();
    ask(&mut half_closed);
    half_closed.shutdown_write();
    half_closed.expect_closed();
    let mut drained = service.connect();
    ask(&mut drained);
    service.server.signal(Signal::TERM);
    drained.expect_closed();
    assert_eq!(service.server.wait_exit(DEADLINE).code(), Some(0), "{}", service.server.stderr());
}

#[test]
fn who_goes_without_a_word_is_answered_all_the_same() {
    let Some(service) = Service::start(&[]) else { return };
    let mut client = service.connect();
    client.send(GET);
    client.tls().socket().shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(client.read_response(false).text(), CAN_VOTE.body);
    client.expect_closed();
}

#[test]
fn plain_http_is_told_so() {
    let Some(service) = Service::start(&[]) else { return };
    let addr = service.server.public();
    for request in [GET, "GET", "\r\n", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{}", "\u{1}\u{2}\u{3}", "\0"] {
        let mut client = Client::connect(addr);
        client.send(request);
        let response = client.read_response(false);
        assert_eq!(response.status, 400, "{request:?}: {response:?}");
        assert_eq!(response.text(), BAD_REQUEST.body, "{request:?}");
        assert!(response.says_close(), "{request:?}");
        client.expect_closed();
    }
    let mut client = Client::connect(addr);
    client.send(GET.replace("GET", "HEAD"));
    assert_eq!(client.read_response(true).status, 400);
    client.expect_closed();
    ask(&mut service.connect());
    let metrics = get(service.server.control(), "/metrics");
    for line in [r#"{stage="begun"} 1"#, r#"{stage="done"} 1"#, r#"{stage="not_tls"} 7"#] {
        let line = format!("\nvote_status_tls_handshakes_total{line}\n");
        assert!(metrics.text().contains(&line), "without {line:?}: {}", metrics.text());
    }
}

#[test]
fn a_plain_address_may_stand_beside() {
    let Some(service) = Service::start(&["--listen-plain", "127.0.0.1:0"]) else { return };
    let [secured, plain] = service.server.publics() else { panic!("two public listeners were asked for") };
    assert_eq!(exchange(secured, GET).text(), CAN_VOTE.body);
    assert_eq!(exchange(plain.addr(), GET).text(), CAN_VOTE.body);
    let stdout = service.server.stdout();
    assert!(stdout.contains(&format!("listening on {} (public, TLS)\n", secured.addr())), "{stdout}");
    assert!(stdout.contains(&format!("listening on {} (public)\n", plain.addr())), "{stdout}");
}

/// Two clients as they are in the field, each as its users call it.
#[test]
fn programs_of_the_field_reach_it() {
    let Some(service) = Service::start(&[]) else { return };
    let port = service.server.public().port();
    let cert = service.folder.path().join("first.cert.pem");
    let url = format!("https://localhost:{port}/api/vote/28/status/203.0.113.7");
    for version in ["--tlsv1.3", "--tls-max=1.2"] {
        let mut curl = Command::new("curl");
        curl.args(["-s", "--max-time", "20"]).args(version.split('=')).arg("--cacert").arg(&cert).arg(&url);
        let Ok(output) = curl.output() else { return left_out("curl is not installed") };
        assert_eq!(String::from_utf8_lossy(&output.stdout), CAN_VOTE.body, "{version}: {output:?}");
    }
}

/// Regression: see `protocol/urgent.rs`. A record whose last byte is urgent, and one with such a byte
/// in its middle.
#[test]
fn a_record_with_an_urgent_byte_is_whole() {
    let Some(service) = Service::start(&["--head-timeout", "120"]) else { return };
    let mut client = service.connect();
    for urgent in [20, usize::MAX] {
        for _ in 0..2 {
            let tls = client.tls();
            let mut record = Vec::new();
            tls.connection().writer().write_all(GET.as_bytes()).expect("it takes a request");
            tls.connection().write_tls(&mut record).expect("a vector takes all");
            let (first, rest) = record.split_at(urgent.min(record.len()));
            assert_eq!(send(tls.socket(), first, SendFlags::OOB).expect("sent"), first.len());
            if !rest.is_empty() {
                assert_eq!(send(tls.socket(), rest, SendFlags::empty()).expect("sent"), rest.len());
            }
            assert_eq!(client.read_response(false).text(), CAN_VOTE.body, "cut at {urgent}");
        }
    }
}
