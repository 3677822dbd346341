//! Tells the service manager the state of the service, in systemd's way: a datagram to the socket that
//! `NOTIFY_SOCKET` names. Without that variable, it sends nothing.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::json::escaped;
use crate::readiness::Readiness;

/// The service answers.
pub(super) const READY: &str = "READY=1";
/// The loops turn.
pub(super) const WATCHDOG: &str = "WATCHDOG=1";
/// The service is going away.
pub(super) const STOPPING: &str = "STOPPING=1";

pub(super) fn tell(state: &str) {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        log::warn!("the service manager could not be told {state}: {}", io::Error::from(error.kind()));
    }
}

/// The service manager, and the trouble that it was told last.
#[derive(Default)]
pub(super) struct Manager(Option<String>);

impl Manager {
    /// Tells the manager of a trouble or of its end, unless it knows already.
    pub(super) fn tell(&mut self, readiness: &Readiness) {
        let trouble = readiness.gravest();
        let status = trouble.map(|(trouble, message)| {
            // A path in the message may contain a line end, which would begin another assignment.
            format!("STATUS=not well ({}): {}", trouble.word(), escaped(&message))
        });
        if status != self.0 {
            tell(status.as_deref().unwrap_or("STATUS=well again"));
            self.0 = status;
        }
    }
}
