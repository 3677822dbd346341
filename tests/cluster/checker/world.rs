//! Real servers and nodes that a schedule is played on: a primary with a replica, and three nodes,
//! each behind a proxy in place of its network. Sends the requests of a step, and tells the model the answers.

use crate::cluster::checker::NODES;
use crate::cluster::checker::model::{Claim, Model, Violation};
use crate::cluster::checker::schedule::{CROWD, GOES, SERVERS, Step, Strain};
use crate::cluster::clock::give_clock;
use crate::cluster::util::engine::Engine;
use crate::cluster::util::load::{body, voted_at};
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::cluster::util::resp::{Redis, Value};
use crate::util::client::{Client, get};
use crate::util::ledger::{Pair, address, next_votes};
use crate::util::response::Response;
use crate::util::time::{now_unix, rfc3339};
use crate::util::{DEADLINE, wait_until};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Votes of this address come from clients that go before the node reads them: the node must not record them.
const HANGS_UP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 200, 0, 1));
/// The pause before a refused vote is sent again.
const POLL: Duration = Duration::from_millis(20);

/// A running node, or the data directory of a killed one.
pub(super) enum Place {
    Running(Node),
    Killed(TempDir),
}

/// All processes and proxies, with the model.
pub(crate) struct World {
    pub(super) primary: Engine,
    pub(super) replica: Engine,
    /// Between primary and replica.
    pub(super) link: Proxy,
    /// Between each node and the primary.
    pub(super) roads: Vec<(Proxy, Mode)>,
    pub(super) places: Vec<Option<Place>>,
    /// A copy of the store's files, and the number of acknowledgements by then.
    pub(super) saved: Option<(TempDir, u64)>,
    /// The number of acknowledgements when the replica was cut off.
    pub(super) held_at: Option<u64>,
    /// The current settings of both machines of the store, beside their arguments.
    pub(super) settings: BTreeMap<&'static str, &'static str>,
    /// The strain of the store, and the connection that ends it.
    pub(super) strain: Option<(Strain, Redis)>,
    /// The file with the distance of the store's clock from the machine's, if that changes.
    pub(super) clock_file: Option<PathBuf>,
    /// The largest such distance, in seconds.
    clock_max_s: i64,
    pub(super) cooldown_s: i64,
    pub(super) model: Model,
    /// Pairs of all crowds.
    pub(super) crowds: Vec<Pair>,
}

impl World {
    /// Starts everything and lists three servers; there are no votes yet. `clock_max_s` is the largest distance of the store's
    /// clock from the machine's.
    pub(crate) fn new(cooldown_minutes: u32, clock_max_s: i64, args: &[&str]) -> World {
        let mut primary = Engine::stopped(args);
        let clock_file = (clock_max_s > 0).then(|| give_clock(&mut primary, 0));
        primary.run();
        let minutes = cooldown_minutes.to_string();
        // On a busy machine the command may give up before the store answers.
        let init = ["cluster", "init", "--store", &primary.url(), "--cooldown-minutes", &minutes];
        wait_until("the store is made", || client(&init).status.success());
        let link = Proxy::to(primary.addr());
        let replica = Engine::replica_of(link.addr(), args);
        let roads: Vec<(Proxy, Mode)> = (0..NODES).map(|_| (Proxy::to(primary.addr()), Mode::Pass)).collect();
        let cooldown_s = i64::from(cooldown_minutes) * 60;
        let mut world = World {
            primary,
            replica,
            link,
            roads,
            places: Vec::new(),
            saved: None,
            held_at: None,
            settings: BTreeMap::new(),
            strain: None,
            clock_file,
            clock_max_s,
            cooldown_s,
            model: Model::new(cooldown_s, clock_max_s),
            crowds: Vec::new(),
        };
        world.set_up();
        let start = |(road, _): &(Proxy, Mode)| Node::start(&url_of_node(road), &["--cooldown-minutes", &minutes]);
        world.places = world.roads.iter().map(|road| Some(Place::Running(start(road)))).collect();
        let first = world.node(0).expect("it runs").control();
        for server in 1..=SERVERS {
            let (path, token) = (format!("/v1/servers/{server}"), format!(r#"{{"token":"token-{server}"}}"#));
            wait_until("the server is listed", || matches!(first.put(&path, &token).status, 200 | 201));
        }
        world.settle().expect("nothing has happened yet");
        world
    }

    pub(super) fn node(&self, node: usize) -> Option<&Node> {
        match &self.places[node] {
            Some(Place::Running(node)) => Some(node),
            _ => None,
        }
    }

    pub(super) fn running(&self) -> Vec<usize> {
        (0..NODES).filter(|node| self.node(*node).is_some()).collect()
    }

    /// Plays a step, and checks its outcome.
    pub(crate) fn play(&mut self, step: &Step) -> Result<(), Violation> {
        match step {
            Step::Vote(node, pair) => self.vote(*node, &[*pair]).map(drop),
            Step::Crowd(node, server, first) => {
                let pairs: Vec<Pair> = (*first..first + CROWD).map(|number| (*server, address(number))).collect();
                self.crowd(*node, &pairs)
            }
            Step::VoteOfSeveral(node, pairs) => self.vote(*node, pairs).map(drop),
            Step::VoteUntilAnswered(node, pair) => {
                let until = Instant::now() + DEADLINE;
                while self.vote(*node, &[*pair])? == 503 {
                    assert!(Instant::now() < until, "votes are refused for {DEADLINE:?}");
                    sleep(POLL);
                }
                Ok(())
            }
            Step::ExpectRefused(node, pair) => match self.vote(*node, &[*pair])? {
                503 => Ok(()),
                status => Err(format!("node {node} must refuse votes now, and answered {status}")),
            },
            Step::Race(pair) => self.race(*pair),
            Step::Record(node, pair, age_s) => self.record(*node, *pair, *age_s),
            Step::Cancel(node, pair) => self.cancel(*node, *pair),
            Step::Ask(node, pair) => self.ask(*node, *pair),
            Step::Remove(node) => self.remove(*node),
            Step::List(node) => self.list(*node),
            Step::Rotate(node) => self.rotate(*node),
            Step::Pause(ms) => {
                sleep(Duration::from_millis(*ms));
                Ok(())
            }
            Step::Settle => self.settle(),
            Step::HangUp { stopped, other, pair, ms } => {
                self.hang_up(*stopped, *other, *pair, Duration::from_millis(*ms))
            }
            fault => {
                self.stage(fault);
                self.ask_all()
            }
        }
    }

    /// Sends a request to a node. `None` where the node does not run, and `Some(None)` without an answer.
    fn tell(&mut self, node: usize, method: &str, path: &str, body: Option<&str>) -> Option<Option<Response>> {
        let running = self.node(node)?;
        Some(exchange(running, running.control().request_bytes(method, path, body)))
    }

    /// The same for a request that may record votes of these pairs: without an answer they are in doubt.
    fn send(&mut self, node: usize, pairs: &[Pair], path: &str, body: &str) -> Option<Response> {
        self.node(node)?;
        pairs.iter().for_each(|pair| self.model.sent(*pair));
        let answered = self.tell(node, "POST", path, Some(body))?;
        if answered.is_none() {
            pairs.iter().for_each(|pair| self.model.unanswered(*pair));
        }
        answered
    }

    /// A vote that counts for all of these pairs or for none. Gives the status; 0 without an answer.
    fn vote(&mut self, node: usize, pairs: &[Pair]) -> Result<u16, Violation> {
        let sent = now_unix();
        let Some(response) = self.send(node, pairs, "/v1/votes", &body(pairs)) else { return Ok(0) };
        self.note_vote(node, pairs, &response, sent)?;
        Ok(response.status)
    }

    fn crowd(&mut self, node: usize, pairs: &[Pair]) -> Result<(), Violation> {
        let Some(Place::Running(running)) = &self.places[node] else { return Ok(()) };
        pairs.iter().for_each(|pair| self.model.sent(*pair));
        let sent = now_unix();
        let cast = |pair: &Pair| running.control().request_bytes("POST", "/v1/votes", Some(&body(&[*pair])));
        let requests: String = pairs.iter().map(cast).collect();
        let mut client = Client::try_connect(running.control_addr()).ok();
        client.take_if(|client| client.try_send(requests).is_err());
        let answers: Vec<Option<Response>> =
            pairs.iter().map(|_| client.as_mut()?.try_read_response(false).ok()).collect();
        for (pair, answer) in pairs.iter().zip(&answers) {
            match answer {
                Some(response) => self.note_vote(node, &[*pair], response, sent)?,
                None => self.model.unanswered(*pair),
            }
        }
        self.crowds.extend(pairs);
        Ok(())
    }

    fn note_vote(&mut self, node: usize, pairs: &[Pair], response: &Response, sent: i64) -> Result<(), Violation> {
        let now = now_unix();
        match response.status {
            201 => {
                self.model.recorded(pairs, node, voted_at(response), sent..=now)?;
                pairs.iter().try_for_each(|pair| self.ask(node, *pair))
            }
            409 => self.model.refused(pairs, now),
            404 if pairs[0].0 == GOES => Ok(()),
            429 => self.model.refused_for_now(pairs, now),
            503 => {
                self.note_unavailable(pairs, response);
                Ok(())
            }
            _ => Err(format!("a vote for {pairs:?}: {response:?}")),
        }
    }

    fn note_unavailable(&mut self, pairs: &[Pair], response: &Response) {
        if is_in_doubt(response) {
            pairs.iter().for_each(|pair| self.model.unanswered(*pair));
        }
    }

    /// Asks all running nodes at once, twice each: one request may record the vote.
    fn race(&mut self, pair: Pair) -> Result<(), Violation> {
        self.model.sent(pair);
        let sent = now_unix();
        let running: Vec<usize> = self.running().into_iter().cycle().take(2 * NODES).collect();
        let ask = |node: usize| {
            let node = self.node(node).expect("it runs");
            exchange(node, node.control().request_bytes("POST", "/v1/votes", Some(&body(&[pair]))))
        };
        let answers: Vec<Option<Response>> = scope(|scope| {
            let asking: Vec<_> = running.iter().map(|node| scope.spawn(|| ask(*node))).collect();
            asking.into_iter().map(|thread| thread.join().expect("a caller failed")).collect()
        });
        let status = |answer: &Option<Response>| answer.as_ref().map_or(503, |answer| answer.status);
        let mut answers: Vec<(usize, Option<Response>)> = running.into_iter().zip(answers).collect();
        let won = answers.iter().any(|(_, answer)| status(answer) == 201);
        // First the request that recorded the vote or may have: it is the reason of the other refusals.
        answers.sort_by_key(|(_, answer)| status(answer) != if won { 201 } else { 503 });
        for (node, answer) in &answers {
            match answer {
                Some(answer) if answer.status != 503 => self.note_vote(*node, &[pair], answer, sent)?,
                // Another vote counts, and this one may still be on its way.
                _ if won => self.model.overtaken(pair),
                Some(answer) => self.note_unavailable(&[pair], answer),
                None => self.model.unanswered(pair),
            }
        }
        Ok(())
    }

    fn record(&mut self, node: usize, pair: Pair, age_s: i64) -> Result<(), Violation> {
        // In the past by the clock of the store as well.
        let sent = now_unix() - self.clock_max_s - age_s;
        let body = format!(r#"{{"server_id":{},"ip":"{}","voted_at":{sent}}}"#, pair.0, pair.1);
        let Some(response) = self.send(node, &[pair], "/v1/votes?mode=record", &body) else { return Ok(()) };
        match response.status {
            200 | 201 => self.model.kept(pair, node, (sent, voted_at(&response)), now_unix())?,
            422 if response.json()["error"] == "cancelled" => return self.model.refused_as_cancelled(pair, sent),
            404 if pair.0 == GOES => return Ok(()),
            503 => {
                self.note_unavailable(&[pair], &response);
                return Ok(());
            }
            _ => return Err(format!("a record of {pair:?}: {response:?}")),
        }
        self.ask(node, pair)
    }

    fn cancel(&mut self, node: usize, pair: Pair) -> Result<(), Violation> {
        let path = format!("/v1/votes/{}/{}", pair.0, pair.1);
        let Some(answered) = self.tell(node, "DELETE", &path, None) else { return Ok(()) };
        let Some(response) = answered else {
            self.model.cancellation_unanswered(pair, now_unix());
            return Ok(());
        };
        let now = now_unix();
        match response.status {
            200 => self.model.cancelled(pair, node, true, now)?,
            404 if response.json()["error"] == "no_cooldown" => return self.model.cancelled(pair, node, false, now),
            404 if pair.0 == GOES => return Ok(()),
            503 => {
                if is_in_doubt(&response) {
                    self.model.cancellation_unanswered(pair, now_unix());
                }
                return Ok(());
            }
            _ => return Err(format!("the cancellation of {pair:?}: {response:?}")),
        }
        let shown = next_votes(self.node(node).expect("it runs").server(), &[pair]);
        if shown[0].is_some() { Err(format!("{pair:?} was cancelled here, and is shown {shown:?}")) } else { Ok(()) }
    }

    /// A stopped node finds requests in its sockets whose clients have gone: it must do none of them.
    fn hang_up(&mut self, stopped: usize, other: usize, pair: Pair, rest: Duration) -> Result<(), Violation> {
        let Some(node) = self.node(stopped) else { return Ok(()) };
        let (path, never) = (format!("/v1/votes/{}/{}", pair.0, pair.1), (pair.0, HANGS_UP));
        node.server().pause();
        for (method, path, body) in [("DELETE", path.as_str(), None), ("POST", "/v1/votes", Some(body(&[never])))] {
            let mut client = Client::try_connect(node.control_addr()).expect("the socket takes it");
            client.try_send(node.control().request_bytes(method, path, body.as_deref())).expect("the socket takes it");
        }
        let meanwhile = self.cancel(other, pair).and_then(|()| self.vote(other, &[pair]));
        sleep(rest);
        self.node(stopped).expect("it runs").server().signal(Signal::CONT);
        // Meanwhile others may have gone on without the votes that this node alone held.
        self.model.lost_node(stopped, false);
        meanwhile?;
        self.ask(other, pair)
    }

    fn ask(&mut self, node: usize, pair: Pair) -> Result<(), Violation> {
        let Some(running) = self.node(node) else { return Ok(()) };
        let response = get(running.server().public(), &status_path(pair));
        let next = response.json()["next_vote_at"].as_str().map(str::to_owned);
        self.check(node, pair, next).map_err(|violation| format!("{violation}: {response:?}"))
    }

    /// Checks that a node may show this as the end of the pair's cooldown.
    fn check(&self, node: usize, pair: Pair, next: Option<String>) -> Result<(), Violation> {
        match self.model.claim(pair, node, now_unix()) {
            Claim::NeverVoted if next.is_some() => Err(format!("node {node}: {pair:?} never voted")),
            Claim::Cooling(voted_at) if next != Some(rfc3339(voted_at + self.cooldown_s)) => {
                Err(format!("node {node} must show that {pair:?} voted at {}, not {next:?}", rfc3339(voted_at)))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the nodes show acknowledged votes through every fault.
    pub(super) fn ask_all(&mut self) -> Result<(), Violation> {
        for node in self.running() {
            for pair in super::pairs() {
                self.ask(node, pair)?;
            }
            // A node that has started without the right to read the store knows of no vote, and reports that.
            let knows = |running: &&Node| get(running.server().public(), &status_path((1, address(0)))).status == 200;
            let shown = match self.node(node).filter(knows) {
                Some(running) => next_votes(running.server(), &self.crowds),
                None => vec![None; self.crowds.len()],
            };
            for (pair, next) in self.crowds.iter().zip(shown) {
                self.check(node, *pair, next)?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, node: usize) -> Result<(), Violation> {
        let Some(answered) = self.tell(node, "DELETE", &format!("/v1/servers/{GOES}"), None) else { return Ok(()) };
        match answered.map(|answer| answer.status) {
            Some(200) => self.model.removed(GOES, Some(node), now_unix()),
            Some(404) => {}
            None | Some(503) => self.model.removed(GOES, None, now_unix()),
            Some(other) => return Err(format!("the removal of server {GOES}: {other}")),
        }
        Ok(())
    }

    fn list(&mut self, node: usize) -> Result<(), Violation> {
        let (path, body) = (format!("/v1/servers/{GOES}"), format!(r#"{{"token":"token-{GOES}"}}"#));
        let Some(answered) = self.tell(node, "PUT", &path, Some(&body)) else { return Ok(()) };
        match answered.map(|answer| answer.status) {
            None | Some(200 | 201 | 503) => Ok(()),
            Some(other) => Err(format!("server {GOES} is listed: {other}")),
        }
    }

    fn rotate(&mut self, node: usize) -> Result<(), Violation> {
        let Some(answered) = self.tell(node, "POST", &format!("/v1/servers/{GOES}/token"), None) else { return Ok(()) };
        let Some(response) = answered.filter(|answer| answer.status == 200) else { return Ok(()) };
        let json = response.json();
        let token = json["token"].as_str().expect("a token");
        let running = self.node(node).expect("it runs");
        let known = get(running.server().public(), &format!("/api/servers/{token}/vote-status/192.0.2.77"));
        if known.status == 200 { Ok(()) } else { Err(format!("the token told last is unknown: {known:?}")) }
    }
}

impl World {
    /// The logs of the nodes, for a failure.
    pub(crate) fn logs(&self) -> String {
        let log = |node: usize| {
            let stderr = self.node(node).map_or_else(|| "it does not run".to_owned(), |node| node.server().stderr());
            format!("--- node {node}:\n{stderr}")
        };
        (0..NODES).map(log).collect()
    }

    /// The store's program and version.
    pub(crate) fn store_version(&self) -> String {
        let Value::Text(info) = self.primary.connect().ask(&["INFO", "server"]) else { return String::new() };
        let version = |name| info.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        match version("valkey_version:") {
            Some(version) => format!("valkey {version}"),
            None => format!("redis {}", version("redis_version:").unwrap_or_default()),
        }
    }
}

fn exchange(node: &Node, request: String) -> Option<Response> {
    let mut client = Client::try_connect(node.control_addr()).ok()?;
    client.try_send(request).ok()?;
    client.try_read_response(false).ok()
}

/// Whether a 503 leaves the request in doubt. A node that has not read its first state refuses at once: `not_ready`.
fn is_in_doubt(response: &Response) -> bool {
    let json = response.json();
    let error = json["error"].as_str().unwrap_or_default();
    assert!(matches!(error, "store_unavailable" | "not_ready"), "{response:?}");
    json["message"].as_str().is_some_and(|message| message.contains("may have been recorded or not"))
}

fn status_path((server, ip): Pair) -> String {
    format!("/api/vote/{server}/status/{ip}")
}

/// The URL of the store through this proxy, with the user of the documentation.
pub(super) fn url_of_node(road: &Proxy) -> String {
    format!("redis://vote-status:of-the-node@{}", road.addr())
}
