//! The gate of the running process: the thread that hears a new process, and passes on what it says.

use std::fs;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::protocol::hear;
use crate::net::fd_channel::{FdChannel, Gate};
use crate::server::state::Run;
use crate::server::threads::{ServerEvent, ThreadKind};

/// While things are on their way nobody answers: whoever does not take them in this time gets nothing,
/// in milliseconds. A client in the field waits for 5 s.
pub(super) const TAKING_MS: u64 = 3_000;

/// Out of descriptors, nobody can call; there may be some again after this.
const GATE_PAUSE: Duration = Duration::from_millis(100);

impl Run {
    /// Lets new processes call, where that is wanted and possible.
    pub(in crate::server) fn open_gate(&mut self) {
        let Some(path) = &self.config.gate else { return };
        let gate = match Gate::open(path) {
            Ok(gate) => gate,
            Err(error) => {
                return log::warn!("no process will be able to take over: cannot open {}: {error}", path.display());
            }
        };
        let events = self.sender.clone();
        if ThreadKind::Gate.spawn(move || listen(&gate, &events)).is_ok() {
            self.gate = Some(path.clone());
        }
    }

    /// Takes the socket file away. Where it is left behind nobody answers there, which a caller takes for
    /// nobody running.
    pub(in crate::server) fn close_gate(&mut self) {
        if let Some(path) = self.gate.take() {
            let _gone = fs::remove_file(path);
        }
    }
}

/// Hears one caller after the other, for as long as the process runs.
fn listen(gate: &Gate, events: &Sender<ServerEvent>) -> ! {
    let mut is_told = false;
    loop {
        match accept(gate) {
            Ok((channel, answering)) => {
                is_told = false;
                // The main thread outlives this one.
                let _received = events.send(ServerEvent::Called(answering));
                while let Ok(Some(said)) = hear(&channel) {
                    let _received = events.send(ServerEvent::Said(said.message));
                }
                let _received = events.send(ServerEvent::HungUp);
            }
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    log::warn!("a process that wants to take over cannot be answered: {error}; it is tried again");
                }
                thread::sleep(GATE_PAUSE);
            }
        }
    }
}

/// The next caller, twice: to hear, and to answer.
fn accept(gate: &Gate) -> std::io::Result<(FdChannel, FdChannel)> {
    let channel = gate.accept()?;
    channel.set_sending_patience(Duration::from_millis(TAKING_MS))?;
    Ok((channel.try_clone()?, channel))
}
