//! Listening sockets that another process has opened, of either kind.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::net::{SocketAddrUnix, getsockname};

use super::address::ListenAddress;
use super::listener::{Bound, listen_any, listen_tcp};

/// Makes a socket of another process listen.
///
/// # Errors
/// Where it has no address, or cannot listen.
pub fn listener(socket: OwnedFd) -> io::Result<Bound> {
    let address = getsockname(&socket)?;
    let address = if let Ok(address) = SocketAddr::try_from(address.clone()) {
        listen_tcp(&socket)?;
        ListenAddress::Tcp(address)
    } else {
        let address = SocketAddrUnix::try_from(address)?;
        let path = address.path_bytes().ok_or_else(|| io::Error::other("it has no address"))?;
        listen_any(&socket)?;
        ListenAddress::Unix(OsStr::from_bytes(path).into())
    };
    Ok(Bound { address, listeners: vec![socket], file: None })
}

/// Duplicates the `listeners` of one address until there are `count`, one for each worker. A shared socket is one queue
/// of the kernel, from which all workers take newcomers.
///
/// # Errors
/// Where the system gives no descriptor.
pub fn share(mut listeners: Vec<OwnedFd>, count: usize) -> io::Result<Vec<OwnedFd>> {
    for index in 0..count.saturating_sub(listeners.len()) {
        listeners.push(listeners[index].try_clone()?);
    }
    Ok(listeners)
}
