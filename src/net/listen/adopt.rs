//! Listening sockets that another process has opened, of either kind.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::net::sockopt::socket_type;
use rustix::net::{SocketAddrUnix, SocketType, getsockname};

use super::address::ListenAddress;
use super::listener::{listen_any, listen_tcp};

/// Has a socket of another process listen; gives its address.
///
/// # Errors
/// Where it is no stream socket with an address, or cannot listen.
pub fn listener(socket: &OwnedFd) -> io::Result<ListenAddress> {
    if socket_type(socket)? != SocketType::STREAM {
        return Err(io::Error::other("it is no stream socket"));
    }
    let address = getsockname(socket)?;
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        listen_tcp(socket)?;
        return Ok(ListenAddress::Tcp(address));
    }
    let address = SocketAddrUnix::try_from(address)?;
    let path = address.path_bytes().ok_or_else(|| io::Error::other("it has no address"))?;
    listen_any(socket)?;
    Ok(ListenAddress::Unix(OsStr::from_bytes(path).into()))
}

/// The listeners of one address for `count` workers: each has one at least. Those that are shared
/// are one queue of the kernel, from which each worker takes what it can.
///
/// # Errors
/// Where the system gives no descriptor.
pub fn share(listeners: Vec<OwnedFd>, count: usize) -> io::Result<Vec<Vec<OwnedFd>>> {
    let mut shares: Vec<Vec<OwnedFd>> = (0..count).map(|_| Vec::new()).collect();
    let missing = listeners.iter().cycle().take(count).skip(listeners.len()).map(OwnedFd::try_clone);
    let missing: Vec<OwnedFd> = missing.collect::<io::Result<_>>()?;
    for (index, listener) in listeners.into_iter().chain(missing).enumerate() {
        shares[index % count].push(listener);
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::{listener, share};
    use crate::net::listen::address::ListenAddress;
    use crate::net::listen::listener::{Bound, Families, bind};

    #[test]
    fn every_worker_has_a_listener_and_every_listener_a_worker() {
        let any = "127.0.0.1:0".parse().expect("an address");
        for (count, workers, shares) in [(1, 3, [1, 1, 1].as_slice()), (2, 2, &[1, 1]), (3, 2, &[2, 1])] {
            let Bound { listeners, .. } = bind(&any, Families::Both, count, 0).expect("a free port");
            let shared = share(listeners, workers).expect("descriptors");
            assert_eq!(shared.iter().map(Vec::len).collect::<Vec<_>>(), shares, "{count} listeners");
        }
    }

    #[test]
    fn only_what_can_listen_is_inherited() {
        listener(&File::open("/dev/null").expect("it is there").into()).expect_err("no socket");
        let (unix, _other) = UnixStream::pair().expect("a pair");
        listener(&unix.into()).expect_err("a client");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let datagram = UnixDatagram::bind(folder.path().join("datagram")).expect("bound");
        listener(&datagram.into()).expect_err("no stream");
        let path = folder.path().join("stream");
        let address = listener(&UnixListener::bind(&path).expect("bound").into()).expect("a listener");
        assert_eq!(address, ListenAddress::Unix(path));
    }
}
