//! One store: its keys, its instant, its report of itself, and its refusals before any work.

use std::collections::{BTreeMap, BTreeSet};

use crate::commands::{Command, Run, find};
use crate::keyspace::Keyspace;
use crate::reply::{Answer, Reply, said};

/// Why a store takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The store has no more memory.
    Memory,
    /// The store is a replica.
    Replica,
    /// The store cannot write its file.
    Disk,
    /// Too few replicas follow the store.
    NoReplicas,
}

/// A store's report of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The id of the process: a restart changes it.
    pub run_id: String,
    /// The id of the history: another one means another history.
    pub replid: String,
    /// The id of the history before the promotion.
    pub replid_before: String,
    /// The eviction policy.
    pub policy: String,
    /// The number of evicted keys.
    pub evicted: u64,
    /// The number of replicas that confirm each write.
    pub replicas: usize,
    /// Whether the store is a primary.
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

/// A store. A clone stands for an older copy of its files, or for a replica that lags.
#[derive(Clone, Debug)]
pub struct Store {
    /// The keys.
    pub keys: Keyspace,
    /// The store's clock, in microseconds. The owner of the model moves it.
    pub now_us: u64,
    /// Why the store takes no writes, if it takes none.
    pub refusal: Option<Refusal>,
    /// Commands that the user of the nodes may not call, in lower case.
    pub denied: BTreeSet<String>,
    /// The most entries in a block of a log, as `stream-node-max-entries`. A real store bounds a block's bytes, too.
    pub block_max: usize,
    /// The store's report of itself.
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

    /// The store's clock in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.now_us / 1_000).unwrap_or(i64::MAX)
    }

    /// All that commands see of the keys now.
    #[must_use]
    pub fn told(&self) -> Reply {
        self.keys.told(self.now_ms())
    }

    /// Whether the nodes' user may call this command.
    pub(crate) fn may_call(&self, command: &Command) -> bool {
        !self.denied.contains(command.name)
    }

    /// Carries out a client's command.
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

    /// Runs a command, or the one that a test has put in its place.
    pub(crate) fn run(&mut self, command: &Command, args: &[Vec<u8>]) -> Answer {
        self.replaced.get(command.name).unwrap_or(&command.run)(self, args)
    }
}

impl Refusal {
    /// The error for a write, and for the call of a function that writes.
    pub(crate) const fn said(self) -> &'static str {
        match self {
            Self::Memory => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::Replica => "READONLY You can't write against a read only replica.",
            Self::Disk => "MISCONF Errors writing to the AOF file, or no snapshot on disk.",
            Self::NoReplicas => "NOREPLICAS Not enough good replicas to write.",
        }
    }
}
