//! Clients under TLS that mean harm, or behave as if they did: slow, silent, deaf, garbled, too
//! many; and what an idle one holds. What was measured goes to standard error.

use super::{CAN_VOTE, GET, Service, ask};
use crate::util::DEADLINE;
use crate::util::answers::REQUEST_TIMEOUT;
use crate::util::client::Client;
use crate::util::endpoint::{Endpoint, connect_tcp};
use crate::util::figures::{processor_time, report, resident_kib};
use crate::util::random::Random;
use crate::util::tls::client;
use rustix::process::Signal;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// What a client sends first.
fn client_hello() -> Vec<u8> {
    let name = ServerName::try_from("vote.example").expect("a name");
    let mut connection = ClientConnection::new(client(), name).expect("a client may be made");
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).expect("a vector takes all");
    hello
}

/// Reads to the end, however it comes: what came, and how long that took.
fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, Duration) {
    let since = Instant::now();
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    let mut came = Vec::new();
    match stream.read_to_end(&mut came) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("no end after {:?}: {error}", since.elapsed()),
    }
    (came, since.elapsed())
}

#[test]
fn a_handshake_that_is_not_done_in_time_is_closed() {
    let Some(service) = Service::start(&["--head-timeout", "0.5", "--workers", "1"]) else { return };
    let hello = client_hello();
    for (bytes, what) in [(&hello[..1], "a byte"), (&hello[..100], "a part"), (&hello[..], "a hello and no more")] {
        let mut stream = connect_tcp(service.server.public()).expect("the server listens");
        stream.write_all(bytes).expect("sent");
        let (_, took) = read_to_end(&mut stream);
        assert!(took >= Duration::from_millis(450), "{what}: closed after {took:?}");
        assert!(took < Duration::from_secs(8), "{what}: closed after {took:?}");
    }
    // A byte now and then makes it no younger.
    let mut stream = connect_tcp(service.server.public()).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a deadline");
    let since = Instant::now();
    for byte in &hello {
        if stream.write_all(&[*byte]).is_err() || matches!(stream.read(&mut [0; 64]), Ok(0)) {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(8), "still open");
    }
    assert!(since.elapsed() >= Duration::from_millis(450), "closed after {:?}", since.elapsed());
    ask(&mut service.connect());
}

/// After the handshake the deadlines are those of any connection.
#[test]
fn a_record_that_is_not_whole_in_time_is_answered_408() {
    let Some(service) = Service::start(&["--head-timeout", "0.5", "--workers", "1"]) else { return };
    let mut client = service.connect();
    ask(&mut client);
    client.send(&GET[..10]);
    let response = client.read_response(false);
    assert_eq!(response.status, 408, "{response:?}");
    client.expect_closed();
}

/// Whatever is done to the bytes, the session ends or goes on; the service does not mind.
#[test]
fn garbled_bytes_end_the_session_and_nothing_else() {
    const ROUNDS: usize = 300;
    let Some(mut service) = Service::start(&["--workers", "1", "--head-timeout", "0.3"]) else { return };
    let mut random = Random::from_environment();
    let hello = client_hello();
    let mut bystander = service.connect();
    ask(&mut bystander);
    let mut alerts = 0;
    for round in 0..ROUNDS {
        let mut bytes = hello.clone();
        match round % 3 {
            0 => {
                let at = 1 + random.below(bytes.len() - 1);
                bytes[at] ^= 1 << random.below(8);
            }
            1 => bytes.truncate(1 + random.below(bytes.len() - 1)),
            _ => bytes.extend((0..1 + random.below(40_000)).map(|_| random.next() as u8)),
        }
        let mut stream = connect_tcp(service.server.public()).expect("the server listens");
        // It may be closed before all is sent.
        let _sent = stream.write_all(&bytes);
        let _shut = stream.shutdown(std::net::Shutdown::Write);
        let (came, _) = read_to_end(&mut stream);
        alerts += usize::from(came.first() == Some(&21));
        // In order of their requests, or not at all: never bytes of HTTP outside a record.
        assert!(came.is_empty() || (20..=23).contains(&came[0]), "round {round}: {came:?}");
    }
    ask(&mut bystander);
    // Others come behind what answers the hello.
    assert!(alerts > 0, "no alert in {ROUNDS} rounds");
    assert!(service.server.is_running());
    assert!(!service.server.stderr().contains("panicked"), "{}", service.server.stderr());
}

/// Records of the client behind a good handshake, one bit of them flipped.
#[test]
fn a_flipped_bit_in_a_record_is_no_request() {
    let Some(service) = Service::start(&["--workers", "1"]) else { return };
    let mut random = Random::from_environment();
    for _ in 0..100 {
        let mut client = service.connect();
        ask(&mut client);
        let connection = client.tls().connection();
        connection.writer().write_all(GET.as_bytes()).expect("the handshake is done");
        let mut record = Vec::new();
        connection.write_tls(&mut record).expect("a vector takes all");
        // Behind the head of the record, which may make it another one that is waited for.
        let at = 5 + random.below(record.len() - 5);
        record[at] ^= 1 << random.below(8);
        let mut socket = client.tls().socket();
        socket.write_all(&record).expect("sent");
        let error = client.try_read_response(false).expect_err("no answer to it");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    }
    ask(&mut service.connect());
}

#[test]
fn who_has_begun_makes_room_under_tls() {
    let Some(service) = Service::start(&["--workers", "1", "--max-connections", "1"]) else { return };
    let mut first = service.connect();
    first.send(GET.replace("\r\n\r\n", "\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(first.read_response(false).status, 100);
    let mut second = service.connect();
    second.send(GET);
    let response = second.read_response(false);
    assert_eq!(response.text(), CAN_VOTE.body, "{response:?}");
    second.expect_open();
    assert_eq!(first.read_response(false).text(), REQUEST_TIMEOUT.body);
    first.expect_closed();
}

/// Peers that ask for far more than they read: bounded in memory and in time; and one that reads
/// late gets all of it.
#[test]
fn who_does_not_read_is_not_waited_for_and_not_kept_in_memory() {
    const REQUESTS: usize = 4_000;
    const PEERS: usize = 20;
    let Some(service) = Service::start(&["--workers", "1", "--write-timeout", "2"]) else { return };
    ask(&mut service.connect());
    let before = resident_kib(service.server.pid());
    let mut late = service.connect();
    late.send(GET.repeat(REQUESTS / 4));
    let mut deaf: Vec<Client> = (0..PEERS).map(|_| service.connect()).collect();
    scope(|scope| {
        for client in &mut deaf {
            // The server stops reading: not all can be sent before it closes.
            scope.spawn(move || client.try_send(GET.repeat(REQUESTS).repeat(10)).is_err());
        }
        for _ in 0..REQUESTS / 4 {
            assert_eq!(late.read_response(false).text(), CAN_VOTE.body);
        }
    });
    let grown = resident_kib(service.server.pid()).saturating_sub(before);
    report(format_args!("TLS: {PEERS} peers that do not read: {grown} KiB more"));
    assert!(grown < 16 * 1024, "{grown} KiB more");
    late.expect_open();
}

#[test]
fn idle_connections_hold_bounded_memory() {
    const COUNT: usize = 1_000;
    const EACH_MAX: u64 = 8 * 1024;
    let Some(service) = Service::start(&["--workers", "1", "--idle-timeout", "120"]) else { return };
    let pid = service.server.pid();
    let mut warm: Vec<Client> = (0..32).map(|_| service.connect()).collect();
    warm.iter_mut().for_each(ask);
    drop(warm);
    let (before, time_before) = (resident_kib(pid), processor_time(pid));
    let mut clients: Vec<Client> = (0..COUNT).map(|_| service.connect()).collect();
    clients.iter_mut().for_each(ask);
    let each = resident_kib(pid).saturating_sub(before) * 1024 / COUNT as u64;
    let time = (processor_time(pid) - time_before) / COUNT as u32;
    report(format_args!("TLS: {COUNT} idle connections: {each} bytes each; {time:?} of CPU for each new one"));
    assert!(each <= EACH_MAX, "{each} bytes each");
    clients.iter_mut().step_by(97).for_each(ask);
}

/// Under load, SIGTERM cuts no answer.
#[test]
fn going_away_gives_whole_answers() {
    let Some(mut service) = Service::start(&["--drain-delay", "0.5"]) else { return };
    let endpoint: Endpoint = service.endpoint().clone();
    let (config, answered) = (client(), AtomicUsize::new(0));
    scope(|scope| {
        for _ in 0..4 {
            let (endpoint, answered, config) = (&endpoint, &answered, Arc::clone(&config));
            scope.spawn(move || {
                let _session_kept = config;
                while let Ok(mut client) = Client::try_connect(endpoint) {
                    let asked = client.try_send(GET);
                    match asked.and_then(|()| client.try_read_response(false)) {
                        Ok(response) => {
                            assert_eq!(response.text(), CAN_VOTE.body);
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        // Taken by the kernel and not by the service any more.
                        Err(error) => assert!(client.is_untouched(), "half an answer, then {error}"),
                    }
                }
            });
        }
        let until = Instant::now() + DEADLINE;
        while answered.load(Ordering::Relaxed) < 100 {
            assert!(Instant::now() < until, "too few answers");
            sleep(Duration::from_millis(5));
        }
        service.server.signal(Signal::TERM);
    });
    assert_eq!(service.server.wait_exit(DEADLINE).code(), Some(0), "{}", service.server.stderr());
    report(format_args!("TLS: SIGTERM under load: {} answers, no half one", answered.into_inner()));
}
