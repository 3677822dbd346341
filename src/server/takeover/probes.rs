//! The control listener in a takeover. While the other process has the store, a worker without a recorder
//! stands in for the control worker: see [`Run::start_probes`].

use std::sync::mpsc::channel;
use std::time::Duration;

use crate::net::mailbox::{Handed, Letter};
use crate::recorder::RecorderHandle;
use crate::server::state::Run;
use crate::server::threads::Serving;
use crate::server::{Role, ServerError};

/// A worker takes a turn to give its things away, and a turn is short.
pub(super) const GIVING_PATIENCE: Duration = Duration::from_secs(5);

impl Run {
    /// Puts the control worker back in place of the probes': what has waited for a recorder gets one.
    pub(super) fn end_probes(&mut self, probes: Option<&Serving>, recorder: RecorderHandle) -> Result<(), ServerError> {
        let Handed { listeners, clients } = self.have_control_handed(probes);
        self.sockets.inherit(Role::Control, listeners)?;
        self.start_control(recorder, clients)
    }

    /// What a worker of the control listener gives away. It answers the rest and ends.
    pub(super) fn have_control_handed(&self, serving: Option<&Serving>) -> Handed {
        let handed = serving.and_then(|serving| {
            let (to, handed) = channel();
            (serving.tell)(Letter::HandOver { to, timeout_ms: self.control_drain_ms() });
            handed.recv_timeout(GIVING_PATIENCE).ok()
        });
        handed.unwrap_or_else(|| {
            log::error!("the control worker does not give its listeners away: whoever waits in them is lost");
            Handed::default()
        })
    }
}
