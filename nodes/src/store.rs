//! One store: its keys, its instant, what it says of itself, and what it refuses before it does anything.

use std::collections::{BTreeMap, BTreeSet};

use crate::commands::{Command, Run, find};
use crate::keyspace::Keyspace;
use crate::reply::{Answer, Reply, said};

/// Why a store takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has no more memory.
    Memory,
    /// It is a replica.
    Replica,
    /// It cannot write its file.
    Disk,
    /// Too few replicas follow it.
    NoReplicas,
}

/// What a store says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Another one means another process.
    pub run_id: String,
    /// Another one means another history.
    pub replid: String,
    /// The history before it was promoted.
    pub replid_before: String,
    /// How it makes room.
    pub policy: String,
    /// Keys that it has dropped to make room.
    pub evicted: u64,
    /// Replicas that confirm each write.
    pub replicas: usize,
    /// Whether it takes writes of clients.
    pub is_primary: bool,
}

impl Default for About {
    fn default() -> Self {
        let id = |digit: &str| digit.repeat(40);
        let (run_id, replid, replid_before, policy) = (id("1"), id("2"), id("0"), "noeviction".to_owned());
        Self { run_id, replid, replid_before, policy, evicted: 0, replicas: 0, is_primary: true }
    }
}

impl About {
    /// The fields of `INFO` that nodes read.
    pub(crate) fn told(&self) -> String {
        let role = if self.is_primary { "master" } else { "slave" };
        format!(
            "# Server\r\nrun_id:{}\r\n\r\n# Memory\r\nmaxmemory_policy:{}\r\n\r\n# Stats\r\nevicted_keys:{}\r\n\r\n\
             # Replication\r\nrole:{role}\r\nmaster_replid:{}\r\nmaster_replid2:{}\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n",
            self.run_id, self.policy, self.evicted, self.replid, self.replid_before
        )
    }
}

/// A store. A copy of it is what an older copy of its files, or a replica that lags, would be.
#[derive(Clone, Debug)]
pub struct Store {
    /// The keys.
    pub keys: Keyspace,
    /// Its clock, in microseconds: whoever has the model moves it.
    pub now_us: u64,
    /// Why it takes no writes, where it takes none.
    pub refusal: Option<Refusal>,
    /// Commands that the user of the nodes may not call, in lower case.
    pub denied: BTreeSet<String>,
    /// Entries in a block of a log, as `stream-node-max-entries`. The store bounds a block's bytes too, the model does not.
    pub block_max: usize,
    /// What it says of itself.
    pub about: About,
    /// Commands that functions have called.
    pub called: BTreeSet<&'static str>,
    /// Commands in place of the model's own: for faults that a test has to find.
    pub replaced: BTreeMap<&'static str, Run>,
}

impl Store {
    /// An empty store at this instant.
    #[must_use]
    pub fn new(now_us: u64) -> Self {
        let (keys, about, denied, called, replaced) = Default::default();
        Self { keys, now_us, refusal: None, denied, block_max: 100, about, called, replaced }
    }

    /// Its clock in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.now_us / 1_000).unwrap_or(i64::MAX)
    }

    /// All that can be seen of its keys now.
    #[must_use]
    pub fn told(&self) -> Reply {
        self.keys.told(self.now_ms())
    }

    /// Whether the user may call this.
    pub(crate) fn may_call(&self, command: &Command) -> bool {
        !self.denied.contains(command.name)
    }

    /// Does what a client asks.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Reply {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_ref().to_vec()).collect();
        self.answer(&words).unwrap_or_else(Reply::Refused)
    }

    fn answer(&mut self, words: &[Vec<u8>]) -> Answer {
        let (name, args) = words.split_first().ok_or("ERR no command")?;
        let Some(command) = find(name) else { return Err(format!("ERR unknown command '{}'", said(name))) };
        if !(command.words_min..=command.words_max).contains(&args.len()) {
            return Err(format!("ERR wrong number of arguments for '{}' command", command.name));
        }
        if !self.may_call(command) {
            return Err(format!("NOPERM this user has no permissions to run the '{}' command", command.name));
        }
        match self.refusal {
            Some(refusal) if command.grows || command.writes && refusal != Refusal::Memory => {
                Err(refusal.said().to_owned())
            }
            _ => self.run(command, args),
        }
    }

    /// Does it.
    pub(crate) fn run(&mut self, command: &Command, args: &[Vec<u8>]) -> Answer {
        self.replaced.get(command.name).unwrap_or(&command.run)(self, args)
    }
}

impl Refusal {
    /// What is said of a write, and of the call of a function that writes.
    pub(crate) const fn said(self) -> &'static str {
        match self {
            Self::Memory => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::Replica => "READONLY You can't write against a read only replica.",
            Self::Disk => "MISCONF Errors writing to the AOF file, or no snapshot on disk.",
            Self::NoReplicas => "NOREPLICAS Not enough good replicas to write.",
        }
    }
}
