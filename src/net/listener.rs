//! Listening sockets: bound so that every worker has its own, and so that a second instance of
//! the service on the same address is refused, not joined.

use std::io;
use std::net::SocketAddr;

use mio::net::TcpListener;
use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::LISTEN_BACKLOG;

/// Binds `count` sockets to one address; port 0 is chosen once, for all of them.
///
/// # Errors
/// What the system says, [`io::ErrorKind::AddrInUse`] where anything listens there already.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    // With SO_REUSEPORT alone, a second instance would silently take half of the connections.
    // A socket without it is refused while any other listens.
    let probe = socket(address)?;
    probe.bind(&address.into())?;
    let address = if address.port() == 0 { local_address(&probe)? } else { address };
    drop(probe);
    (0..count.max(1)).map(|_| listen(address)).collect()
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    // Inherited by the connections: an answer is one write, there is nothing to wait for.
    socket.set_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    let unknown = || io::Error::other("the bound socket has no internet address");
    socket.local_addr()?.as_socket().ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::bind;
    use std::io::ErrorKind;

    #[test]
    fn an_address_in_use_is_refused_even_to_ourselves() {
        let first = bind("127.0.0.1:0".parse().expect("an address"), 2).expect("a free port");
        let address = first[0].local_addr().expect("bound");
        assert_eq!(first[1].local_addr().expect("bound"), address);
        assert_eq!(bind(address, 1).expect_err("in use").kind(), ErrorKind::AddrInUse);
        drop(first);
        bind(address, 1).expect("free again");
    }
}
