//! A node's process in the world: the machine, the state that it shows, and the store's id, which it keeps over a restart.

use vote_status::cluster::node::bounds::Bounds;
use vote_status::cluster::node::changes::WantedChange;
use vote_status::cluster::node::output::{NodeLine, Output};
use vote_status::cluster::node::{NodeMachine, Start};
use vote_status::cluster::state::FullState;
use vote_status::cluster::wire::answer::StoreAnswer;
use vote_status::vote::directory::Snapshot;
use vote_status::vote::hasher::TableHasher;
use vote_status::vote::ipv6::Ipv6Prefix;
use vote_status::vote::settings::Settings;
use vote_status::vote::table::{CooldownTable, Pair};
use vote_status::vote::time::{Cooldown, UnixSeconds};

/// An input of the machine.
pub(crate) enum Input {
    Tick,
    /// The connection leads to the process of the store with this id.
    Connected(NodeLine, String),
    Lost(NodeLine),
    Answered(NodeLine, StoreAnswer),
    Change(u64, WantedChange),
}

/// A process.
pub(crate) struct Process {
    pub(crate) node: NodeMachine,
    pub(crate) shown: FullState,
    cooldown: Cooldown,
    /// The number of this process, which no other one has.
    pub(crate) number: u64,
    /// The instant of the tick that is on its way.
    pub(crate) tick_at_us: u64,
    /// The number of whole readings.
    pub(crate) readings: u64,
}

impl Process {
    pub(crate) fn start(
        number: u64,
        bounds: Bounds,
        settings: Settings,
        store: Option<String>,
        seed: [u64; 2],
    ) -> Self {
        let table = CooldownTable::build(TableHasher::with_seed(seed[0]), 1, Ipv6Prefix::USUAL);
        let shown = FullState { table, servers: Snapshot::default() };
        let name = format!("{number:032x}");
        let version = "unknown".to_owned();
        let node = NodeMachine::new(Start { bounds, settings, name, store, version, seed, shown: shown.table.view() });
        Self { node, shown, cooldown: settings.cooldown, number, tick_at_us: 0, readings: 0 }
    }

    /// Gives the machine an input. Gives the outputs that the process does not carry out itself.
    pub(crate) fn put(&mut self, input: Input, now_ms: u64) -> Vec<Output> {
        match input {
            Input::Tick => self.node.tick(now_ms),
            Input::Connected(line, of_store) => self.node.connected(line, &of_store, now_ms),
            Input::Lost(line) => self.node.lost(line, now_ms),
            Input::Answered(line, answer) => self.node.answered(line, answer, now_ms),
            Input::Change(caller, change) => self.node.change(caller, change, now_ms),
        }
        let mut rest = Vec::new();
        for output in self.node.outputs() {
            match output {
                Output::Show(events) => self.shown.apply(&events, self.cooldown),
                Output::Replace(mut state) => {
                    self.readings += 1;
                    self.shown.servers = std::mem::take(&mut state.servers);
                    self.shown.table.exchange(&mut state.table);
                }
                other => rest.push(other),
            }
        }
        rest
    }

    /// The instant of the vote that is shown for a pair, over or not.
    pub(crate) fn voted_at(&self, pair: Pair) -> Option<UnixSeconds> {
        let is_listed = self.shown.servers.contains(pair.server);
        let held = self.shown.table.expires_at(pair).filter(|_| is_listed);
        held.map(|expires_at| self.cooldown.voted_at(expires_at))
    }

    /// All votes that are shown.
    pub(crate) fn votes(&self) -> Vec<(Pair, UnixSeconds)> {
        let all = self.shown.table.find(|_| true).into_iter();
        let all = all.filter(|entry| self.shown.servers.contains(entry.pair.server));
        let mut all: Vec<_> = all.map(|entry| (entry.pair, self.cooldown.voted_at(entry.expires_at))).collect();
        all.sort_unstable();
        all
    }

    /// All servers that are shown, with their tokens.
    pub(crate) fn servers(&self) -> Vec<(u32, String)> {
        self.shown.servers.iter_after(None).map(|(server, token)| (server.0, token.as_str().to_owned())).collect()
    }
}
