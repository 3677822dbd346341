//! Callers that cast votes through nodes over kept connections until they are told to stop, and
//! remember what they were answered. Knows the control interface.

use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::Truth;
use crate::cluster::util::resp::Redis;
use crate::util::client::Kept;
use crate::util::control::Control;
use crate::util::ledger::{Pair, address};
use crate::util::random::Random;
use crate::util::response::Response;
use crate::util::time::from_rfc3339;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// After a fault, before the next try.
const PAUSE: Duration = Duration::from_millis(5);

/// What callers do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Connections, shared out over the nodes.
    pub(crate) connections: usize,
    /// Servers 1 to this one get the votes.
    pub(crate) servers: u32,
    /// Of 100 tries, so many cast again for a pair whose vote was acknowledged.
    pub(crate) again_percent: usize,
    /// Of 100 tries, so many cancel an acknowledged vote.
    pub(crate) cancel_percent: usize,
    /// Between two tries of a connection.
    pub(crate) pause: Duration,
}

impl Habits {
    /// Casts, some of them a second time.
    pub(crate) const PLAIN: Habits =
        Habits { connections: 16, servers: 20, again_percent: 10, cancel_percent: 0, pause: Duration::ZERO };
}

/// What callers know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Requests that were sent.
    pub(crate) tries: u64,
    /// Votes answered 201 and not cancelled, with the instant told.
    pub(crate) recorded: BTreeMap<Pair, i64>,
    /// Votes answered 201, and cancelled after that; answered 200.
    pub(crate) cancelled: Vec<Pair>,
    /// Votes answered 201 though an earlier one was acknowledged: the second instant.
    pub(crate) doubles: Vec<(Pair, i64)>,
    /// Votes answered 201 with the remark that no replica has confirmed them.
    pub(crate) unconfirmed: BTreeSet<Pair>,
    /// Answers 503.
    pub(crate) unavailable: u64,
}

impl Tally {
    /// How many acknowledged votes are not in Redis.
    pub(crate) fn lost_by(&self, redis: &mut Redis) -> usize {
        let truth = Truth::in_redis(redis);
        self.recorded.keys().filter(|pair| !truth.votes.contains_key(pair)).count()
    }
}

/// Callers at work.
#[derive(Debug)]
pub(crate) struct Load {
    shared: Arc<Shared>,
    callers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    habits: Habits,
    is_over: AtomicBool,
    next: AtomicU32,
    tally: Mutex<Tally>,
}

impl Load {
    /// Starts callers on the nodes, in turn. `first` is the number of the first address.
    pub(crate) fn start(nodes: &[&Node], habits: Habits, first: u32) -> Load {
        let (is_over, next) = (AtomicBool::new(false), AtomicU32::new(first));
        let shared = Arc::new(Shared { habits, is_over, next, tally: Mutex::default() });
        let mut seeds = Random::from_environment();
        let nodes = nodes.iter().cycle().take(habits.connections);
        let callers = nodes.map(|node| {
            let caller = Caller {
                shared: Arc::clone(&shared),
                control: node.control(),
                client: Kept::new(node.control_addr()),
                random: Random::seeded(seeds.next()),
                mine: Vec::new(),
            };
            spawn(move || caller.run())
        });
        let callers = callers.collect();
        Load { shared, callers }
    }

    /// How many votes are recorded by now.
    pub(crate) fn recorded(&self) -> usize {
        self.shared.lock().recorded.len()
    }

    /// Waits until so many more votes are recorded.
    pub(crate) fn wait_for_more(&self, votes: usize) {
        let wanted = self.recorded() + votes;
        crate::util::wait_until("votes are recorded", || self.recorded() >= wanted);
    }

    /// What is known so far.
    pub(crate) fn tally(&self) -> Tally {
        self.shared.lock().clone()
    }

    /// Lets the callers finish what they are at.
    pub(crate) fn stop(mut self) -> Tally {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for caller in self.callers.drain(..) {
            caller.join().expect("a caller failed");
        }
        self.tally()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("a caller failed")
    }
}

/// One connection's caller.
struct Caller {
    shared: Arc<Shared>,
    control: Control,
    client: Kept,
    random: Random,
    /// Pairs of this caller with an acknowledged vote.
    mine: Vec<Pair>,
}

impl Caller {
    fn run(mut self) {
        let Habits { again_percent, cancel_percent, pause, .. } = self.shared.habits;
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let dice = self.random.below(100);
            match dice {
                _ if self.mine.is_empty() => self.cast_new(),
                _ if dice < again_percent => self.cast_again(),
                _ if dice < again_percent + cancel_percent => self.cancel(),
                _ => self.cast_new(),
            }
            if !pause.is_zero() {
                sleep(pause);
            }
        }
    }

    fn cast_new(&mut self) {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let pair = (1 + number % self.shared.habits.servers, address(number));
        let Some(response) = self.exchange("POST", "/v1/votes", Some(&body(pair))) else { return };
        match response.status {
            201 => {
                self.mine.push(pair);
                let mut tally = self.shared.lock();
                tally.recorded.insert(pair, voted_at(&response));
                if response.json()["confirmed"] == false {
                    tally.unconfirmed.insert(pair);
                }
            }
            // Of a server that is not listed at the moment, or was removed several times within seconds: each listing
            // has later seconds than the one before.
            404 | 429 => {}
            _ => panic!("a new vote for {pair:?}: {response:?}"),
        }
    }

    fn cast_again(&mut self) {
        let pair = *self.random.pick(&self.mine);
        let Some(response) = self.exchange("POST", "/v1/votes", Some(&body(pair))) else { return };
        match response.status {
            201 => self.shared.lock().doubles.push((pair, voted_at(&response))),
            404 | 409 | 429 => {}
            _ => panic!("a second vote for {pair:?}: {response:?}"),
        }
    }

    fn cancel(&mut self) {
        let at = self.random.below(self.mine.len());
        let pair = self.mine.swap_remove(at);
        // From here on nobody may rely on it, whatever the answer.
        self.shared.lock().recorded.remove(&pair);
        let path = format!("/v1/votes/{}/{}", pair.0, pair.1);
        let Some(response) = self.exchange("DELETE", &path, None) else { return };
        match response.status {
            200 => self.shared.lock().cancelled.push(pair),
            404 => {}
            _ => panic!("the cancellation of {pair:?}: {response:?}"),
        }
    }

    /// The answer, unless there was none or it was 503: what was asked for may be there or not.
    fn exchange(&mut self, method: &str, path: &str, body: Option<&str>) -> Option<Response> {
        self.shared.lock().tries += 1;
        let request = self.control.request_bytes(method, path, body);
        let answered = self.client.exchange(|client| client.try_send(request));
        match answered {
            Ok(response) if response.status != 503 => return Some(response),
            Ok(response) => {
                assert_eq!(response.json()["error"], "store_unavailable", "{response:?}");
                self.shared.lock().unavailable += 1;
            }
            Err(_) => {}
        }
        sleep(PAUSE);
        None
    }
}

fn body((server, ip): Pair) -> String {
    format!(r#"{{"server_id":{server},"ip":"{ip}"}}"#)
}

fn voted_at(response: &Response) -> i64 {
    from_rfc3339(response.json()["voted_at"].as_str().expect("an instant"))
}
