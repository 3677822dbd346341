//! Listening sockets that a service manager has opened and passes at the start: `LISTEN_FDS`,
//! `LISTEN_PID` and `LISTEN_FDNAMES`, as systemd does it. This module knows no roles of listeners.

use std::env;
use std::io;
use std::os::fd::OwnedFd;

use listenfd::ListenFd;

/// Takes the sockets that were passed to this process, each with its name, which may be empty. A second call gives
/// nothing. Call it while the process has one thread: it changes the environment.
///
/// # Errors
/// Where something was passed that is no stream socket.
pub fn take() -> io::Result<Vec<(String, OwnedFd)>> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut passed = ListenFd::from_env();
    let mut sockets = Vec::new();
    for index in 0..passed.len() {
        let name = names.next().unwrap_or_default().to_owned();
        let tcp = passed.take_tcp_listener(index).map(|socket| socket.map(OwnedFd::from));
        let socket = tcp.or_else(|_| passed.take_unix_listener(index).map(|socket| socket.map(OwnedFd::from)))?;
        sockets.extend(socket.map(|socket| (name, socket)));
    }
    Ok(sockets)
}
