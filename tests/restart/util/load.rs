//! Clients that never stop asking, and note every failure.

use crate::util::answers::CAN_VOTE;
use crate::util::client::{Client, Kept};
use crate::util::control::Control;
use crate::util::endpoint::Endpoint;
use crate::util::load::{Caller, Load, Notes};
use crate::util::response::Response;
use crate::util::server::Server;
use std::fmt::Debug;
use std::io;
use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

const GET: &str = "GET /api/vote/1/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\n";
/// A wait for an address without votes: the answer comes at the end of the wait, or of the process.
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
    /// The same, with `Connection: close`.
    FreshSaid,
    /// Sends its request in two pieces.
    Dribbling,
    /// Asks after pauses of this length.
    Pausing(Duration),
    /// Waits for a vote that never comes.
    Waiting,
}

/// The clients' notes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) requests: u64,
    /// The longest answer on a new connection.
    pub(crate) longest: Duration,
    /// The number of addresses used so far.
    voters: u32,
    /// Votes that were answered 201.
    pub(crate) votes: Vec<Ipv4Addr>,
    pub(crate) failures: Vec<String>,
}

impl Notes<Seen> {
    fn fail(&self, what: &str, why: impl Debug) {
        self.open().failures.push(format!("{what}: {why:?}"));
    }
}

impl Load<Seen> {
    /// Starts a client of each habit, and voters on kept and on fresh connections.
    pub(crate) fn asking(habits: &[Habit], public: &Endpoint, control: &Endpoint) -> Load<Seen> {
        let clients = habits.iter().map(|&habit| {
            let mut kept = Kept::new(public);
            Box::new(move |notes: &Notes<Seen>| ask_on(habit, &mut kept, notes)) as Caller<Seen>
        });
        let voters = [true, false].map(|is_kept| {
            let (key, mut kept) = (Control::new(control, Server::KEY), [control, public].map(Kept::new));
            Box::new(move |notes: &Notes<Seen>| vote_on(is_kept, &key, &mut kept, notes)) as Caller<Seen>
        });
        Load::start(clients.chain(voters))
    }
}

fn ask_on(habit: Habit, kept: &mut Kept, notes: &Notes<Seen>) {
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
    match exchange(kept, notes, !matches!(habit, Habit::Waiting), ask) {
        Ok(response) if response.status == 200 && response.text() == CAN_VOTE.body => {}
        other => notes.fail(&format!("{habit:?}"), other),
    }
    match habit {
        Habit::Fresh | Habit::FreshSaid => kept.close(),
        Habit::Pausing(pause) => sleep(pause),
        Habit::Kept | Habit::Dribbling | Habit::Waiting => {}
    }
}

/// Each vote is recorded once, and every reader sees it at once.
fn vote_on(is_kept: bool, key: &Control, [control, public]: &mut [Kept; 2], notes: &Notes<Seen>) {
    let number = {
        let mut seen = notes.open();
        seen.voters += 1;
        seen.voters
    };
    let voter = Ipv4Addr::from_bits(FIRST_VOTER.to_bits() + number);
    let body = format!(r#"{{"server_id":1,"ip":"{voter}"}}"#);
    let vote = key.request_bytes("POST", "/v1/votes", Some(&body));
    let mut cast = || exchange(control, notes, false, |client| client.try_send(&vote));
    match cast() {
        Ok(response) if response.status == 201 => notes.open().votes.push(voter),
        other => return notes.fail("vote", other),
    }
    match cast() {
        Ok(response) if response.status == 409 => {}
        other => notes.fail("the same vote again", other),
    }
    let status = format!("GET /api/vote/1/status/{voter} HTTP/1.1\r\nHost: h\r\n\r\n");
    match exchange(public, notes, true, |client| client.try_send(&status)) {
        Ok(response) if response.status == 200 && response.text().contains(r#""can_vote":false"#) => {}
        other => notes.fail("status after the vote", other),
    }
    if !is_kept {
        control.close();
        public.close();
    }
}

/// One request, on the connection that is there or on a new one.
fn exchange(
    kept: &mut Kept,
    notes: &Notes<Seen>,
    may_be_timed: bool,
    ask: impl Fn(&mut Client) -> io::Result<()>,
) -> io::Result<Response> {
    let (since, is_new) = (Instant::now(), kept.is_new());
    let answer = kept.exchange(ask);
    let mut seen = notes.open();
    seen.requests += 1;
    if is_new && may_be_timed {
        seen.longest = seen.longest.max(since.elapsed());
    }
    answer
}
