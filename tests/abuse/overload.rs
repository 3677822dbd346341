//! Too many clients, too few descriptors, and clients that want the worker for themselves. The
//! server must go on answering the others.

use super::crowds::{ELSEWHERE, connect_from, with_descriptors};
use super::{GET, ask, assert_refusal};
use crate::util::answers::{CAN_VOTE, NOT_READY, REQUEST_TIMEOUT};
use crate::util::client::{Client, exchange};
use crate::util::figures::{connections_affordable, one_worker};
use crate::util::wait_until;
use rustix::process::Resource;
use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A head without its end, which makes its connection busy.
const BEGUN: &[u8] = b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n";

#[test]
fn the_longest_idle_connection_makes_room() {
    let server = one_worker(&["--max-connections", "10"]);
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(server.public())).collect();
    // The order of the last requests, not that of the connections, decides which one idled longest.
    let order = [3, 1, 0, 2, 4, 5, 6, 7, 8, 9];
    for index in order {
        ask(&mut clients[index]);
        sleep(Duration::from_millis(20));
    }
    let mut first_newcomer = Client::connect(server.public());
    ask(&mut first_newcomer);
    clients[3].expect_closed();
    let mut second_newcomer = Client::connect(server.public());
    ask(&mut second_newcomer);
    clients[1].expect_closed();
    for index in [0, 2, 4, 5, 6, 7, 8, 9] {
        ask(&mut clients[index]);
    }
    ask(&mut first_newcomer);
    ask(&mut second_newcomer);
}

#[test]
fn newcomers_among_busy_ones_are_served_and_the_oldest_unfinished_one_makes_room() {
    let server = one_worker(&["--max-connections", "10", "--head-timeout", "60"]);
    let mut busy: Vec<Client> = (0..10).map(|_| Client::connect(server.public())).collect();
    for client in &mut busy {
        ask(client);
        client.send(BEGUN);
    }
    // A round trip on a busy one, so that all that was sent before has been read.
    busy[0].send("\r\n");
    assert_eq!(busy[0].read_response(false).text(), CAN_VOTE.body);
    busy[0].send(BEGUN);
    for _ in 0..50 {
        // Each takes the place of the one before, which is idle by then, or gone.
        ask(&mut Client::connect(server.public()));
    }
    // The first busy connection has begun anew, after the second.
    assert_refusal(&busy[1].read_response(false), &REQUEST_TIMEOUT);
    busy[1].expect_closed();
    for client in busy.iter_mut().enumerate().filter(|(index, _)| *index != 1).map(|(_, client)| client) {
        client.send("\r\n");
        assert_eq!(client.read_response(false).text(), CAN_VOTE.body);
    }
    ask(&mut Client::connect(server.public()));
}

/// How many times the system has refused a worker a descriptor, asked on a connection that is there already.
fn shortages(control: &mut Client) -> u64 {
    control.send("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
    let response = control.read_response(false);
    let page = response.text();
    let name = "vote_status_accept_shortages_total{listener=\"public\"} ";
    let value = page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{page}"));
    value.parse().expect("a number")
}

/// The system refuses each newcomer a descriptor, whatever is closed for it, as the limit of the running process is
/// lowered to fewer than it has. After each refusal the worker closes one connection, tries once more, and then pauses
/// for 50 ms. Without the pause it would try some hundred thousand times a second.
#[test]
fn without_descriptors_nothing_spins_and_service_resumes() {
    const WATCHED: Duration = Duration::from_millis(1_000);
    const PAUSE_MS: u128 = 50;
    let server = with_descriptors(100, "1");
    let mut control = Client::connect(server.control());
    let mut good = Client::connect(server.public());
    good.send(BEGUN);
    // After a round trip on another connection the server knows that the good one is busy, and does
    // not close it to make room.
    ask(&mut Client::connect(server.public()));
    // The crowd is of another address, so its members end each other.
    let elsewhere = || Client::over(connect_from(ELSEWHERE, server.public()).expect("it listens"));
    let mut crowd: Vec<Client> = (0..300).map(|_| elsewhere()).collect();
    for client in &mut crowd {
        // Those turned away may be closed already.
        let _ = client.try_send(BEGUN);
    }
    good.send([b"\r\n", BEGUN].concat());
    assert_eq!(good.read_response(false).text(), CAN_VOTE.body);

    let usual = server.limit(Resource::Nofile, Some(3), Some(100)).current;
    let newcomers: Vec<Client> = (0..20).map(|_| elsewhere()).collect();
    let (start, before) = (Instant::now(), shortages(&mut control));
    sleep(WATCHED);
    let (after, watched_ms) = (shortages(&mut control), start.elapsed().as_millis());
    assert!(after > before, "no newcomer was refused a descriptor");
    let most = 2 * (watched_ms / PAUSE_MS + 2);
    assert!(u128::from(after - before) <= most, "{} tries in {watched_ms} ms, at most {most}", after - before);
    good.send([b"\r\n", BEGUN].concat());
    assert_eq!(good.read_response(false).text(), CAN_VOTE.body);

    server.limit(Resource::Nofile, usual, Some(100));
    drop((crowd, newcomers));
    // The rest of the crowd is still in the backlog of the listening socket, so the first tries may
    // be answered 503. Within the deadline a newcomer must be served.
    wait_until("service resumes", || {
        let response = exchange(server.public(), GET);
        if response.status != 200 {
            assert_refusal(&response, &NOT_READY);
        }
        response.status == 200
    });
    good.send("\r\n");
    assert_eq!(good.read_response(false).text(), CAN_VOTE.body);
}

/// The time of one client for some requests, each sent after the answer to the one before.
fn time_of_some(client: &mut Client) -> Duration {
    let since = Instant::now();
    for _ in 0..25 {
        ask(client);
    }
    since.elapsed()
}

/// The rate beside slow heads against the rate alone, by turns on two servers alike. Other work of the machine only
/// takes time away, so the quickest turn of each server counts, and a busy machine gets more turns. That does not help
/// a server that is slower in every turn.
#[test]
fn slow_heads_do_not_slow_others_down() {
    const AT_LEAST: f64 = 0.9;
    const TURNS: RangeInclusive<usize> = 200..=4_000;
    let count = connections_affordable(1_000);
    let options = ["--head-timeout", "120", "--max-connections", "15000"];
    let (alone, attached) = (one_worker(&options), one_worker(&options));
    let mut slow: Vec<Client> = (0..count).map(|_| Client::connect(attached.public())).collect();
    for client in &mut slow {
        client.send("GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nX: ");
    }
    let mut client_alone = Client::connect(alone.public());
    let mut client_attached = Client::connect(attached.public());
    let (mut quickest_alone, mut quickest_attached, mut turns) = (Duration::MAX, Duration::MAX, 0);
    let ratio = loop {
        // A byte of every hundredth head: all of them have gone on after a hundred turns.
        for client in slow.iter_mut().skip(turns % 100).step_by(100) {
            client.send("a");
        }
        // Each server is the first in every other turn, as being first costs something.
        for is_alone in [turns % 2 == 0, turns % 2 == 1] {
            match is_alone {
                true => quickest_alone = quickest_alone.min(time_of_some(&mut client_alone)),
                false => quickest_attached = quickest_attached.min(time_of_some(&mut client_attached)),
            }
        }
        turns += 1;
        let ratio = quickest_alone.as_secs_f64() / quickest_attached.as_secs_f64();
        if turns >= *TURNS.end() || turns >= *TURNS.start() && ratio >= AT_LEAST {
            break ratio;
        }
    };
    assert!(ratio >= AT_LEAST, "{ratio:.2} of the rate alone");
}
