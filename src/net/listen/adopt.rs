//! Listening sockets that another process has opened, of either kind.

use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener as StdUnixListener;

use mio::net::{TcpListener, UnixListener};
use rustix::net::sockopt::socket_type;
use rustix::net::{SocketAddrUnix, SocketType, getsockname};

use super::address::ListenAddress;
use super::listener::{Listener, listen_tcp, listen_unix};

/// A listener of another process, and its address.
///
/// # Errors
/// Where it is no stream socket with an address, or cannot listen.
pub fn listener(socket: OwnedFd) -> io::Result<(ListenAddress, Listener)> {
    if socket_type(&socket)? != SocketType::STREAM {
        return Err(io::Error::other("it is no stream socket"));
    }
    let address = getsockname(&socket)?;
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        return Ok((ListenAddress::Tcp(address), listen_tcp(socket)?));
    }
    let address = SocketAddrUnix::try_from(address)?;
    let path = address.path_bytes().ok_or_else(|| io::Error::other("it has no address"))?;
    let path = OsStr::from_bytes(path).into();
    Ok((ListenAddress::Unix(path), Listener::Unix(UnixListener::from_std(listen_unix(socket)?))))
}

/// The listeners of one address for `count` workers: each has one at least. Those that are shared
/// are one queue of the kernel, from which each worker takes what it can.
///
/// # Errors
/// Where the system gives no descriptor.
pub fn share(listeners: Vec<Listener>, count: usize) -> io::Result<Vec<Vec<Listener>>> {
    let mut shares: Vec<Vec<Listener>> = (0..count).map(|_| Vec::new()).collect();
    let missing = listeners.iter().cycle().take(count).skip(listeners.len()).map(another);
    let missing: Vec<Listener> = missing.collect::<io::Result<_>>()?;
    for (index, listener) in listeners.into_iter().chain(missing).enumerate() {
        shares[index % count].push(listener);
    }
    Ok(shares)
}

fn another(listener: &Listener) -> io::Result<Listener> {
    Ok(match listener {
        Listener::Tcp(listener) => {
            Listener::Tcp(TcpListener::from_std(StdTcpListener::from(rustix::io::dup(listener)?)))
        }
        Listener::Unix(listener) => {
            Listener::Unix(UnixListener::from_std(StdUnixListener::from(rustix::io::dup(listener)?)))
        }
    })
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
        listener(File::open("/dev/null").expect("it is there").into()).expect_err("no socket");
        let (unix, _other) = UnixStream::pair().expect("a pair");
        listener(unix.into()).expect_err("a client");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let datagram = UnixDatagram::bind(folder.path().join("datagram")).expect("bound");
        listener(datagram.into()).expect_err("no stream");
        let path = folder.path().join("stream");
        let (address, _) = listener(UnixListener::bind(&path).expect("bound").into()).expect("a listener");
        assert_eq!(address, ListenAddress::Unix(path));
    }
}
