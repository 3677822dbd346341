//! A worker with a service that panics on request: one connection suffers, the others do not. The service also tells
//! the turn of each answer.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Worker, WorkerParts, WorkerSettings};
use crate::clock::Clock;
use crate::http::fault::Fault;
use crate::http::head::Head;
use crate::http::response::{self, Framing};
use crate::http::session::{Begun, Content, Context, Intake, Service, Step, Waiting};
use crate::http::wait::WaitSeconds;
use crate::limits::{
    EVENTS_PER_TURN, Limits, RESUMED_PER_TURN, STUCK_MS, TOLD_BEFORE_OTHERS_MAX, WAITS_END_EVERY_MS, WOKEN_PER_TURN,
};
use crate::net::budget::Budget;
use crate::net::listen::Role;
use crate::net::listen::address::ListenAddress;
use crate::net::listen::listener::{self, Bound, Families};
use crate::net::mailbox::{Letter, Mailbox};

/// Answers with the text that the function gives for the path and the number of the turn. A client that asks for
/// `/keyed` has shown the key. A request for `/wait` waits for a second (`/wait-long`: for 50), and is then answered as
/// `/told`. A request for `/parked` waits for another thread as long as it may.
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
        if path == b"/parked" && context.waiting != Waiting::TimeIsUp {
            (self.1)(path, self.0);
            return Step::Parked { ends_with_input: false };
        }
        let wait_seconds = match &path[..] {
            b"/wait" => WaitSeconds::at_most(1),
            b"/wait-long" => WaitSeconds::at_most(50),
            _ => None,
        };
        if let Some(seconds) = wait_seconds {
            (self.1)(path, self.0);
            *path = b"/told".to_vec();
            return Step::Wait(seconds);
        }
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
    worker_with(1_000, turn_bytes_max, Limits::default().buffer_bytes_max, say)
}

fn worker_with<F: FnMut(&[u8], u32) -> String>(
    connections_max: usize,
    turn_bytes_max: usize,
    buffer_bytes_max: u64,
    say: F,
) -> (SocketAddr, Mailbox, Worker<Saying<F>>) {
    let any = "127.0.0.1:0".parse().expect("an address");
    let Bound { address, listeners, .. } = listener::bind(&any, Families::Both, 1, 0).expect("a free port");
    let ListenAddress::Tcp(address) = address else { panic!("an internet address was asked for") };
    let settings = WorkerSettings {
        limits: Limits::default(),
        connections_max,
        turned_away_max: 10,
        turn_bytes_max,
        extra_slots: 0,
    };
    let parts = WorkerParts {
        listeners,
        settings,
        clock: Clock::new(),
        counters: Arc::default(),
        budget: Budget::new(buffer_bytes_max),
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

/// Regression: an answer that ended its connection was lost if more had come from the client since its request
/// was read. The kernel then resets the connection, and drops the answer that was to go out with the end.
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

/// Regression: the memory bound of all connections replaced the worker's own bound. A client that asked for a page
/// over and over was sent 64 KiB of it at a time. And all clients that were not done went on in each turn: with
/// thousands of them, a newcomer waited for seconds.
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

/// Regression: a vote waited behind all requests of thousands of clients without the key.
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
    // All requests are there at once, the votes last.
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

/// Regression: for newcomers that needed their places, the worker answered all waiting requests in one turn, besides
/// those that were woken and those whose time was over: 78 answers to waits in one turn.
#[test]
fn no_request_waits_for_more_than_64_answers_to_waits() {
    const PLACES: usize = 400;
    const NEWCOMERS: usize = 100;
    let ((is_held_up, held_up), (released, release)) = (channel(), channel());
    let said = Arc::new(Mutex::new(Vec::<(u32, Vec<u8>)>::new()));
    let noted = Arc::clone(&said);
    let (address, mailbox, worker) = worker_with(PLACES, 65_536, u64::MAX / 16, move |path, turn| {
        if path == b"/hold" {
            is_held_up.send(()).expect("the test goes on");
            release.recv().expect("the test goes on");
        }
        noted.lock().push((turn, path.to_vec()));
        "said;".to_owned()
    });
    let thread = thread::spawn(move || worker.run());
    let said_of = |path: &[u8]| said.lock().iter().filter(|(_, said)| said == path).count();
    let begin = |path: &str| {
        let mut client = connect(address);
        client.write_all(request(path).as_bytes()).expect("sent");
        client
    };
    let (mut holder, mut other) = (begin("/"), begin("/"));
    for client in [&mut holder, &mut other] {
        read_answer(client, "said;");
    }
    let mut waits: Vec<TcpStream> = (2..PLACES).map(|_| begin("/wait")).collect();
    while said_of(b"/wait") < waits.len() {
        thread::yield_now();
    }

    // In one turn, some waits are woken, many at once and a few at a time. The time of all others is over, newcomers
    // need the places of others, and one more client has a question.
    holder.write_all(request("/hold").as_bytes()).expect("sent");
    held_up.recv().expect("the worker is held up");
    mailbox.send(Letter::Ring((2..102).collect()));
    (102..140).for_each(|ticket| mailbox.send(Letter::Ring(vec![ticket])));
    let mut newcomers: Vec<TcpStream> = (0..NEWCOMERS).map(|_| connect(address)).collect();
    other.write_all(request("/question").as_bytes()).expect("sent");
    thread::sleep(Duration::from_millis(1_000 + WAITS_END_EVERY_MS));
    released.send(()).expect("the worker waits for it");
    let read = |client: &mut TcpStream| assert!(read_answer(client, "said;").ends_with("said;"));
    waits.iter_mut().chain([&mut other]).for_each(read);
    newcomers.iter_mut().for_each(|client| client.write_all(request("/").as_bytes()).expect("sent"));
    newcomers.iter_mut().for_each(read);

    let said = said.lock();
    let held = said.iter().position(|(_, path)| path == b"/hold").expect("it was asked");
    let mut by_turn = HashMap::new();
    let mut before = 0;
    for (turn, path) in &said[held..] {
        match &path[..] {
            b"/told" => {
                before += 1;
                *by_turn.entry(turn).or_insert(0) += 1;
            }
            b"/question" => assert!(before <= TOLD_BEFORE_OTHERS_MAX, "{before} waits were answered before"),
            _ => {}
        }
    }
    assert!(by_turn.values().all(|count| *count <= TOLD_BEFORE_OTHERS_MAX), "answers to waits by turn: {by_turn:?}");
    drop((said, waits, newcomers, holder, other));
    end(&mailbox, thread);
}

/// Regression: a worker evicted a client over a request that had been unfinished for a second. That request became whole
/// just then and was answered; the next one had only begun, and got 408.
#[test]
fn a_request_that_has_just_begun_is_not_evicted_for_the_one_before() {
    let ((is_held_up, held_up), (released, release)) = (channel(), channel());
    let (address, mailbox, worker) = worker_with(3, 65_536, u64::MAX / 16, move |path, _| {
        if path == b"/hold" {
            is_held_up.send(()).expect("the test goes on");
            release.recv().expect("the test goes on");
        }
        "said;".to_owned()
    });
    let thread = thread::spawn(move || worker.run());
    let [mut slow, mut first, mut second] = [(); 3].map(|()| connect(address));
    let send = |client: &mut TcpStream, text: &str| client.write_all(text.as_bytes()).expect("sent");
    // All three stay within a request, two of them for more than a second.
    send(&mut slow, "GET /slow HTTP/1.1\r\n");
    send(&mut first, "GE");
    send(&mut second, &(request("/") + "GE"));
    read_answer(&mut second, "said;");
    send(&mut first, &(request("/hold").split_off(2) + "GE"));
    held_up.recv().expect("the worker is held up");
    thread::sleep(Duration::from_millis(STUCK_MS + 100));
    send(&mut second, &(request("/hold").split_off(2) + "GE"));
    let mut newcomer = connect(address);
    released.send(()).expect("the worker waits for it");
    // The rest comes behind the poll, and before the newcomer is taken.
    held_up.recv().expect("the worker is held up");
    send(&mut slow, "Host: h\r\n\r\nGE");
    released.send(()).expect("the worker waits for it");
    for _each in 0..2 {
        let answer = read_answer(&mut slow, ";");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let _left = slow.write_all(&request("/").as_bytes()[2..]);
    }
    // The other slow client has to go for the newcomer.
    read_answer(&mut first, "said;");
    assert!(read_answer(&mut first, "safe").starts_with("HTTP/1.1 408"));
    send(&mut newcomer, &request("/"));
    assert!(read_answer(&mut newcomer, "said;").starts_with("HTTP/1.1 200"));
    drop((slow, first, second, newcomer));
    end(&mailbox, thread);
}

/// Regression: if the earlier connections had gone, a drain ended within half a second, and a request that waited longer
/// for another thread got no answer.
#[test]
fn a_request_that_waits_for_another_thread_is_answered_before_a_drain_ends() {
    let (parked, is_parked) = channel();
    let (address, mailbox, worker) = worker(65_536, move |path, _| {
        if path == b"/parked" {
            let _ended = parked.send(());
        }
        "said;".to_owned()
    });
    let thread = thread::spawn(move || worker.run());
    let mut earlier = connect(address);
    earlier.write_all(request("/").as_bytes()).expect("sent");
    read_answer(&mut earlier, "said;");
    mailbox.send(Letter::Drain { accept_ms: Some(500), timeout_ms: 20_000, is_held: true });
    let mut late = connect(address);
    late.write_all(request("/parked").as_bytes()).expect("sent");
    is_parked.recv().expect("it waits");
    assert!(read_answer(&mut late, "said;").starts_with("HTTP/1.1 200"));
    thread.join().expect("no panic leaves the loop").expect("a clean end");
}

/// Regression: one pass of relief ended all waits whose memory was needed, up to 64 in one turn.
#[test]
fn relief_of_memory_ends_as_many_waits_as_it_has_to_and_few_in_a_turn() {
    // Relief begins above fifteen sixteenths of the bound, and ends at fourteen.
    const SIXTEENTH: usize = 20;
    const BEHIND_BYTES: usize = 1_000;
    let (waiting, is_waiting) = channel();
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let bytes_max = (16 * SIXTEENTH * BEHIND_BYTES) as u64;
    let (address, mailbox, worker) = worker_with(1_000, 65_536, bytes_max, move |path, turn| {
        match path {
            b"/told" => noted.lock().push(turn),
            _ => waiting.send(()).expect("the test goes on"),
        }
        "said;".to_owned()
    });
    let thread = thread::spawn(move || worker.run());
    let question = request("/wait-long") + &"G".repeat(BEHIND_BYTES);
    let begin = |_| {
        let mut client = connect(address);
        client.write_all(question.as_bytes()).expect("sent");
        is_waiting.recv().expect("it is asked");
        client
    };
    let mut waits: Vec<TcpStream> = (0..=15 * SIXTEENTH).map(begin).collect();
    for told in &mut waits[..=SIXTEENTH] {
        assert!(read_answer(told, "said;").ends_with("said;"));
    }
    // The other requests are answered at the end, once the turns of these are known.
    let turns = told.lock().clone();
    assert_eq!(turns.len(), SIXTEENTH + 1, "each is told that has to be");
    for turn in &turns {
        let count = turns.iter().filter(|other| *other == turn).count();
        assert!(count <= WOKEN_PER_TURN, "{count} waits were ended in one turn");
    }
    drop(waits);
    end(&mailbox, thread);
}
