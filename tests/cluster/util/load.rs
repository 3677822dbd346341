//! Callers that cast votes through nodes over kept connections, and remember the answers. Knows the control interface.

use crate::cluster::util::node::Node;
use crate::util::client::Kept;
use crate::util::control::Control;
use crate::util::ledger::{Pair, address};
use crate::util::load::{Caller, Load, Notes};
use crate::util::random::Random;
use crate::util::response::Response;
use crate::util::time::from_rfc3339;
use crate::util::{DEADLINE, wait_within};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

/// Servers 1 to this one get the votes.
pub(crate) const SERVERS: u32 = 20;
/// The share of tries that cast again for a pair with an acknowledged vote, in percent.
const AGAIN_PERCENT: usize = 10;
/// The pause between a fault and the next try.
const PAUSE: Duration = Duration::from_millis(5);

/// The answers that the callers have received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// The number of addresses used so far, each for one pair, with an answer or without.
    next: u32,
    /// Requests that were sent.
    pub(crate) tries: u64,
    /// Votes answered 201 and not cancelled, each with the instant in the answer.
    pub(crate) recorded: BTreeMap<Pair, i64>,
    /// Votes answered 201 whose later cancellation was answered 200.
    pub(crate) cancelled: Vec<Pair>,
    /// Votes answered 201 though an earlier one was acknowledged, with the second instant.
    pub(crate) doubles: Vec<(Pair, i64)>,
    /// Votes answered 201 with the remark that no replica has confirmed them.
    pub(crate) unconfirmed: BTreeSet<Pair>,
    /// The number of answers 503.
    pub(crate) unavailable: u64,
}

impl Load<Tally> {
    /// Starts `connections` callers on the nodes in turn. Addresses are numbered behind `first`. Of 100 tries,
    /// `cancel_percent` cancel an acknowledged vote.
    pub(crate) fn voting(nodes: &[&Node], connections: usize, cancel_percent: usize, first: u32) -> Load<Tally> {
        let mut seeds = Random::from_environment();
        let callers = nodes.iter().cycle().take(connections).map(|node| {
            let (control, client) = (node.control(), Kept::new(node.control_addr()));
            let random = Random::seeded(seeds.next());
            let mut voter = Voter { first, cancel_percent, control, client, random, mine: Vec::new() };
            Box::new(move |notes: &Notes<Tally>| voter.turn(notes)) as Caller<Tally>
        });
        Load::start(callers)
    }

    /// Waits until `votes` more votes are recorded.
    pub(crate) fn wait_for_more(&self, votes: usize) {
        self.wait_for_more_within(DEADLINE, votes);
    }

    /// The same with a longer deadline.
    pub(crate) fn wait_for_more_within(&self, deadline: Duration, votes: usize) {
        let wanted = self.known().recorded.len() + votes;
        wait_within(deadline, "votes are recorded", || self.known().recorded.len() >= wanted);
    }
}

/// One connection's caller.
struct Voter {
    first: u32,
    cancel_percent: usize,
    control: Control,
    client: Kept,
    random: Random,
    /// Pairs of this caller with an acknowledged vote.
    mine: Vec<Pair>,
}

impl Voter {
    fn turn(&mut self, notes: &Notes<Tally>) {
        let dice = self.random.below(100);
        match dice {
            _ if self.mine.is_empty() => self.cast_new(notes),
            _ if dice < AGAIN_PERCENT => self.cast_again(notes),
            _ if dice < AGAIN_PERCENT + self.cancel_percent => self.cancel(notes),
            _ => self.cast_new(notes),
        }
    }

    fn cast_new(&mut self, notes: &Notes<Tally>) {
        let number = {
            let mut tally = notes.open();
            tally.next += 1;
            self.first + tally.next
        };
        let pair = (1 + number % SERVERS, address(number));
        let Some(response) = self.exchange(notes, "POST", "/v1/votes", Some(&body(&[pair]))) else { return };
        match response.status {
            201 => {
                self.mine.push(pair);
                let mut tally = notes.open();
                tally.recorded.insert(pair, voted_at(&response));
                if response.json()["confirmed"] == false {
                    tally.unconfirmed.insert(pair);
                }
            }
            // The server is not listed at the moment, or was removed several times within seconds: each listing
            // has later seconds than the one before.
            404 | 429 => {}
            _ => panic!("a new vote for {pair:?}: {response:?}"),
        }
    }

    fn cast_again(&mut self, notes: &Notes<Tally>) {
        let pair = *self.random.pick(&self.mine);
        let Some(response) = self.exchange(notes, "POST", "/v1/votes", Some(&body(&[pair]))) else { return };
        match response.status {
            201 => notes.open().doubles.push((pair, voted_at(&response))),
            404 | 409 | 429 => {}
            _ => panic!("a second vote for {pair:?}: {response:?}"),
        }
    }

    fn cancel(&mut self, notes: &Notes<Tally>) {
        let at = self.random.below(self.mine.len());
        let pair = self.mine.swap_remove(at);
        // From here on the vote may be gone, whatever the answer.
        notes.open().recorded.remove(&pair);
        let path = format!("/v1/votes/{}/{}", pair.0, pair.1);
        let Some(response) = self.exchange(notes, "DELETE", &path, None) else { return };
        match response.status {
            200 => notes.open().cancelled.push(pair),
            404 => {}
            _ => panic!("the cancellation of {pair:?}: {response:?}"),
        }
    }

    /// The answer. None without an answer or with 503: the change may have happened or not.
    fn exchange(&mut self, notes: &Notes<Tally>, method: &str, path: &str, body: Option<&str>) -> Option<Response> {
        notes.open().tries += 1;
        let request = self.control.request_bytes(method, path, body);
        match self.client.exchange(|client| client.try_send(request)) {
            Ok(response) if response.status != 503 => return Some(response),
            Ok(response) => {
                assert_eq!(response.json()["error"], "store_unavailable", "{response:?}");
                notes.open().unavailable += 1;
            }
            Err(_) => {}
        }
        sleep(PAUSE);
        None
    }
}

/// The body of a vote of all these addresses at one server.
pub(crate) fn body(pairs: &[Pair]) -> String {
    let server = pairs[0].0;
    if let [(_, ip)] = pairs {
        return format!(r#"{{"server_id":{server},"ip":"{ip}"}}"#);
    }
    let ips: Vec<String> = pairs.iter().map(|(_, ip)| format!(r#""{ip}""#)).collect();
    format!(r#"{{"server_id":{server},"ips":[{}]}}"#, ips.join(","))
}

/// The instant of a vote that was answered 201.
pub(crate) fn voted_at(response: &Response) -> i64 {
    from_rfc3339(response.json()["voted_at"].as_str().expect("an instant"))
}
