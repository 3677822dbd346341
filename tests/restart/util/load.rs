//! Clients that never stop asking, and count what is not as it should be.

use crate::util::answers::CAN_VOTE;
use crate::util::client::{Client, Kept};
use crate::util::control::Control;
use crate::util::endpoint::Endpoint;
use crate::util::response::Response;
use crate::util::server::Server;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{Scope, sleep};
use std::time::{Duration, Instant};

const GET: &str = "GET /api/vote/1/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\n";
/// Nobody votes from there: the end of the wait, or of the process, is the answer.
const WAIT: &str = "GET /api/vote/1/status/203.0.113.7?wait=2 HTTP/1.1\r\nHost: h\r\n\r\n";
/// Votes are cast from here on, one address after the other.
const FIRST_VOTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);

/// How a client treats its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Habit {
    /// Asks again at once.
    Kept,
    /// Takes a new connection for each request.
    Fresh,
    /// The same, and says so.
    FreshSaid,
    /// Sends its request in two pieces.
    Dribbling,
    /// Asks after pauses of this length.
    Pausing(Duration),
    /// Waits for a vote that never comes.
    Waiting,
}

/// What the clients have seen.
pub(crate) struct Load {
    public: Endpoint,
    control: Endpoint,
    key: Control,
    is_over: AtomicBool,
    requests: AtomicU64,
    /// The longest answer on a new connection.
    longest_us: AtomicU64,
    next_voter: AtomicU32,
    /// Votes that were answered 201.
    votes: Mutex<Vec<Ipv4Addr>>,
    failures: Mutex<Vec<String>>,
}

/// The end of the clients.
pub(crate) struct End<'load>(&'load Load);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Load {
    pub(crate) fn new(public: &Endpoint, control: &Endpoint) -> Load {
        Load {
            public: public.clone(),
            control: control.clone(),
            key: Control::new(control, Server::KEY),
            is_over: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            longest_us: AtomicU64::new(0),
            next_voter: AtomicU32::new(FIRST_VOTER.to_bits()),
            votes: Mutex::new(Vec::new()),
            failures: Mutex::new(Vec::new()),
        }
    }

    /// Starts a client of each habit, and voters on kept and on fresh connections. They end, each
    /// with its answer, when what this gives is dropped.
    pub(crate) fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, habits: &[Habit]) -> End<'scope> {
        for habit in habits.iter().copied() {
            scope.spawn(move || self.ask_on(habit));
        }
        for is_kept in [true, false] {
            scope.spawn(move || self.vote_on(is_kept));
        }
        End(self)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_us.load(Ordering::Relaxed))
    }

    pub(crate) fn votes(&self) -> Vec<Ipv4Addr> {
        self.votes.lock().expect("no client panics").clone()
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().expect("no client panics").clone()
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn fail(&self, what: &str, why: impl std::fmt::Debug) {
        self.failures.lock().expect("no client panics").push(format!("{what}: {why:?}"));
    }

    fn ask_on(&self, habit: Habit) {
        let what = format!("{habit:?}");
        let mut kept = Kept::new(&self.public);
        while self.goes_on() {
            let ask = |client: &mut Client| match habit {
                Habit::FreshSaid => client.try_send(GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")),
                Habit::Dribbling => {
                    let (first, rest) = GET.split_at(GET.len() / 2);
                    client.try_send(first)?;
                    sleep(Duration::from_millis(20));
                    client.try_send(rest)
                }
                Habit::Waiting => client.try_send(WAIT),
                Habit::Kept | Habit::Fresh | Habit::Pausing(_) => client.try_send(GET),
            };
            match self.exchange(&mut kept, !matches!(habit, Habit::Waiting), ask) {
                Ok(response) if response.status == 200 && response.text() == CAN_VOTE.body => {}
                Ok(response) => self.fail(&what, response),
                Err(error) => self.fail(&what, error),
            }
            match habit {
                Habit::Fresh | Habit::FreshSaid => kept.close(),
                Habit::Pausing(pause) => sleep(pause),
                Habit::Kept | Habit::Dribbling | Habit::Waiting => {}
            }
        }
    }

    /// Each vote is recorded once, and seen at once by whoever asks.
    fn vote_on(&self, is_kept: bool) {
        let (mut control, mut public) = (Kept::new(&self.control), Kept::new(&self.public));
        while self.goes_on() {
            let voter = Ipv4Addr::from_bits(self.next_voter.fetch_add(1, Ordering::Relaxed));
            let body = format!(r#"{{"server_id":1,"ip":"{voter}"}}"#);
            let vote = self.key.request_bytes("POST", "/v1/votes", Some(&body));
            let mut cast = || self.exchange(&mut control, false, |client| client.try_send(&vote));
            match cast() {
                Ok(response) if response.status == 201 => {
                    self.votes.lock().expect("no client panics").push(voter);
                }
                other => {
                    self.fail("vote", other);
                    continue;
                }
            }
            match cast() {
                Ok(response) if response.status == 409 => {}
                other => self.fail("the same vote again", other),
            }
            let status = format!("GET /api/vote/1/status/{voter} HTTP/1.1\r\nHost: h\r\n\r\n");
            match self.exchange(&mut public, true, |client| client.try_send(&status)) {
                Ok(response) if response.status == 200 && response.text().contains(r#""can_vote":false"#) => {}
                other => self.fail("status after the vote", other),
            }
            if !is_kept {
                control.close();
                public.close();
            }
        }
    }

    /// One request, on the connection that is there or on a new one.
    fn exchange(
        &self,
        kept: &mut Kept,
        may_be_timed: bool,
        ask: impl Fn(&mut Client) -> io::Result<()>,
    ) -> io::Result<Response> {
        let (since, is_new) = (Instant::now(), kept.is_new());
        let answer = kept.exchange(ask);
        self.requests.fetch_add(1, Ordering::Relaxed);
        if is_new && may_be_timed {
            let took_us = since.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
            self.longest_us.fetch_max(took_us, Ordering::Relaxed);
        }
        answer
    }
}
