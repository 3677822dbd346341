//! Listening sockets. Every worker has its own, and a second instance of the service on the same
//! address is refused, not joined. Files of Unix sockets are in [`super::unix_file`], sockets that
//! another process has bound in [`super::adopt`].

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::{
    set_ipv6_v6only, set_socket_oobinline, set_socket_reuseaddr, set_socket_reuseport, set_tcp_nodelay,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, getsockname, listen, socket_with};

use super::address::ListenAddress;
use super::unix_file::{self, SocketFile};
use crate::limits::LISTEN_BACKLOG;

/// An address with its listeners.
#[derive(Debug)]
pub struct Bound {
    /// The address, with the port that was chosen.
    pub address: ListenAddress,
    /// A network address has one socket per worker, with `SO_REUSEPORT`: the kernel gives each worker its share. A
    /// socket file has a single socket: the kernel wakes all workers, and the first takes the newcomer. That costs
    /// little if a few proxies keep connections.
    pub listeners: Vec<OwnedFd>,
    /// The socket file, to be removed once nothing listens there any more.
    pub file: Option<SocketFile>,
}

/// The families that the IPv6 address for all (`[::]`) takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 too.
    Both,
    /// IPv6 alone: another listener has the port for IPv4.
    Ipv6Only,
}

impl Families {
    /// The families that `address` takes beside `others`.
    #[must_use]
    pub fn beside(address: &ListenAddress, others: &[ListenAddress]) -> Self {
        let has_port = |other: &ListenAddress| match (address, other) {
            (ListenAddress::Tcp(address), ListenAddress::Tcp(other)) => {
                other.is_ipv4() && other.port() == address.port() && other.port() != 0
            }
            _ => false,
        };
        if others.iter().any(has_port) { Self::Ipv6Only } else { Self::Both }
    }
}

/// Checks, without listening, whether this machine could listen there: the address is one of its own, or the folder of
/// the socket file is there.
///
/// # Errors
/// The reason why not.
pub fn look(address: &ListenAddress) -> io::Result<()> {
    match address {
        ListenAddress::Tcp(address) => {
            let mut any_port = *address;
            any_port.set_port(0);
            // No client can connect to such a socket, and it takes no port that a listener may want.
            UdpSocket::bind(any_port).map(drop)
        }
        ListenAddress::Unix(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let why = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
            let is_folder = fs::metadata(folder).map_err(why)?.is_dir();
            if is_folder { Ok(()) } else { Err(why(ErrorKind::NotADirectory.into())) }
        }
    }
}

/// Binds `count` listeners to one address of the network; for port 0, the system chooses one port for all of them. A
/// socket file gets one listener, and `mode` as its permissions.
///
/// # Errors
/// The system's error: [`io::ErrorKind::AddrInUse`] if another socket listens there already.
pub fn bind(address: &ListenAddress, families: Families, count: usize, mode: u32) -> io::Result<Bound> {
    match address {
        ListenAddress::Tcp(address) => bind_tcp(*address, families, count),
        ListenAddress::Unix(path) => bind_unix(path, mode),
    }
}

fn bind_tcp(address: SocketAddr, families: Families, count: usize) -> io::Result<Bound> {
    // With SO_REUSEPORT alone, a second instance would silently take half of the connections.
    // A socket without it is refused while any other listens.
    let probe = tcp_socket(address, families)?;
    rustix::net::bind(&probe, &address)?;
    let address = if address.port() == 0 { getsockname(&probe)?.try_into()? } else { address };
    drop(probe);
    let listeners = (0..count.max(1)).map(|_| bind_one(address, families)).collect::<io::Result<_>>()?;
    Ok(Bound { address: ListenAddress::Tcp(address), listeners, file: None })
}

fn bind_one(address: SocketAddr, families: Families) -> io::Result<OwnedFd> {
    let socket = tcp_socket(address, families)?;
    set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    listen_tcp(&socket)?;
    Ok(socket)
}

pub(super) fn listen_tcp(socket: &OwnedFd) -> io::Result<()> {
    // Inherited by the connections: an answer is one write, there is nothing to wait for.
    set_tcp_nodelay(socket, true)?;
    // Inherited too: an urgent byte stays where it was sent. By default the kernel takes it out of the
    // input: an address could lose its last digit, and the client would get another address's answer.
    set_socket_oobinline(socket, true)?;
    listen_any(socket)
}

pub(super) fn listen_any(socket: &OwnedFd) -> io::Result<()> {
    listen(socket, LISTEN_BACKLOG)?;
    Ok(ioctl_fionbio(socket, true)?)
}

fn tcp_socket(address: SocketAddr, families: Families) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // Set each time: the default depends on a setting of the system.
        set_ipv6_v6only(&socket, families == Families::Ipv6Only)?;
    }
    Ok(socket)
}

fn bind_unix(path: &Path, mode: u32) -> io::Result<Bound> {
    let _alone = unix_file::lock_folder(path);
    unix_file::make_way(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // From here on, any failure removes the file again. No client can connect before the permissions
    // are right, as nothing listens yet.
    let file = SocketFile::made(path, mode)?;
    listen_any(&socket)?;
    Ok(Bound { address: ListenAddress::Unix(path.to_owned()), listeners: vec![socket], file: Some(file) })
}

#[cfg(test)]
mod tests {
    use super::{Families, ListenAddress, bind};
    use std::io::ErrorKind;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread::scope;

    /// One start has bound its socket and does not listen yet: no other start takes that socket for one left behind.
    #[test]
    fn of_many_starts_at_once_one_has_the_socket() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("socket");
        let address = ListenAddress::Unix(path.clone());
        for round in 0..100 {
            drop(UnixListener::bind(&path).expect("the last one has taken its file away"));
            let starts: Vec<_> = scope(|scope| {
                let start = || bind(&address, Families::Both, 1, 0o600);
                let starting: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
                starting.into_iter().map(|one| one.join().expect("no panic")).collect()
            });
            let (bound, refused): (Vec<_>, Vec<_>) = starts.into_iter().partition(Result::is_ok);
            assert_eq!((bound.len(), refused.len()), (1, 7), "round {round}: {refused:?}");
            for error in refused.into_iter().filter_map(Result::err) {
                assert_eq!(error.kind(), ErrorKind::AddrInUse, "round {round}");
            }
            UnixStream::connect(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}
