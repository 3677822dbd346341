//! Where to listen, as it is written: an internet address with its port, or the path of a Unix
//! socket behind `unix:`.

use std::fmt;
use std::net::SocketAddr;
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
    fn addresses_are_read_as_they_print() {
        for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/vote-status.sock", "unix:vote.sock", "unix:/a b:c"] {
            let address: ListenAddress = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(address.to_string(), text);
        }
        for wrong in ["", "unix:", "127.0.0.1", ":8080", "localhost:8080", "/run/vote-status.sock"] {
            assert!(wrong.parse::<ListenAddress>().is_err(), "{wrong}");
        }
    }
}
