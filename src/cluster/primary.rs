//! The store's primary: found, by its address or by its sentinels, and asked whether it is one.

use redis::{Value, cmd};

use super::address::{Host, StoreAddress, Target};
use super::entry::{items, number, text};
use super::functions;
use super::link::{Link, LinkError, Role, SENTINEL_TIMEOUT, TIMEOUT};

/// A connection to the primary.
pub struct Primary {
    /// The connection.
    pub link: Link,
    /// The id of its past.
    pub replid: String,
    /// The id of its process.
    pub run_id: String,
    /// How it makes room when it is full, where that drops votes.
    pub eviction: Option<String>,
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
        let mut link = Link::connect(address.connection(&host), &host, TIMEOUT)?;
        let role = link.role()?;
        if !role.is_primary {
            return Err(LinkError::Lost(format!("the store at {host} is a replica: its primary is wanted")));
        }
        let has_own_functions = functions::ensure(&mut link)?;
        let Role { replid, run_id, eviction, .. } = role;
        Ok(Self { link, replid, run_id, eviction, has_own_functions })
    }

    /// A store that drops keys when it is full takes no votes: one that it drops would be taken again.
    ///
    /// # Errors
    /// Where it is such a one.
    pub fn check_eviction(&self) -> Result<(), LinkError> {
        let Some(policy) = &self.eviction else { return Ok(()) };
        Err(LinkError::Refused(format!(
            "EVICTING store at {}: with maxmemory-policy {policy} it drops votes when it is full; set noeviction",
            self.link.host()
        )))
    }

    /// Whether it still is the primary that it was, with the same past. A process that has always been
    /// a primary gives its past another name when its first replica comes, or its last one has been
    /// gone for long: nothing is lost by that, and the name is taken over.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn is_unchanged(&mut self) -> Result<bool, LinkError> {
        let role = self.link.role()?;
        let is_same_past = role.replid == self.replid || role.run_id == self.run_id && !role.was_replica;
        if role.is_primary && is_same_past {
            self.replid = role.replid;
            return Ok(true);
        }
        Ok(false)
    }

    /// Asks one of the sentinels, another one at each `turn`, whether they still name this machine.
    ///
    /// # Errors
    /// Where it names another one. A sentinel that does not answer says nothing.
    pub fn check_named(&self, address: &StoreAddress, turn: usize) -> Result<(), LinkError> {
        let Target::Sentinel { sentinels, primary } = &address.target else { return Ok(()) };
        let own = self.link.host();
        let doubts = |host: Host| host != *own;
        if ask(address, &sentinels[turn % sentinels.len()], primary).ok().flatten().is_some_and(doubts) {
            let host = find(address, sentinels, primary)?;
            if host != *own {
                let why = format!("the store at {own} is not the primary any more: the sentinels name {host}");
                return Err(LinkError::Lost(why));
            }
        }
        Ok(())
    }
}

/// The machine that most of the sentinels name: one of them alone may be cut off from the others,
/// with a primary that is none any more.
fn find(address: &StoreAddress, sentinels: &[Host], primary: &str) -> Result<Host, LinkError> {
    let mut why = String::new();
    let mut named = Vec::new();
    for sentinel in sentinels {
        match ask(address, sentinel, primary) {
            Ok(Some(host)) => named.push(host),
            Ok(None) => why = format!("the sentinel at {sentinel} knows no primary of the name {primary}"),
            Err(error) => why = format!("sentinel: {error}"),
        }
    }
    most_named(&named).cloned().ok_or(LinkError::Lost(why))
}

/// The first of those that are named most often.
fn most_named(named: &[Host]) -> Option<&Host> {
    let votes = |host: &Host| named.iter().filter(|other| *other == host).count();
    let most = named.iter().map(votes).max()?;
    named.iter().find(|host| votes(host) == most)
}

fn ask(address: &StoreAddress, sentinel: &Host, primary: &str) -> Result<Option<Host>, LinkError> {
    let info = address.sentinel_connection(sentinel).map_err(|error| LinkError::Lost(error.to_string()))?;
    let mut link = Link::connect(info, sentinel, SENTINEL_TIMEOUT)?;
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

#[cfg(test)]
mod tests {
    use super::most_named;
    use crate::cluster::address::Host;

    #[test]
    fn a_sentinel_that_is_cut_off_is_outvoted() {
        let host = |name: &str| Host { name: name.to_owned(), port: 6379 };
        let name = |named: &[&str]| {
            let named: Vec<Host> = named.iter().map(|name| host(name)).collect();
            most_named(&named).map(|host| host.name.clone())
        };
        assert_eq!(name(&["old", "new", "new"]).as_deref(), Some("new"));
        assert_eq!(name(&["new", "old", "new"]).as_deref(), Some("new"));
        assert_eq!(name(&["one", "other"]).as_deref(), Some("one"));
        assert_eq!(name(&[]), None);
    }
}
