//! A run of the service from its start to its end.

use super::backend::StoreChoice;
use super::sockets::Sockets;
use super::start::LoadProgress;
use super::state::Run;
use super::threads::{Events, ServerEvent, ThreadKind};
use super::{Config, Ended, Role, ServerError, banner};
use crate::net::listen::address::ListenAddress;

/// Runs the service until it is told to stop. Calls `announce` once for each listener: when the state is
/// loaded, or as soon as an obstacle to the load comes up.
///
/// # Errors
/// The reason why it could not start or go on.
pub fn run(
    mut config: Config,
    store: StoreChoice,
    events: Events,
    mut announce: impl FnMut(&ListenAddress, Role),
) -> Result<Ended, ServerError> {
    let sockets = Sockets::open(&mut config)?;
    let (mut run, write_side) = Run::new(config, sockets, store, events)?;
    let early = run.start(write_side)?;
    let mut announced = false;
    let announce_once = |run: &Run| {
        if !std::mem::replace(&mut announced, true) {
            run.sockets.addresses().for_each(|(address, role)| announce(address, role));
        }
    };
    if run.finish_load(early, announce_once)? == LoadProgress::Stopped {
        // All requests are answered; the recorder has taken nothing that could be lost.
        return run.stop_listeners();
    }
    banner::say_ready(&mut run);
    run.serve()
}

impl Run {
    /// Serves until an event ends the run, and ends it.
    fn serve(mut self) -> Result<Ended, ServerError> {
        loop {
            self.config.readiness.look(self.clock.now().monotonic_ms);
            self.tell_manager();
            match self.next_event(self.at_ms(self.watchdog.pause_ms()))? {
                Some(ServerEvent::Stop) => return self.stop(),
                Some(ServerEvent::Ended(kind)) => return Err(ServerError::Thread(kind)),
                Some(ServerEvent::Loaded(_)) => return Err(ServerError::Thread(ThreadKind::Recorder)),
                None => {}
            }
        }
    }
}
