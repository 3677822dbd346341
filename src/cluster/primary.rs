//! The store's primary: found, by its address or by its sentinels, and asked whether it is one.

use redis::{Value, cmd};

use super::address::{Host, StoreAddress, Target};
use super::entry::{items, number, text};
use super::functions;
use super::link::{Link, LinkError};

/// A connection to the primary.
pub struct Primary {
    /// The connection.
    pub link: Link,
    /// The id of its past.
    pub replid: String,
    /// Whether its functions are the ones of this version: no vote is sent to others.
    pub has_own_functions: bool,
}

impl Primary {
    /// Finds the primary and connects to it.
    ///
    /// # Errors
    /// Where nobody answers, or who answers is no primary.
    pub fn open(address: &StoreAddress) -> Result<Self, LinkError> {
        let host = match &address.target {
            Target::Direct(host) => host.clone(),
            Target::Sentinel { sentinels, primary } => find(address, sentinels, primary)?,
        };
        let mut link = Link::connect(address.connection(&host), &host)?;
        let role = link.role()?;
        if !role.is_primary {
            return Err(LinkError::Lost(format!("the store at {host} is a replica: its primary is wanted")));
        }
        let has_own_functions = functions::ensure(&mut link)?;
        Ok(Self { link, replid: role.replid, has_own_functions })
    }

    /// Whether it still is the primary that it was, with the same past.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn is_unchanged(&mut self) -> Result<bool, LinkError> {
        let role = self.link.role()?;
        Ok(role.is_primary && role.replid == self.replid)
    }
}

/// Asks one sentinel after the other; the first that knows is believed.
fn find(address: &StoreAddress, sentinels: &[Host], primary: &str) -> Result<Host, LinkError> {
    let mut why = String::new();
    for sentinel in sentinels {
        match ask(address, sentinel, primary) {
            Ok(Some(host)) => return Ok(host),
            Ok(None) => why = format!("the sentinel at {sentinel} knows no primary of the name {primary}"),
            Err(error) => why = format!("sentinel: {error}"),
        }
    }
    Err(LinkError::Lost(why))
}

fn ask(address: &StoreAddress, sentinel: &Host, primary: &str) -> Result<Option<Host>, LinkError> {
    let info = address.sentinel_connection(sentinel).map_err(|error| LinkError::Lost(error.to_string()))?;
    let mut link = Link::connect(info, sentinel)?;
    let reply = link.ask(cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(primary))?;
    match items(&reply) {
        Some([name, port]) => {
            let host = text(name).zip(number(port).and_then(|port| u16::try_from(port).ok()));
            host.map(|(name, port)| Some(Host { name: name.to_owned(), port }))
                .ok_or_else(|| link.strange("an address"))
        }
        _ if reply == Value::Nil => Ok(None),
        _ => Err(link.strange("an address")),
    }
}
