//! A worker with a service that panics on request: one connection suffers, the others do not. And one
//! with a service that says in which turn it answers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Settings, Worker};
use crate::clock::Clock;
use crate::http::fault::Fault;
use crate::http::head::Head;
use crate::http::response::{self, Framing};
use crate::http::session::{Context, Service, Step};
use crate::limits::Limits;
use crate::net::address::Address;
use crate::net::listener::{self, Bound, Families};
use crate::net::mailbox::{Letter, Mailbox};

/// Answers 200 to everything, and panics where the path says so.
struct Trap;

impl Service for Trap {
    type Exchange = bool;

    fn begin(&mut self, head: &Head<'_>, _context: &Context) -> bool {
        assert!(head.path != b"/panic-at-once", "planted");
        head.path == b"/panic-at-the-end"
    }

    fn content_bytes_max(&self, _exchange: &bool) -> u64 {
        100
    }

    fn content(&mut self, _exchange: &mut bool, bytes: &[u8], _context: &Context) -> Step {
        assert!(bytes != b"panic", "planted");
        Step::Done
    }

    fn finish(&mut self, exchange: &mut bool, framing: Framing, context: &Context, out: &mut Vec<u8>) -> Step {
        out.extend_from_slice(b"half an answer that must never be sent");
        assert!(!*exchange, "planted");
        out.truncate(out.len() - 38);
        response::append(out, 200, &context.now.imf_fixdate(), &[], b"fine", framing);
        Step::Done
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context, out: &mut Vec<u8>) {
        response::append(out, fault.status(), &context.now.imf_fixdate(), &[], b"safe", framing);
    }
}

/// Answers with the number of the turn.
struct Numbered(u32);

impl Service for Numbered {
    type Exchange = ();

    fn turn_begins(&mut self) {
        self.0 += 1;
    }

    fn begin(&mut self, _head: &Head<'_>, _context: &Context) {}

    fn content_bytes_max(&self, _exchange: &()) -> u64 {
        0
    }

    fn content(&mut self, _exchange: &mut (), _bytes: &[u8], _context: &Context) -> Step {
        Step::Done
    }

    fn finish(&mut self, _exchange: &mut (), framing: Framing, context: &Context, out: &mut Vec<u8>) -> Step {
        let body = format!("turn {};", self.0);
        response::append(out, 200, &context.now.imf_fixdate(), &[], body.as_bytes(), framing);
        Step::Done
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context, out: &mut Vec<u8>) {
        response::append(out, fault.status(), &context.now.imf_fixdate(), &[], b"safe", framing);
    }
}

/// A worker on a port of its own, until it is told to drain.
fn start<S: Service + Send + 'static>(
    turn_bytes_max: usize,
    service: S,
) -> (SocketAddr, Mailbox, JoinHandle<io::Result<()>>)
where
    S::Exchange: Send,
{
    let any = "127.0.0.1:0".parse().expect("an address");
    let Bound { address, listeners, .. } = listener::bind(&any, Families::Both, 1, 0).expect("a free port");
    let Address::Tcp(address) = address else { panic!("an internet address was asked for") };
    let settings = Settings {
        limits: Limits::default(),
        connections_max: 100,
        turned_away_max: 10,
        turn_bytes_max,
        kept_places: 0,
        is_interim: false,
    };
    let worker = Worker::new(listeners, settings, Clock::new(), |_| service).expect("a worker");
    let mailbox = worker.mailbox();
    (address, mailbox, thread::spawn(move || worker.run()))
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
    let (address, mailbox, thread) = start(65_536, Trap);

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
    mailbox.send(Letter::Drain { accept_ms: 0, timeout_ms: 5_000 });
    thread.join().expect("no panic leaves the loop").expect("a clean end");
}

/// Regression: what the memory of all connections allows was taken in place of the worker's own bound,
/// and a page was made 64 KiB at a time for each of those who asked for it over and over.
#[test]
fn a_pipeline_is_answered_one_answer_a_turn_where_the_worker_is_bound_to_that() {
    const ASKED: usize = 20;
    let (address, mailbox, thread) = start(1, Numbered(0));
    let mut client = connect(address);
    client.write_all(request("/").repeat(ASKED).as_bytes()).expect("sent");
    let mut turns = Vec::new();
    for _ in 0..ASKED {
        let answer = read_answer(&mut client, ";");
        let turn = answer.rsplit_once("turn ").expect("an answer").1.trim_end_matches(';');
        turns.push(turn.parse::<u32>().expect("a number"));
    }
    assert!(turns.windows(2).all(|pair| pair[0] < pair[1]), "{turns:?}");
    drop(client);
    mailbox.send(Letter::Drain { accept_ms: 0, timeout_ms: 5_000 });
    thread.join().expect("no panic").expect("a clean end");
}
