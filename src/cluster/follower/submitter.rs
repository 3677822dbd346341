//! Takes commands to the shared store, which decides them, and what it decided to the recorder.
//! Knows nothing of the table: what was decided reaches it by the store's feed, like everything else.

use std::sync::mpsc::Receiver;

use super::{FeedDoor, FollowerMessage, Settled};
use crate::cluster::entry::EntryId;
use crate::recorder::command::{Command, Reply};
use crate::recorder::queue::Request;

/// Votes and changes that are decided together: commands are taken up to this, a command's own past it.
const GROUP_MAX: usize = 1_024;

/// What a shared store made of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The answer.
    pub reply: Reply,
    /// The newest entry of the log that came of it, if any did.
    pub entry: Option<EntryId>,
    /// How many did.
    pub entries: u64,
}

/// The thread between control and store.
pub struct Submitter {
    pub(super) requests: Receiver<Request>,
    pub(super) door: FeedDoor,
}

impl Submitter {
    /// Works until every handle is dropped, or the recorder is gone. `decide` says what became of each command, in
    /// their order: [`Reply::StoreUnavailable`] where nothing of one was kept, [`Reply::StoreSilent`] where that is
    /// not known.
    pub fn run(self, mut decide: impl FnMut(Vec<Command>) -> Vec<Decided>) {
        while let Ok(first) = self.requests.recv() {
            if self.settle(first, &mut decide).is_none() {
                return;
            }
        }
        // The recorder may have gone first: then it needs no telling.
        let _gone = self.door.tell(FollowerMessage::NoMoreRequests);
    }

    /// Has everything that waits decided together; `None` where the recorder is gone.
    fn settle(&self, first: Request, decide: impl FnOnce(Vec<Command>) -> Vec<Decided>) -> Option<()> {
        let mut commands = Vec::new();
        let mut asked = Vec::new();
        let mut size = 0;
        let mut next = Some(first);
        while let Some(Request { command, respond, .. }) = next {
            if command == Command::Digest {
                self.door.tell(FollowerMessage::Digest(respond)).ok()?;
            } else {
                let votes = if let Command::Votes(votes, _) = &command { votes.len() } else { 0 };
                size += votes.max(1);
                commands.push(command);
                asked.push((respond, votes as u64));
            }
            next = if size < GROUP_MAX { self.requests.try_recv().ok() } else { None };
        }
        if commands.is_empty() {
            return Some(());
        }
        let (start_us, history) = (self.door.clock.now().monotonic_us, self.door.status.history.get());
        let decided = if self.door.status.is_waking(self.door.clock.now().monotonic_ms) {
            let refused = || Decided { reply: Reply::StoreUnavailable, entry: None, entries: 0 };
            commands.iter().map(|_| refused()).collect()
        } else {
            decide(commands)
        };
        debug_assert_eq!(decided.len(), asked.len());
        let settled_us = self.door.clock.now().monotonic_us;
        let entries = decided.iter().map(|decided| decided.entries).sum();
        let settled = asked.into_iter().zip(decided).map(|((respond, votes), Decided { reply, entry, .. })| Settled {
            reply,
            history,
            votes,
            entry,
            settled_ms: settled_us / 1_000,
            respond,
        });
        let group = FollowerMessage::Settled { settled: settled.collect(), entries, took_us: settled_us - start_us };
        self.door.tell(group).ok()
    }
}
