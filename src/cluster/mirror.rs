//! A state read from the store as a node reads it, to be compared with one.

use super::address::StoreAddress;
use super::admin;
use super::digest::Digest;
use super::link::LinkError;
use super::primary::Primary;
use super::reason::Reason;
use super::snapshot::{self, StoreState};
use crate::readiness::Readiness;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::table::CooldownTable;
use crate::vote::time::{Cooldown, UnixSeconds};

/// The store's state up to an entry of its log.
pub struct Mirror {
    primary: Primary,
    /// Servers and votes.
    pub state: StoreState,
    /// The store's cooldown.
    pub cooldown: Cooldown,
}

impl Mirror {
    /// Reads it whole, while others write.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(address: &StoreAddress) -> Result<Self, LinkError> {
        let mut primary = admin::open(address)?;
        let snap = snapshot::snap(&mut primary.link)?;
        let minutes = u32::try_from(snap.cooldown_s / 60).unwrap_or_default();
        let table = CooldownTable::with_prefix(snap.prefix.unwrap_or(Ipv6Prefix::USUAL));
        let Some(cooldown) = Cooldown::from_minutes(minutes).filter(|_| !snap.head.store.is_empty()) else {
            let host = primary.link.host();
            return Err(LinkError::Refused(
                Reason::WrongStore,
                format!(
                    "the store at {host} is empty: `vote-status reseed` fills it from a node that knows what was in it, `vote-status cluster init` makes a new one"
                ),
            ));
        };
        let state = snapshot::read(&mut primary, address, table, cooldown, &Readiness::default())?;
        Ok(Self { primary, state, cooldown })
    }

    /// Goes on to the entry of number `until`, or to the end of the log.
    ///
    /// # Errors
    /// Where the log cannot be read, or does not go on.
    pub fn advance(&mut self, until: Option<u64>) -> Result<(), LinkError> {
        Ok(snapshot::catch_up(&mut self.primary.link, &mut self.state, self.cooldown, until)?)
    }

    /// The digest of what is live at `now`.
    #[must_use]
    pub fn digest(&self, now: UnixSeconds) -> Digest {
        Digest::of(&self.state.full.servers, &self.state.full.table.view(), self.cooldown, now)
    }
}
