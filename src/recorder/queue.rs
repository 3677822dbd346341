//! The queue of commands for the recorder, bounded in lines. A small command counts as [`COMMAND_LINES_MIN`] lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::command::{Command, Reply};
use crate::limits::{COMMAND_LINES_MIN, RECORDER_LINES_MAX};

/// Called with the answer, on the recorder's thread.
pub type Respond = Box<dyn FnOnce(Reply) + Send>;

/// A command that waits.
pub struct Request {
    /// The command.
    pub command: Command,
    /// Called with the answer.
    pub respond: Respond,
}

/// The lines of a command that has no answer yet. The queue does not count commands, as one may hold a single vote or
/// thousands. A command waits on after its client has disconnected.
struct QueuedLines {
    lines: usize,
    waiting: Arc<AtomicUsize>,
}

impl Drop for QueuedLines {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.lines, Ordering::Relaxed);
    }
}

/// Puts commands into the queue. Cheap to clone; the recorder ends when the last handle is dropped.
#[derive(Clone)]
pub struct RecorderHandle {
    requests: Sender<Request>,
    /// Lines of all commands that wait.
    waiting: Arc<AtomicUsize>,
}

/// The queue is full, or the recorder has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

impl RecorderHandle {
    /// Makes a queue: the handle that takes commands, and the receiver that gives them out.
    #[must_use]
    pub fn new() -> (Self, Receiver<Request>) {
        let (sender, requests) = channel();
        (Self { requests: sender, waiting: Arc::default() }, requests)
    }

    /// Puts `command` into the queue; never waits.
    ///
    /// # Errors
    /// [`Overloaded`]: the command was not taken and `respond` will not be called.
    pub fn submit(&self, command: Command, respond: Respond) -> Result<(), Overloaded> {
        let lines = command.lines().max(COMMAND_LINES_MIN);
        let queued = QueuedLines { lines, waiting: Arc::clone(&self.waiting) };
        // Where the command is refused, dropping `queued` gives its lines back.
        if self.waiting.fetch_add(lines, Ordering::Relaxed) + lines > RECORDER_LINES_MAX {
            return Err(Overloaded);
        }
        // A command that lists a server again waits for its answer outside of the queue, and counts until then.
        let respond = Box::new(move |reply| {
            respond(reply);
            drop(queued);
        });
        self.requests.send(Request { command, respond }).map_err(|_ended| Overloaded)
    }
}

#[cfg(test)]
mod tests {
    use super::{Overloaded, RecorderHandle, Request};
    use crate::limits::{COMMIT_EVENTS_MAX, RECORDER_LINES_MAX};
    use crate::recorder::command::{Command, Mode, Reply, ServerName, Vote};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use std::sync::mpsc::Receiver;

    fn submit(handle: &RecorderHandle) -> Result<(), Overloaded> {
        handle.submit(Command::Remove(ServerId(1)), Box::new(drop))
    }

    /// A queue that takes no further command.
    fn full() -> (RecorderHandle, Receiver<Request>) {
        let (handle, requests) = RecorderHandle::new();
        for _ in 0..65_536 {
            assert_eq!(submit(&handle), Ok(()));
        }
        assert_eq!(submit(&handle), Err(Overloaded));
        (handle, requests)
    }

    /// Commands without votes take room too.
    #[test]
    fn so_many_commands_wait_and_no_more() {
        let (handle, requests) = full();
        let submit = || submit(&handle);
        drop(requests.recv());
        assert_eq!((submit(), submit()), (Ok(()), Err(Overloaded)));
        drop(requests);
        assert_eq!(submit(), Err(Overloaded));
    }

    /// Regression: a command that had left the queue did not count. Listings that waited for votes to be taken away could
    /// be any number.
    #[test]
    fn a_command_counts_until_it_is_answered() {
        let (handle, requests) = full();
        let taken = requests.recv().expect("it was sent");
        assert_eq!(submit(&handle), Err(Overloaded));
        (taken.respond)(Reply::StoreUnavailable);
        assert_eq!(submit(&handle), Ok(()));
    }

    /// Regression: commands were counted, not their lines. Clients that sent batches and disconnected left
    /// 65,536 of them behind, each with thousands of lines, where the store was slow.
    #[test]
    fn so_many_lines_wait_and_no_more() {
        let (handle, requests) = RecorderHandle::new();
        let vote =
            Vote { server: ServerName::Id(ServerId(1)), voter: VoterAddress::V4(Ipv4(1)).into(), voted_at: None };
        let submit = || {
            let votes = vec![vote.clone(); COMMIT_EVENTS_MAX];
            handle.submit(Command::Votes(votes, Mode::Record), Box::new(drop))
        };
        for _ in 0..RECORDER_LINES_MAX / COMMIT_EVENTS_MAX {
            assert_eq!(submit(), Ok(()));
        }
        assert_eq!(submit(), Err(Overloaded));
        drop(requests.recv());
        assert_eq!(submit(), Ok(()));
        assert_eq!(submit(), Err(Overloaded));
    }
}
