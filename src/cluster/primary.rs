//! The store's primary: found by its address or its sentinels, and asked whether it is a primary.

use super::address::{Host, StoreAddress, StoreTarget};
use super::entry::{items, number, text};
use super::functions;
use super::keys;
use super::link::{LinkError, SENTINEL_TIMEOUT, StoreLink, StoreRole, TIMEOUT};
use super::reason::Reason;
use super::resp::Value;
use crate::random;

/// The most redirections in a row to the machine that has the keys, in cluster mode. More of them lead nowhere.
const MOVES_MAX: usize = 5;
/// The most machines to remember, in cluster mode.
const HEARD_OF_MAX: usize = 64;

/// The number of looks at the primary for each question to a sentinel.
const SENTINEL_TURNS: usize = 5;

/// A primary's report of itself, as far as votes depend on it.
pub struct Look {
    /// Why no vote may be sent to the primary.
    pub barrier: Option<LinkError>,
    /// The id of the primary's process.
    pub run_id: String,
    /// The number of keys that this process has evicted.
    pub evicted: u64,
}

/// A connection to the primary.
pub struct Primary {
    /// The connection.
    pub link: StoreLink,
    /// The primary's last report of itself.
    pub role: StoreRole,
}

impl Primary {
    /// Finds the primary and connects to it.
    ///
    /// # Errors
    /// If no machine answers, or the one that does is no primary.
    pub fn open(address: &StoreAddress) -> Result<Self, LinkError> {
        let found = match &address.target {
            StoreTarget::Direct(hosts) => direct(address, hosts)?,
            StoreTarget::Sentinel { sentinels, primary } => enter(address, &find(address, sentinels, primary)?)?,
        };
        if found.role.is_primary { Ok(found) } else { Err(found.is_replica("")) }
    }

    /// Connects to this machine, which has to be a primary.
    ///
    /// # Errors
    /// If the machine does not answer, or is no primary.
    pub fn at(address: &StoreAddress, host: &Host) -> Result<Self, LinkError> {
        let found = enter(address, host)?;
        if found.role.is_primary { Ok(found) } else { Err(found.is_replica("")) }
    }

    fn is_replica(&self, now: &str) -> LinkError {
        let host = self.link.host();
        LinkError::Lost(Reason::Role, format!("the store at {host} is a replica{now}: its primary is wanted"))
    }

    /// Sees to the store's functions, and takes over the keys of 1.0.0 if there are any.
    ///
    /// # Errors
    /// If the primary does not answer, or refuses the functions.
    pub fn prepare(&mut self) -> Result<Look, LinkError> {
        let unfit = self.unfit()?;
        if unfit.is_none()
            && let Some(nodes) = functions::take_over(&mut self.link, random::number().cast_signed())?
        {
            let (host, nodes) = (self.link.host(), nodes.join(", "));
            log::warn!(
                "the store at {host} was one of version 1.0.0 and is taken over: nodes of 1.0.0 take no votes there any more ({nodes})"
            );
        }
        Ok(self.looked(unfit))
    }

    /// Asks the primary for its report once more, at each heartbeat. Each fifth `turn` asks a sentinel too: a primary that is cut
    /// off from all others does not know that it was replaced.
    ///
    /// # Errors
    /// If the machine does not answer, or is no primary any more.
    pub fn look(&mut self, address: &StoreAddress, turn: usize) -> Result<Look, LinkError> {
        self.role = self.link.role()?;
        if !self.role.is_primary {
            return Err(self.is_replica(" now"));
        }
        if turn.is_multiple_of(SENTINEL_TURNS) {
            self.check_named(address, turn / SENTINEL_TURNS)?;
        }
        let unfit = match self.unfit() {
            Err(error @ LinkError::Lost(..)) => return Err(error),
            unfit => unfit.unwrap_or_else(Some),
        };
        Ok(self.looked(unfit))
    }

    fn looked(&self, unfit: Option<LinkError>) -> Look {
        let StoreRole { run_id, evicted, .. } = &self.role;
        Look { barrier: self.check_eviction().err().or(unfit), run_id: run_id.clone(), evicted: *evicted }
    }

    /// Why no vote may be sent to the primary, with the remedy. Either its functions are of another form than this
    /// version's, or the user of this node lacks rights. Loads the functions if the primary has none or those of 1.0.0.
    ///
    /// # Errors
    /// If the primary does not answer, or refuses the functions.
    pub fn unfit(&mut self) -> Result<Option<LinkError>, LinkError> {
        let (link, library) = (&mut self.link, functions::LIBRARY);
        if !functions::ensure(link)? {
            let why = format!(
                "the store at {} has functions {library} of another form than this version's: run the version that loaded them, or FUNCTION DELETE {library} there, and each node loads its own",
                link.host()
            );
            return Ok(Some(LinkError::Refused(Reason::Functions, why)));
        }
        let missing = functions::missing_rights(link)?;
        Ok((!missing.is_empty()).then(|| {
            let (host, missing) = (link.host(), missing.join(", "));
            let why = format!(
                "RIGHTS at the store at {host}: the user of this node may not {missing}; give it the list in docs/CLUSTER.md"
            );
            LinkError::Refused(Reason::Rights, why)
        }))
    }

    /// Requires that votes may be sent to the primary: see [`Primary::unfit`].
    ///
    /// # Errors
    /// If they may not, or if the primary does not answer.
    pub fn require_fit(&mut self) -> Result<(), LinkError> {
        self.unfit()?.map_or(Ok(()), Err)
    }

    /// A store that evicts keys when it is full gets no votes: it would take an evicted vote again. A missing memory limit is no
    /// excuse: one may be set at any moment.
    ///
    /// # Errors
    /// If this is such a store.
    pub fn check_eviction(&self) -> Result<(), LinkError> {
        let Some(policy) = &self.role.policy else { return Ok(()) };
        let host = self.link.host();
        let why = format!(
            "EVICTING store at {host}: with maxmemory-policy {policy} it drops votes when it is full; set noeviction"
        );
        Err(LinkError::Refused(Reason::Eviction, why))
    }

    /// Asks one of the sentinels, another one at each `turn`, whether it still names this machine. If it does not, asks all.
    ///
    /// # Errors
    /// If more than half of them name another machine. A sentinel that does not answer does not count.
    fn check_named(&self, address: &StoreAddress, turn: usize) -> Result<(), LinkError> {
        let StoreTarget::Sentinel { sentinels, primary } = &address.target else { return Ok(()) };
        let own = self.link.host();
        let doubts = |host: Host| host != *own;
        if ask(address, &sentinels[turn % sentinels.len()], primary).ok().flatten().is_some_and(doubts)
            && let Ok(host) = find(address, sentinels, primary)
            && host != *own
        {
            let why = format!("the store at {own} is not the primary any more: the sentinels name {host}");
            return Err(LinkError::Lost(Reason::Role, why));
        }
        Ok(())
    }
}

/// Connects to this machine, and asks for its report of itself.
fn enter(address: &StoreAddress, host: &Host) -> Result<Primary, LinkError> {
    let mut link = StoreLink::connect(&address.access, host, TIMEOUT)?;
    let role = link.role()?;
    Ok(Primary { link, role })
}

/// The machine at this address; in cluster mode the machine that has the keys, whichever machine is asked. The configured
/// machines are tried first, then those that the store has named.
fn direct(address: &StoreAddress, hosts: &[Host]) -> Result<Primary, LinkError> {
    let heard_of = address.heard_of.lock().clone();
    let mut why = None;
    for host in hosts.iter().chain(&heard_of) {
        match enter(address, host).and_then(|found| owner(address, found)) {
            Ok(found) if found.role.is_clustered || hosts.len() == 1 => return Ok(found),
            Ok(found) => {
                let host = found.link.host();
                let what = format!(
                    "the store at {host} is not in cluster mode, and several addresses were given: give one, or the sentinels"
                );
                return Err(LinkError::Lost(Reason::Unfit, what));
            }
            // The first error is reported: it is about the machine that the operator named first.
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or_else(|| LinkError::Lost(Reason::Unreachable, "the store has no address".into())))
}

/// Goes on to the machine that has the keys, if this one has not.
fn owner(address: &StoreAddress, mut found: Primary) -> Result<Primary, LinkError> {
    if !found.role.is_clustered {
        return Ok(found);
    }
    for _ in 0..MOVES_MAX {
        match found.link.ask(&["EXISTS", keys::META]) {
            Ok(_) => {
                hear_of(address, &mut found.link);
                return Ok(found);
            }
            Err(LinkError::Refused(Reason::Slot, why)) => match moved_to(&why, found.link.host()) {
                Some(host) => found = enter(address, &host)?,
                None => return Err(LinkError::Lost(Reason::Slot, why)),
            },
            Err(error) => return Err(error),
        }
    }
    let why = format!("the store at {} and the others do not agree on which machine has the keys", found.link.host());
    Err(LinkError::Lost(Reason::Slot, why))
}

/// The machine that a refusal names as the owner of the keys: `… MOVED slot host:port`. A machine that does not know its own name
/// leaves the host out.
fn moved_to(why: &str, from: &Host) -> Option<Host> {
    let (_, rest) = why.split_once("MOVED ")?;
    let (name, port) = rest.split_whitespace().nth(1)?.rsplit_once(':')?;
    let name = if name.is_empty() { &from.name } else { name };
    Some(Host { name: name.trim_matches(['[', ']']).to_owned(), port: port.parse().ok()? })
}

/// Remembers the store's other machines: the configured one may be the next to fail. If the user may not ask for them, the
/// operator configures more of them.
fn hear_of(address: &StoreAddress, link: &mut StoreLink) {
    let Ok(reply) = link.ask(&["CLUSTER", "SLOTS"]) else { return };
    let mut heard = Vec::new();
    for range in items(&reply).unwrap_or_default() {
        for machine in items(range).unwrap_or_default().iter().skip(2) {
            let Some(host) = read_host(machine).filter(|host| !host.name.is_empty()) else { continue };
            if !heard.contains(&host) && heard.len() < HEARD_OF_MAX {
                heard.push(host);
            }
        }
    }
    *address.heard_of.lock() = heard;
}

/// The machine that more than half of the sentinels name. Fewer may be cut off from the others, with a primary that was replaced.
fn find(address: &StoreAddress, sentinels: &[Host], primary: &str) -> Result<Host, LinkError> {
    let mut why = (Reason::Sentinels, String::new());
    let mut named = Vec::new();
    for sentinel in sentinels {
        match ask(address, sentinel, primary) {
            Ok(Some(host)) => named.push(host),
            Ok(None) => {
                why = (Reason::Sentinels, format!("the sentinel at {sentinel} knows no primary of the name {primary}"));
            }
            Err(error) => why = (error.reason(), format!("sentinel: {error}")),
        }
    }
    if let Some(host) = named_by_most(&named, sentinels.len()) {
        return Ok(host.clone());
    }
    let (reason, last) = why;
    // If no sentinel answers, the last error stands for all of them.
    let reason = if named.is_empty() { reason } else { Reason::Sentinels };
    let count = sentinels.len();
    let said = format!("of {count} sentinels {} answer, and more than half have to name one primary", named.len());
    Err(LinkError::Lost(reason, if last.is_empty() { said } else { format!("{said}; {last}") }))
}

/// The machine that more than half of the `asked` sentinels name.
fn named_by_most(named: &[Host], asked: usize) -> Option<&Host> {
    named.iter().find(|host| named.iter().filter(|other| other == host).count() * 2 > asked)
}

fn ask(address: &StoreAddress, sentinel: &Host, primary: &str) -> Result<Option<Host>, LinkError> {
    let mut link = StoreLink::connect(&address.sentinel_access, sentinel, SENTINEL_TIMEOUT)?;
    let reply = link.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary])?;
    match read_host(&reply) {
        None if reply != Value::Nil => Err(link.strange("an address")),
        host => Ok(host),
    }
}

/// Reads a machine in a reply: its name, its port, and fields that are not used here.
fn read_host(reply: &Value) -> Option<Host> {
    let [name, port, ..] = items(reply)? else { return None };
    Some(Host { name: text(name)?.to_owned(), port: u16::try_from(number(port)?).ok()? })
}

#[cfg(test)]
mod tests {
    use super::{moved_to, named_by_most};
    use crate::cluster::address::Host;

    fn host(name: &str) -> Host {
        Host { name: name.to_owned(), port: 6379 }
    }

    #[test]
    fn a_sentinel_that_is_cut_off_is_outvoted() {
        let name = |named: &[&str], asked| {
            let named: Vec<Host> = named.iter().map(|name| host(name)).collect();
            named_by_most(&named, asked).map(|host| host.name.clone())
        };
        assert_eq!(name(&["old", "new", "new"], 3).as_deref(), Some("new"));
        assert_eq!(name(&["new", "new"], 3).as_deref(), Some("new"));
        assert_eq!(name(&["one"], 1).as_deref(), Some("one"));
        assert_eq!(name(&["old"], 3), None, "one of three may be the one that is cut off");
        assert_eq!(name(&["one", "other"], 2), None);
        assert_eq!(name(&["a", "a", "b", "b"], 4), None);
        assert_eq!(name(&[], 3), None);
    }

    #[test]
    fn the_owner_of_the_keys_is_read_from_a_refusal() {
        let to = |why| moved_to(why, &host("here")).map(|host| host.to_string());
        assert_eq!(to("the store at h:1 refuses: MOVED 13907 10.0.0.7:7001").as_deref(), Some("10.0.0.7:7001"));
        assert_eq!(to("refuses: MOVED 13907 ::1:7001").as_deref(), Some("[::1]:7001"));
        assert_eq!(to("refuses: MOVED 13907 :7001").as_deref(), Some("here:7001"));
        assert_eq!(to("refuses: ASK 13907 10.0.0.7:7001"), None);
        assert_eq!(to("refuses: MOVED 13907"), None);
    }
}
