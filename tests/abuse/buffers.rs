//! One bound for the memory of all connections: thousands of clients that ask for far more than they
//! take, or never end what they began. `VOTE_STATUS_TEST_LONG=1` has as many of them as descriptors
//! allow.

use super::ask;
use crate::util::client::Client;
use crate::util::endpoint::connect_narrow;
use crate::util::figures::{connections_affordable, peak_kib, report, resident_kib};
use crate::util::needs::is_long;
use crate::util::server::Server;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// What the first of them were seen with: 600 of these, pipelined, took 117 KiB each.
const PIPELINED_BYTES: usize = 65_000;
/// The shorter the question, the more the answers.
const SHORT: &str = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
/// Deadlines must not do the work of the bound.
const PATIENT: [&str; 6] = ["--head-timeout", "600", "--write-timeout", "600", "--idle-timeout", "600"];
/// What the process may take besides: code, table, slots, what its allocator cannot give back.
const BESIDES_KIB: u64 = 64 * 1024;

/// Requests of clients that mean well, each on a connection of its own, beside those that mean harm.
const GOOD_ONES: usize = 200;

/// What a client does that means harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// Asks without end and takes nothing.
    Deaf,
    /// The same, and takes some bytes now and then.
    Slow,
    /// Half of a request's content.
    HalfBody,
    /// A head without its end.
    HalfHead,
}

/// Most ask and take nothing: that costs most.
const HARMS: [Harm; 7] = [Harm::Deaf, Harm::Deaf, Harm::Slow, Harm::Deaf, Harm::Slow, Harm::HalfBody, Harm::HalfHead];

/// A client that means harm.
struct Attacker {
    socket: TcpStream,
    harm: Harm,
}

impl Attacker {
    /// Does what one in the row of [`HARMS`] does. What the server does not take at once is not sent.
    fn begin(address: SocketAddr, number: usize) -> Attacker {
        let harm = HARMS[number % HARMS.len()];
        let mut socket = TcpStream::from(connect_narrow(address, Some(536)).expect("the server listens"));
        let request = match harm {
            Harm::Deaf | Harm::Slow => SHORT.repeat(PIPELINED_BYTES / SHORT.len()),
            Harm::HalfBody => {
                format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n{}", "a".repeat(30_000))
            }
            Harm::HalfHead => format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(15 * 1024)),
        };
        socket.set_nonblocking(true).expect("it may be so");
        // It may be turned away meanwhile.
        let _sent = socket.write(request.as_bytes());
        Attacker { socket, harm }
    }

    /// Goes on doing harm; `false` where the server has ended that.
    fn go_on(&mut self) -> bool {
        let is_reset = self.socket.take_error().expect("it is a socket").is_some();
        let taken = match self.harm {
            Harm::Slow => self.socket.read(&mut [0; 500]),
            _ => self.socket.peek(&mut [0; 1]),
        };
        match taken {
            Ok(bytes) => bytes > 0 && !is_reset,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Keeps `attackers` at it until it is over: who was cut off comes again, some each round.
fn keep_on(address: SocketAddr, attackers: &mut [Attacker], is_over: &AtomicBool) -> usize {
    // And one of those who were cut off comes again each second.
    const COME_AGAIN: usize = 20;
    // Each has its turn every three seconds: what they cost in memory is looked at here, not in time.
    const SHARE: usize = 60;
    let mut again = 0;
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let mut left = usize::from(round % COME_AGAIN == 0);
        for (number, attacker) in attackers.iter_mut().enumerate().skip(round % SHARE).step_by(SHARE) {
            if !attacker.go_on() && left > 0 {
                *attacker = Attacker::begin(address, number);
                left -= 1;
                again += 1;
            }
        }
        sleep(Duration::from_millis(50));
    }
    again
}

/// Regression: 117 KiB for each of them, without an end; 65,536 would have taken 7.5 GB.
#[test]
fn the_memory_of_all_connections_has_one_bound() {
    let is_long = is_long();
    let (wanted, budget_kib) = if is_long { (15_000, 256 * 1024) } else { (900, 8 * 1024) };
    let budget = (budget_kib * 1024).to_string();
    let server = Server::in_memory(&[&["--workers", "2", "--buffer-bytes-max", &budget][..], &PATIENT].concat());
    server.control_client().add_server(1, "t");
    let (address, pid) = (server.public(), server.pid());
    let count = connections_affordable(wanted);
    let before = resident_kib(pid);

    let mut attackers: Vec<Attacker> = Vec::new();
    for number in 0..count {
        attackers.push(Attacker::begin(address, number));
        if number % (count / 20) == 0 {
            ask(&mut Client::connect(address));
        }
    }
    let is_over = AtomicBool::new(false);
    let mut again = 0;
    scope(|scope| {
        scope.spawn(|| again = keep_on(address, &mut attackers, &is_over));
        for _ in 0..GOOD_ONES {
            ask(&mut Client::connect(address));
            sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
    });

    let held_kib = server.metric("vote_status_buffer_bytes") / 1024;
    let max = server.metric("vote_status_buffer_bytes_max");
    let cut = |how| server.metric(&format!(r#"vote_status_buffer_cuts_total{{listener="public",how="{how}"}}"#));
    let (answered, closed) = (cut("answered"), cut("closed"));
    let grown_kib = peak_kib(pid).saturating_sub(before);
    report(format_args!(
        "{count} clients that take nothing, {again} of them again: {held_kib} of {budget_kib} KiB held, {grown_kib} KiB more \
         at most; {answered} told so, {closed} closed"
    ));
    assert_eq!(max, budget_kib * 1024);
    assert!(held_kib <= budget_kib, "{held_kib} KiB held");
    assert!(grown_kib <= budget_kib + BESIDES_KIB / if is_long { 1 } else { 4 }, "{grown_kib} KiB more");
    assert!(held_kib >= budget_kib / 4, "{held_kib} KiB held: they cannot have done what they were to do");
    assert!(is_long || answered + closed > 0, "nobody had to go");
    drop(attackers);
    ask(&mut Client::connect(address));
}
