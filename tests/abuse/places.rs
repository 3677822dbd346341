//! All places are taken: which connection gives its place up, and its answer. No connection is closed without an answer
//! while another one can be given an answer.

use super::crowds::{ELSEWHERE, connect_from, with_descriptors};
use super::{GET, ask, assert_refusal};
use crate::util::answers::{CAN_VOTE, NOT_READY};
use crate::util::client::Client;
use crate::util::endpoint::connect_narrow;
use crate::util::figures::{connections_affordable, one_worker, report};
use crate::util::patience::until_judged;
use crate::util::server::Server;
use crate::util::wait_until;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The time that the rule gives to a silent connection, and to one that takes nothing.
const STUCK: Duration = Duration::from_millis(1_000);

fn turned_away(server: &Server, listener: &str) -> u64 {
    server.metric(&format!(r#"vote_status_turned_away_total{{listener="{listener}"}}"#))
}

/// Connections whose requests wait for a vote that does not come.
fn waits(server: &Server, count: usize) -> Vec<Client> {
    let mut waits: Vec<Client> = (0..count).map(|_| Client::connect(server.public())).collect();
    for (wait, voter) in waits.iter_mut().zip(0x0A00_0000..) {
        let voter = Ipv4Addr::from_bits(voter);
        wait.send(format!("GET /api/vote/1/status/{voter}?wait=50 HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    server.await_metric("vote_status_waiting", count as u64);
    waits
}

fn connect(source: Ipv4Addr, to: SocketAddr) -> Client {
    Client::over(connect_from(source, to).expect("it listens"))
}

/// Requires that a wait that had to go was answered with the current status.
fn assert_ended(wait: &mut Client) {
    let answer = wait.read_response(false);
    assert_eq!(answer.text(), CAN_VOTE.body, "{answer:?}");
    assert!(answer.says_close(), "{answer:?}");
    wait.expect_closed();
}

/// Newcomers ask a moment after they have connected, as clients at some distance do. Gives how many waits had to go.
/// `None` where a slow machine left the first newcomer silent for a second before the last one came.
fn burst(server: &Server, waiting: usize, newcomers: usize) -> Option<usize> {
    let accepted = r#"vote_status_connections_accepted_total{listener="public"}"#;
    let mut waits = waits(server, waiting);
    let (since, before) = (Instant::now(), server.metric(accepted));
    let mut newcomers: Vec<Client> = (0..newcomers).map(|_| Client::connect(server.public())).collect();
    server.await_metric(accepted, before + newcomers.len() as u64);
    if since.elapsed() >= STUCK {
        return None;
    }
    newcomers.iter_mut().for_each(ask);
    assert_eq!(turned_away(server, "public"), 0);
    waits.retain(|wait| !wait.has_ended());
    server.await_metric("vote_status_waiting", waits.len() as u64);
    Some(waiting - waits.len())
}

/// The results of `count` bursts for which the machine was quick enough.
fn bursts(count: usize, burst: impl Fn() -> Option<usize>) -> Vec<usize> {
    let ended: Vec<usize> = (0..10 * count).filter_map(|_| burst()).take(count).collect();
    assert_eq!(ended.len(), count, "the machine was too slow");
    ended
}

/// Regression: new connections were closed without an answer, 20 of the 30, and 151 of the 300.
#[test]
fn a_burst_of_newcomers_is_answered_and_so_are_the_waits_that_make_room() {
    let ended = bursts(18, || burst(&one_worker(&["--max-connections", "40", "--max-waiting", "40"]), 30, 30));
    assert_eq!(ended, [20; 18]);
    let ended = bursts(1, || {
        let server = Server::in_memory(&["--workers", "2", "--max-connections", "585"]);
        server.control_client().add_server(1, "t");
        burst(&server, 438, 300)
    });
    assert!(ended[0] >= 438 + 300 - 585, "{ended:?}");
}

/// A connection that never had an answer gets the reason of its close, and is counted. One that had an answer is not.
#[test]
fn silent_connections_are_told_503_and_idle_ones_close_without_words() {
    let server = one_worker(&["--max-connections", "10"]);
    let mut silent: Vec<Client> = (0..9).map(|_| Client::connect(server.public())).collect();
    let mut idle = Client::connect(server.public());
    ask(&mut idle);
    let mut newcomers: Vec<Client> = (0..3)
        .map(|_| {
            let mut newcomer = Client::connect(server.public());
            ask(&mut newcomer);
            newcomer.send("G");
            newcomer
        })
        .collect();
    idle.expect_closed();
    for silent in &mut silent[..2] {
        assert_refusal(&silent.read_response(false), &NOT_READY);
        silent.expect_closed();
    }
    assert_eq!(turned_away(&server, "public"), 2);
    silent[2..].iter_mut().for_each(ask);
    newcomers.iter_mut().for_each(|newcomer| newcomer.send(&GET[1..]));
    newcomers.iter_mut().for_each(|newcomer| assert_eq!(newcomer.read_response(false).text(), CAN_VOTE.body));
}

/// Regression: the server cut an answer that it was sending, though it could end waits. It tells a slow client from one that
/// takes nothing only within the first second, so the test tries again on a slower machine.
#[test]
fn an_answer_on_its_way_is_not_cut_while_a_wait_can_be_ended() {
    const ASKED: usize = 20;
    until_judged("the answer is not cut and the waits go, within a second", || {
        let server = one_worker(&["--max-connections", "4", "--max-waiting", "4"]);
        let mut waits = waits(&server, 3);
        let since = Instant::now();
        let mut taking = Client::over(connect_narrow(server.public(), Some(536)).expect("it listens"));
        taking.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(ASKED));
        let is_slow = || since.elapsed() >= STUCK;
        wait_until("answers wait to be sent", || server.metric("vote_status_buffer_bytes") > 10_000 || is_slow());
        let _silent: Vec<Client> = (0..3).map(|_| Client::connect(server.public())).collect();
        wait_until("the waits have gone", || waits.iter().all(Client::has_ended) || is_slow());
        if is_slow() {
            return false;
        }
        waits.iter_mut().for_each(assert_ended);
        for _ in 0..ASKED {
            assert_eq!(taking.read_response(false).status, 200);
        }
        true
    });
}

/// The same for longer than [`STUCK`]: a client that takes its answers slowly stays, as long as there are waits to end. The
/// test tries again where the machine kept the client from taking anything for that long.
#[test]
fn an_answer_that_a_client_takes_slowly_is_not_cut_while_a_wait_can_be_ended() {
    const STEPS: u32 = 30;
    const STEP: Duration = Duration::from_millis(100);
    until_judged("a client takes answers twice a second", || {
        let server = one_worker(&["--max-connections", "40", "--max-waiting", "40"]);
        let mut waits = waits(&server, 39);
        let mut taking = Client::over(connect_narrow(server.public(), Some(536)).expect("it listens"));
        taking.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10 * STEPS as usize));
        wait_until("answers wait to be sent", || server.metric("vote_status_buffer_bytes") > 10_000);
        let (begun, mut newcomers) = (Instant::now(), Vec::new());
        for step in 1..=STEPS {
            let since = Instant::now();
            sleep((begun + STEP * step).saturating_duration_since(since));
            newcomers.push(Client::connect(server.public()));
            for _ in 0..5 {
                assert_eq!(taking.read_response(false).status, 200);
            }
            if since.elapsed() >= STUCK / 2 {
                return false;
            }
        }
        assert!(server.metric("vote_status_buffer_bytes") > 0, "there was always something to take");
        for _ in 0..5 * STEPS {
            assert_eq!(taking.read_response(false).status, 200);
        }
        waits.retain(|wait| !wait.has_ended());
        assert!(waits.len() < 39, "some waits made room");
        true
    });
}

/// The harm of a crowd of silent connections to 900 waits in 1,000 places.
struct Harm {
    ended: u64,
    /// The most connections of the crowd within a second.
    most_in_a_second: usize,
}

/// Opens a crowd of silent connections, at most `rate` of them a second.
fn harm_of_silence(rate: u32, source: impl Fn(u32) -> Ipv4Addr) -> Harm {
    const CROWD: u32 = 1_300;
    connections_affordable(3_000);
    let server = one_worker(&["--max-connections", "1000", "--max-waiting", "1000"]);
    let mut waits = waits(&server, 900);
    let (mut crowd, mut came) = (Vec::new(), Vec::new());
    let since = Instant::now();
    for number in 0..CROWD {
        let due = Duration::from_secs(1) * number / rate;
        sleep(due.saturating_sub(since.elapsed()));
        crowd.push(connect(source(number), server.public()));
        came.push(since.elapsed());
    }
    let accepted = r#"vote_status_connections_accepted_total{listener="public"}"#;
    server.await_metric(accepted, 900 + u64::from(CROWD));
    let ended = server.metric(r#"vote_status_waits_total{outcome="ended"}"#);
    waits.retain_mut(|wait| {
        let has_ended = wait.has_ended();
        if has_ended {
            assert_ended(wait);
        }
        !has_ended
    });
    assert_eq!(waits.len() as u64 + ended, 900, "each wait that has to go is answered");
    let within = |at: &Duration| came.iter().filter(|other| (*at..*at + STUCK).contains(*other)).count();
    let most_in_a_second = came.iter().map(within).max().unwrap_or_default();
    report(format_args!(
        "1,300 silent connections, {most_in_a_second} in a second at most: {ended} of 900 waits ended"
    ));
    Harm { ended, most_in_a_second }
}

/// A crowd of one address gives up its own places, however fast it comes.
#[test]
fn silence_from_one_address_ends_no_wait_of_another() {
    let harm = harm_of_silence(1_000_000, |_| ELSEWHERE);
    assert_eq!(harm.ended, 0);
}

/// Each silent connection has a second, and then makes room for the next. So r connections a second hold r places of
/// waits. The test allows twice as many, as the machine may keep the server from its work for a second.
#[test]
fn silence_from_a_thousand_addresses_ends_no_more_waits_than_come_in_a_second() {
    let harm = harm_of_silence(300, |number| Ipv4Addr::from_bits(0x7F00_0200 + number % 1_000));
    assert!(harm.ended <= 2 * harm.most_in_a_second as u64, "{}", harm.ended);
}

/// The same with a crowd from the address of the waits, as behind one proxy.
#[test]
fn silence_from_the_address_of_the_waits_ends_no_more_of_them_than_come_in_a_second() {
    let harm = harm_of_silence(300, |_| HERE);
    assert!(harm.ended <= 2 * harm.most_in_a_second as u64, "{}", harm.ended);
}

/// Regression: for each silent newcomer, a vote whose head had come in part was answered 408.
#[test]
fn silent_connections_of_this_machine_close_no_vote() {
    let server = with_descriptors(1_024, "1");
    let places = server.metric(r#"vote_status_connections_max{listener="control"}"#);
    let silence = |count: u64| -> Vec<Client> { (0..count).map(|_| Client::connect(server.control())).collect() };
    let mut crowd = silence(places + 20);
    for voter in 1..20 {
        let vote = format!(r#"{{"server_id":1,"ip":"203.0.113.{voter}"}}"#);
        let vote = server.control_client().request_bytes("POST", "/v1/votes", Some(&vote));
        let mut site = Client::connect(server.control());
        crowd.extend(silence(5));
        for piece in vote.as_bytes().chunks(vote.len() / 4) {
            site.send(piece);
            crowd.extend(silence(5));
        }
        let response = site.read_response(false);
        assert_eq!(response.status, 201, "{response:?}");
    }
    assert!(turned_away(&server, "control") > 0, "nobody had to go");
    wait_until("the first of the crowd were told", || crowd[0].has_ended());
    assert_eq!(crowd[0].read_response(false).status, 503);
}
