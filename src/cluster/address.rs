//! The address of the shared store, parsed and checked. This module opens no connection.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use super::access::{Secret, Security, StoreAccess};

const PORT_DEFAULT: u16 = 6379;
const SENTINEL_PORT_DEFAULT: u16 = 26379;

/// Host and port of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// A name or an address.
    pub name: String,
    /// The port.
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

/// Where the address of the primary comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreTarget {
    /// The primary's own address, or in cluster mode the addresses of some machines, each of which knows the machine that has the
    /// keys. Never empty.
    Direct(Vec<Host>),
    /// Sentinels, which know the primary by a name.
    Sentinel {
        /// The sentinels, asked one after the other; never empty.
        sentinels: Vec<Host>,
        /// The sentinels' name for the primary.
        primary: String,
    },
}

/// The address of a shared store. No form of printing shows its password.
#[derive(Clone)]
pub struct StoreAddress {
    /// Where the primary's address comes from.
    pub target: StoreTarget,
    /// The login to the store's machines.
    pub access: StoreAccess,
    /// The login to the sentinels.
    pub sentinel_access: StoreAccess,
    /// The machines that the store named last, in cluster mode.
    pub heard_of: Arc<Mutex<Vec<Host>>>,
}

/// The error for a text that is no store address. No such error repeats the text, which may hold a password.
const WANTED: &str = "redis://[user[:password]@]host[:6379][/db] or redis+sentinel://[user[:password]@]host[:26379],…/master-name[/db] is wanted, with rediss for TLS";

impl StoreAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// If the text is no address, or needs a feature that this build lacks.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or(WANTED)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let hosts = |port| hosts.split(',').map(|text| host(text, port)).collect::<Result<Vec<_>, _>>();
        let (target, database) = match scheme {
            "redis" | "valkey" | "rediss" | "valkeys" => (StoreTarget::Direct(hosts(PORT_DEFAULT)?), path),
            "redis+sentinel" | "valkey+sentinel" | "rediss+sentinel" | "valkeys+sentinel" => {
                let (primary, database) = path.split_once('/').unwrap_or((path, ""));
                let sentinels = hosts(SENTINEL_PORT_DEFAULT)?;
                if primary.is_empty() {
                    return Err("the sentinels' name of the primary is missing: …/master-name");
                }
                (StoreTarget::Sentinel { sentinels, primary: primary.to_owned() }, database)
            }
            _ => return Err(WANTED),
        };
        let is_secure = scheme.starts_with("rediss") || scheme.starts_with("valkeys");
        let access = access(user, database, security(is_secure)?)?;
        let sentinel_access = StoreAccess { security: security(is_secure)?, ..StoreAccess::default() };
        Ok(Self { target, access, sentinel_access, heard_of: Arc::default() })
    }

    /// Sets the certificates for connections to machines and sentinels.
    ///
    /// # Errors
    /// If the address is no TLS address.
    #[cfg(feature = "tls")]
    pub fn set_files(&mut self, files: &super::tls::TlsFiles) -> Result<(), &'static str> {
        if !self.access.security.is_tls() {
            return Err("certificates are for an address that begins with rediss://");
        }
        self.access.security = Security::Tls(files.clone());
        self.sentinel_access.security = Security::Tls(files.clone());
        Ok(())
    }
}

#[cfg(feature = "tls")]
fn security(is_secure: bool) -> Result<Security, &'static str> {
    Ok(if is_secure { Security::Tls(super::tls::TlsFiles::default()) } else { Security::Clear })
}

#[cfg(not(feature = "tls"))]
fn security(is_secure: bool) -> Result<Security, &'static str> {
    if is_secure { Err("TLS to the store needs a build with the cargo feature tls") } else { Ok(Security::Clear) }
}

/// Reads `user:password` and the number of the database, as they stand in an address.
fn access(user: &str, database: &str, security: Security) -> Result<StoreAccess, &'static str> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| WANTED);
    let (user, password) = user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
    let is_number = database.bytes().all(|digit| digit.is_ascii_digit());
    let database = if database.is_empty() { "0" } else { database };
    Ok(StoreAccess {
        user: Some(decoded(user)?).filter(|user| !user.is_empty()),
        password: password.map(decoded).transpose()?.map_or(Secret::None, Secret::Text),
        database: Some(database).filter(|_| is_number).and_then(|number| number.parse().ok()).ok_or(WANTED)?,
        security,
    })
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |hosts: &[Host]| hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",");
        let scheme = if self.access.security.is_tls() { "rediss" } else { "redis" };
        match &self.target {
            StoreTarget::Direct(hosts) => write!(formatter, "{scheme}://{}", join(hosts)),
            StoreTarget::Sentinel { sentinels, primary } => {
                write!(formatter, "{scheme}+sentinel://{}/{primary}", join(sentinels))
            }
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Reads `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host(text: &str, port_default: u16) -> Result<Host, &'static str> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, port)) => (name, Some(port.strip_prefix(':').ok_or(WANTED)?)),
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    let port = port.map_or(Ok(port_default), str::parse).map_err(|_| "the port is no number up to 65535")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(WANTED);
    }
    Ok(Host { name: name.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::{Host, Secret, StoreAddress, StoreTarget};

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port }
    }

    fn text(text: &str) -> Secret {
        Secret::Text(text.to_owned())
    }

    #[test]
    fn direct_addresses() {
        for (text, expected, database) in [
            ("redis://127.0.0.1", vec![host("127.0.0.1", 6379)], 0),
            ("redis://redis.example:7000/3", vec![host("redis.example", 7000)], 3),
            ("valkey://[::1]:6380/", vec![host("::1", 6380)], 0),
            ("redis://[::1]", vec![host("::1", 6379)], 0),
            ("redis://a,b:7001", vec![host("a", 6379), host("b", 7001)], 0),
        ] {
            let address = StoreAddress::parse(text).expect(text);
            assert_eq!(address.target, StoreTarget::Direct(expected), "{text}");
            assert_eq!(address.access.database, database, "{text}");
            assert!(address.access.password == Secret::None && !address.access.security.is_tls(), "{text}");
        }
    }

    #[test]
    fn sentinel_addresses() {
        let address = StoreAddress::parse("redis+sentinel://app:p%40ss@a,b:26380,[::1]:1/vote-status/2");
        let address = address.expect("an address");
        let sentinels = vec![host("a", 26379), host("b", 26380), host("::1", 1)];
        assert_eq!(address.target, StoreTarget::Sentinel { sentinels, primary: "vote-status".to_owned() });
        assert_eq!(address.access.user.as_deref(), Some("app"));
        assert!(address.access.password == text("p@ss") && address.access.database == 2);
        assert!(address.sentinel_access.password == Secret::None, "the sentinels have one of their own");
        assert_eq!(address.to_string(), "redis+sentinel://a:26379,b:26380,[::1]:1/vote-status");
    }

    #[test]
    fn a_password_is_taken_and_never_shown() {
        let address = StoreAddress::parse("redis://:typed@h").expect("an address");
        assert!(address.access.password == text("typed"));
        assert_eq!(format!("{address} {address:?}"), "redis://h:6379 redis://h:6379");
        assert!(!format!("{:?}", address.access).contains("typed"));
    }

    #[test]
    fn secure_addresses_are_for_a_build_with_tls() {
        for text in ["rediss://h", "valkeys://h:6390", "rediss+sentinel://a,b/m"] {
            match StoreAddress::parse(text) {
                Ok(address) => {
                    assert!(address.access.security.is_tls() && address.sentinel_access.security.is_tls());
                    assert!(address.to_string().starts_with("rediss"), "{address}");
                }
                Err(error) => {
                    assert_eq!(error.to_string(), "TLS to the store needs a build with the cargo feature tls");
                }
            }
        }
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
            "redis://h/-1",
            "redisss://:secret@h",
            "http://secret",
            "redis+sentinel://:secret@a,b",
            "redis+sentinel://a,,b/m",
            "redis://a b",
            "secret",
        ] {
            let error = StoreAddress::parse(bad).expect_err(bad).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
