//! Where the shared store is: its address as typed, checked. Knows no connection.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

const PORT_DEFAULT: u16 = 6379;
const SENTINEL_PORT_DEFAULT: u16 = 26379;

/// Host and port of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// A name or an address.
    pub name: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(formatter, "[{}]:{}", self.name, self.port)
        } else {
            write!(formatter, "{}:{}", self.name, self.port)
        }
    }
}

/// Who says where the primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The address itself.
    Direct(Host),
    /// Sentinels, who know it under this name.
    Sentinel {
        /// Asked one after the other; never empty.
        sentinels: Vec<Host>,
        /// What they call it.
        primary: String,
    },
}

/// The address of a shared store. Shows no password, whoever prints it.
#[derive(Clone)]
pub struct StoreAddress {
    /// Who says where it is.
    pub target: Target,
    /// The sentinels' own password, if they want one.
    pub sentinel_password: Option<String>,
    /// User, password and database, under an address that stands for nothing.
    credentials: ConnectionInfo,
}

/// Why a text is no address of a store. Says nothing of what was typed: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAddress(&'static str);

impl fmt::Display for NoAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for NoAddress {}

const WANTED: NoAddress = NoAddress(
    "redis://[user[:password]@]host[:6379][/db] or redis+sentinel://[user[:password]@]host[:26379],…/master-name[/db] is wanted",
);

impl StoreAddress {
    /// Reads an address; `password` counts where the address holds none.
    ///
    /// # Errors
    /// Where it is none, or needs what is not built in.
    pub fn parse(text: &str, password: Option<&str>) -> Result<Self, NoAddress> {
        let (scheme, rest) = text.split_once("://").ok_or(WANTED)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let (target, db) = match scheme {
            "redis" | "valkey" => (Target::Direct(host(hosts, PORT_DEFAULT)?), path),
            "redis+sentinel" | "valkey+sentinel" => {
                let (primary, db) = path.split_once('/').unwrap_or((path, ""));
                let sentinels = hosts.split(',').map(|text| host(text, SENTINEL_PORT_DEFAULT));
                let sentinels = sentinels.collect::<Result<Vec<_>, _>>()?;
                if primary.is_empty() {
                    return Err(NoAddress("the sentinels' name of the primary is missing: …/master-name"));
                }
                (Target::Sentinel { sentinels, primary: primary.to_owned() }, db)
            }
            "rediss" | "valkeys" => {
                return Err(NoAddress("TLS to the store is not built in: use a private network, or stunnel beside it"));
            }
            _ => return Err(WANTED),
        };
        let credentials = format!("redis://{user}store.invalid/{db}").into_connection_info();
        let mut credentials = credentials.map_err(|_| WANTED)?;
        let settings = credentials.redis_settings().clone();
        if let Some(password) = password.filter(|_| settings.password().is_none()) {
            credentials = credentials.set_redis_settings(settings.set_password(password));
        }
        Ok(Self { target, sentinel_password: None, credentials })
    }

    /// What a connection to this machine of the store needs.
    #[must_use]
    pub fn connection(&self, host: &Host) -> ConnectionInfo {
        at(&self.credentials, host)
    }

    /// What a connection to this sentinel needs.
    ///
    /// # Errors
    /// Where the library knows no such address.
    pub fn sentinel_connection(&self, host: &Host) -> Result<ConnectionInfo, NoAddress> {
        let info = "redis://store.invalid/".into_connection_info().map_err(|_| WANTED)?;
        let settings = info.redis_settings().clone();
        let info = match &self.sentinel_password {
            Some(password) => info.set_redis_settings(settings.set_password(password)),
            None => info,
        };
        Ok(at(&info, host))
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Direct(host) => write!(formatter, "redis://{host}"),
            Target::Sentinel { sentinels, primary } => {
                let sentinels: Vec<String> = sentinels.iter().map(Host::to_string).collect();
                write!(formatter, "redis+sentinel://{}/{primary}", sentinels.join(","))
            }
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

fn at(info: &ConnectionInfo, host: &Host) -> ConnectionInfo {
    let info = info.clone().set_addr(ConnectionAddr::Tcp(host.name.clone(), host.port));
    // A question is one small packet, and nobody may wait for a second one.
    let settings = info.tcp_settings().clone().set_nodelay(true);
    info.set_tcp_settings(settings)
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host(text: &str, port_default: u16) -> Result<Host, NoAddress> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, port)) => (name, Some(port.strip_prefix(':').ok_or(WANTED)?)),
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    let port = port.map_or(Ok(port_default), str::parse).map_err(|_| NoAddress("the port is no number up to 65535"))?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(WANTED);
    }
    Ok(Host { name: name.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::{Host, StoreAddress, Target};

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port }
    }

    #[test]
    fn direct_addresses() {
        for (text, expected, db) in [
            ("redis://127.0.0.1", host("127.0.0.1", 6379), 0),
            ("redis://redis.example:7000/3", host("redis.example", 7000), 3),
            ("valkey://[::1]:6380/", host("::1", 6380), 0),
            ("redis://[::1]", host("::1", 6379), 0),
        ] {
            let address = StoreAddress::parse(text, None).expect(text);
            assert_eq!(address.target, Target::Direct(expected.clone()), "{text}");
            let info = address.connection(&expected);
            assert_eq!(info.redis_settings().db(), db, "{text}");
            assert_eq!(info.redis_settings().password(), None, "{text}");
        }
    }

    #[test]
    fn sentinel_addresses() {
        let text = "redis+sentinel://app:p%40ss@a,b:26380,[::1]:1/vote-status/2";
        let address = StoreAddress::parse(text, None).expect(text);
        let sentinels = vec![host("a", 26379), host("b", 26380), host("::1", 1)];
        assert_eq!(address.target, Target::Sentinel { sentinels, primary: "vote-status".to_owned() });
        let info = address.connection(&host("10.0.0.1", 6379));
        assert_eq!(info.redis_settings().username(), Some("app"));
        assert_eq!(info.redis_settings().password(), Some("p@ss"));
        assert_eq!(info.redis_settings().db(), 2);
        assert_eq!(address.to_string(), "redis+sentinel://a:26379,b:26380,[::1]:1/vote-status");
    }

    #[test]
    fn a_password_is_taken_and_never_shown() {
        let address = StoreAddress::parse("redis://:typed@h", Some("elsewhere")).expect("an address");
        let info = address.connection(&host("h", 1));
        assert_eq!(info.redis_settings().password(), Some("typed"));
        assert_eq!(format!("{address} {address:?}"), "redis://h:6379 redis://h:6379");
        let address = StoreAddress::parse("redis://app@h", Some("elsewhere")).expect("an address");
        assert_eq!(address.connection(&host("h", 1)).redis_settings().password(), Some("elsewhere"));
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_it() {
        for bad in [
            "",
            "redis://",
            "redis://:secret@",
            "redis://h:x",
            "redis://h:70000",
            "redis://h/x",
            "rediss://:secret@h",
            "http://secret",
            "redis+sentinel://:secret@a,b",
            "redis+sentinel://a,,b/m",
            "redis://a b",
            "secret",
        ] {
            let error = StoreAddress::parse(bad, None).expect_err(bad).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
