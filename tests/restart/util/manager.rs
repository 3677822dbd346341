//! A service manager that holds the listening sockets, and the service under it.

use crate::util::needs::has;
use crate::util::server::Server;
use crate::util::wait_until;
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

/// The manager. Dropping it ends the service too.
pub(crate) struct Manager {
    pub(crate) server: Server,
}

impl Manager {
    /// Starts the service under a manager, with server 1. Where Python is not installed, prints that and gives `None`.
    pub(crate) fn start(data: &Path, sockets: &[&str], args: &[&str]) -> Option<Manager> {
        if !has(&["python3"]) {
            return None;
        }
        let mut command = Command::new("python3");
        command.env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/restart/util/manager.py")).args(sockets);
        command.args([env!("CARGO_BIN_EXE_vote-status"), "serve", "--data-dir"]).arg(data.join("data")).args(args);
        let server = Server::spawn(command);
        server.control_client().add_server(1, "t");
        Some(Manager { server })
    }

    /// How many processes have loaded their state so far. Each prints a start line for each of its two listeners.
    pub(crate) fn processes(&self) -> usize {
        self.server.stdout().lines().count() / 2
    }

    /// Tells the manager to restart the service.
    pub(crate) fn signal(&self) {
        self.server.signal(Signal::HUP);
    }

    pub(crate) fn await_process(&self, count: usize) {
        wait_until("the next process", || self.processes() >= count);
    }

    /// Restarts the service, and waits until the next process answers.
    pub(crate) fn restart(&self) {
        let before = self.processes();
        self.signal();
        self.await_process(before + 1);
    }
}
