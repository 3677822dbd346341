//! A worker with a service that panics on request: one connection suffers, the others do not. And that says in which
//! turn it answers.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Worker, WorkerParts, WorkerSettings};
use crate::clock::Clock;
use crate::http::fault::Fault;
use crate::http::head::Head;
use crate::http::response::{self, Framing};
use crate::http::session::{Begun, Content, Context, Intake, Service, Step};
use crate::limits::{EVENTS_PER_TURN, Limits, RESUMED_PER_TURN};
use crate::net::budget::Budget;
use crate::net::listen::Role;
use crate::net::listen::address::ListenAddress;
use crate::net::listen::listener::{self, Bound, Families};
use crate::net::mailbox::{Letter, Mailbox};

/// Answers what is said of the path in the turn of this number. A client that asks for `/keyed` has shown the key.
struct Saying<F>(u32, F);

impl<F: FnMut(&[u8], u32) -> String> Service for Saying<F> {
    type Exchange = Vec<u8>;

    fn begin(&mut self, head: &Head<'_>, _context: &Context<'_>) -> Begun<Vec<u8>> {
        assert!(head.path != b"/panic-at-once", "planted");
        Begun { exchange: head.path.to_vec(), is_keyed: head.path == b"/keyed", content: Content::Read(100) }
    }

    fn content(&mut self, _path: &mut Vec<u8>, bytes: &[u8], _context: &Context<'_>) -> Intake {
        assert!(bytes != b"panic", "planted");
        Intake::Open
    }

    fn answer(&mut self, path: &mut Vec<u8>, framing: Framing, context: &Context<'_>, out: &mut Vec<u8>) -> Step {
        let whole_bytes = out.len();
        out.extend_from_slice(b"half an answer that must never be sent");
        let body = (self.1)(path, self.0);
        out.truncate(whole_bytes);
        response::append(out, 200, &context.now.imf_fixdate(), &[], body.as_bytes(), framing);
        Step::Done
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context<'_>, out: &mut Vec<u8>) {
        response::append(out, fault.status(), &context.now.imf_fixdate(), &[], b"safe", framing);
    }

    fn used_bytes(&self, _path: &Vec<u8>) -> usize {
        0
    }

    fn turn_begins(&mut self) {
        self.0 += 1;
    }
}

/// A worker on a port of its own. A client that connects before it runs waits for it.
fn worker<F: FnMut(&[u8], u32) -> String>(turn_bytes_max: usize, say: F) -> (SocketAddr, Mailbox, Worker<Saying<F>>) {
    let any = "127.0.0.1:0".parse().expect("an address");
    let Bound { address, listeners, .. } = listener::bind(&any, Families::Both, 1, 0).expect("a free port");
    let ListenAddress::Tcp(address) = address else { panic!("an internet address was asked for") };
    let settings = WorkerSettings {
        limits: Limits::default(),
        connections_max: 1_000,
        turned_away_max: 10,
        turn_bytes_max,
        extra_slots: 0,
    };
    let parts = WorkerParts {
        listeners,
        settings,
        clock: Clock::new(),
        counters: Arc::default(),
        budget: Budget::new(settings.limits.buffer_bytes_max),
        role: Role::Public,
    };
    let worker = Worker::new(parts, |_| Saying(0, say)).expect("a worker");
    (address, worker.mailbox(), worker)
}

fn end(mailbox: &Mailbox, thread: JoinHandle<io::Result<()>>) {
    mailbox.send(Letter::Drain { accept_ms: Some(0), timeout_ms: 5_000, is_held: false });
    thread.join().expect("no panic leaves the loop").expect("a clean end");
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the worker listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
    stream
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn read_answer(stream: &mut TcpStream, end: &str) -> String {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(end.as_bytes()) && stream.read(&mut byte).expect("an answer in time") == 1 {
        answer.push(byte[0]);
    }
    String::from_utf8(answer).expect("ASCII")
}

#[test]
fn a_panic_is_answered_500_and_takes_no_other_connection_with_it() {
    let (address, mailbox, worker) = worker(65_536, |path, _| {
        assert!(path != b"/panic-at-the-end", "planted");
        "fine".to_owned()
    });
    let thread = thread::spawn(move || worker.run());

    let mut bystander = connect(address);
    bystander.write_all(request("/").as_bytes()).expect("sent");
    assert!(read_answer(&mut bystander, "fine").starts_with("HTTP/1.1 200 "));
    let mut half_way = connect(address);
    half_way.write_all(b"GET / HTTP/1.1\r\nHo").expect("sent");
    for poisoned in [
        request("/panic-at-once"),
        request("/panic-at-the-end"),
        request("/") + &request("/panic-at-once"),
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\npanic".to_owned(),
    ] {
        let mut client = connect(address);
        client.write_all(poisoned.as_bytes()).expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("closed in order");
        // An answer that was whole before the panic is not lost.
        let last = if poisoned.starts_with("GET / HTTP/1.1\r\nHost: h\r\n\r\n") {
            answer.split_once("fine").expect("the first answer").1
        } else {
            &answer
        };
        assert!(last.starts_with("HTTP/1.1 500 ") && answer.ends_with("\r\n\r\nsafe"), "{answer}");
        assert!(answer.contains("Connection: close"), "{answer}");
        bystander.write_all(request("/").as_bytes()).expect("sent");
        assert!(read_answer(&mut bystander, "fine").starts_with("HTTP/1.1 200 "));
    }
    half_way.write_all(b"st: h\r\n\r\n").expect("sent");
    assert!(read_answer(&mut half_way, "fine").starts_with("HTTP/1.1 200 "));

    drop((bystander, half_way));
    end(&mailbox, thread);
}

/// Regression: an answer that ended its connection was lost with it, where more had come from the client
/// since its request was read: the kernel then resets, and drops what was to go out with the end.
#[test]
fn a_last_answer_is_not_lost_to_what_the_client_sends_behind_its_request() {
    for head in ["GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"] {
        let (handles, handle) = channel::<TcpStream>();
        let send_more = move |_: &[u8], _| {
            handle.recv().expect("a client").write_all(b"\r\n").expect("sent");
            "fine".to_owned()
        };
        let (address, mailbox, worker) = worker(65_536, send_more);
        let mut client = connect(address);
        handles.send(client.try_clone().expect("a second handle")).expect("it is waited for");
        client.write_all(head.as_bytes()).expect("sent");
        let thread = thread::spawn(move || worker.run());
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("closed in order");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nfine"), "{answer}");
        end(&mailbox, thread);
    }
}

/// The turns in which `count` answers were given.
fn read_turns(client: &mut TcpStream, count: usize) -> Vec<u32> {
    let answers = (0..count).map(|_| read_answer(client, ";"));
    let turn = |answer: String| answer.rsplit_once("turn ")?.1.trim_end_matches(';').parse().ok();
    answers.map(|answer| turn(answer).expect("the number of a turn")).collect()
}

/// Regression: what the memory of all connections allows was taken in place of the worker's own bound,
/// and a page was made 64 KiB at a time for each client that asked for it over and over. And all clients that
/// were not done went on in each turn: with thousands of them a newcomer waited for seconds.
#[test]
fn a_long_pipeline_gets_one_answer_a_turn_and_many_of_them_take_turns() {
    const ASKED: usize = 10;
    const CLIENTS: usize = 3 * RESUMED_PER_TURN;
    let (address, mailbox, worker) = worker(1, |_, turn| format!("turn {turn};"));
    let connect_and_ask = |_| {
        let mut client = connect(address);
        client.write_all(request("/").repeat(ASKED).as_bytes()).expect("sent");
        client
    };
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(connect_and_ask).collect();
    let thread = thread::spawn(move || worker.run());
    let mut resumed = HashMap::new();
    for client in &mut clients {
        let turns = read_turns(client, ASKED);
        assert!(turns.windows(2).all(|pair| pair[0] < pair[1]), "{turns:?}");
        turns[1..].iter().for_each(|turn| *resumed.entry(*turn).or_insert(0) += 1);
    }
    assert_eq!(resumed.values().sum::<usize>(), CLIENTS * (ASKED - 1));
    assert_eq!(resumed.values().max(), Some(&RESUMED_PER_TURN));
    drop(clients);
    end(&mailbox, thread);
}

/// Regression: a vote came behind all that thousands without the key had sent before it.
#[test]
fn a_client_with_the_key_has_its_turns_before_a_crowd_without_it() {
    const ASKED: usize = 3;
    let ((is_held_up, held_up), (released, release)) = (channel(), channel());
    let (address, mailbox, worker) = worker(1, move |path, turn| {
        if path == b"/hold" {
            is_held_up.send(()).expect("the test goes on");
            release.recv().expect("the test goes on");
        }
        format!("turn {turn};")
    });
    let thread = thread::spawn(move || worker.run());
    let ask = |client: &mut TcpStream, path: &str, count| {
        client.write_all(request(path).repeat(count).as_bytes()).expect("sent");
    };
    let begin = |paths: &[&str]| {
        let mut client = connect(address);
        for path in paths {
            ask(&mut client, path, 1);
            read_turns(&mut client, 1);
        }
        client
    };
    let mut keyed = begin(&["/", "/keyed"]);
    let mut crowd: Vec<TcpStream> = (0..EVENTS_PER_TURN + 10).map(|_| begin(&["/"])).collect();
    let mut holder = begin(&["/"]);
    // All of it is there at once, the votes last.
    ask(&mut holder, "/hold", 1);
    held_up.recv().expect("the worker is held up");
    crowd.iter_mut().for_each(|client| ask(client, "/", ASKED));
    ask(&mut keyed, "/keyed", ASKED);
    released.send(()).expect("the worker waits for it");
    let votes = read_turns(&mut keyed, ASKED);
    let first = crowd.iter_mut().flat_map(|client| read_turns(client, ASKED)).min().expect("a crowd");
    assert!(votes[0] <= first, "the votes in turns {votes:?}, the crowd from turn {first} on");
    assert!(votes.windows(2).all(|pair| pair[0] + 1 == pair[1]), "the votes in turns {votes:?}");
    drop((holder, keyed, crowd));
    end(&mailbox, thread);
}
