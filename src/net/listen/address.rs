//! An address to listen on, as text: an internet address with its port, or the path of a Unix
//! socket behind `unix:`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

const UNIX_PREFIX: &str = "unix:";

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// For the network.
    Tcp(SocketAddr),
    /// For this machine: a socket file. The path is not empty.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether a client could mean both with one address: the same file, or the same port of addresses that overlap.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(one), Self::Unix(other)) => one == other,
            (Self::Tcp(one), Self::Tcp(other)) => {
                // `[::]` takes IPv4 as well.
                let takes = |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
                let is_same_ip = one.ip() == other.ip() || takes(one.ip(), other.ip()) || takes(other.ip(), one.ip());
                one.port() != 0 && one.port() == other.port() && is_same_ip
            }
            _ => false,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(UNIX_PREFIX) {
            Some("") => Err("a path is wanted behind unix:"),
            Some(path) => Ok(Self::Unix(path.into())),
            None => match text.parse() {
                Ok(address) => Ok(Self::Tcp(address)),
                Err(_) => Err("an address with its port is wanted, such as 0.0.0.0:8080, or unix:PATH"),
            },
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ListenAddress;

    #[test]
    fn addresses_are_read_as_they_print_and_overlap_where_a_client_cannot_tell_them_apart() {
        for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/vote-status.sock", "unix:vote.sock", "unix:/a b:c"] {
            let address: ListenAddress = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(address.to_string(), text);
        }
        for (one, other, overlap) in [
            ("127.0.0.1:8080", "127.0.0.1:8080", true),
            ("127.0.0.1:8080", "127.0.0.1:8081", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("0.0.0.0:8080", "127.0.0.1:8080", true),
            ("[::]:8080", "127.0.0.1:8080", true),
            ("[::]:8080", "[::1]:8080", true),
            ("0.0.0.0:8080", "[::1]:8080", false),
            ("unix:/run/a", "unix:/run/a", true),
            ("unix:/run/a", "127.0.0.1:8080", false),
        ] {
            let [one, other] = [one, other].map(|text| text.parse::<ListenAddress>().expect("an address"));
            assert_eq!((one.overlaps(&other), other.overlaps(&one)), (overlap, overlap), "{one} {other}");
        }
        for wrong in ["", "unix:", "127.0.0.1", ":8080", "localhost:8080", "/run/vote-status.sock"] {
            assert!(wrong.parse::<ListenAddress>().is_err(), "{wrong}");
        }
    }
}
