//! What is done to a store by hand: its id is given, and given anew once it is filled again.

use redis::cmd;

use super::address::StoreAddress;
use super::entry::{items, number, text};
use super::keys;
use super::link::LinkError;
use super::primary::Primary;

/// What a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// Whether it has become one just now.
    pub is_new: bool,
    /// Its id.
    pub store: String,
    /// The length of its cooldown, in seconds.
    pub cooldown_s: u64,
}

/// Opens the store for writing by this version's functions.
///
/// # Errors
/// Where it cannot be reached, or has functions of another form.
pub fn open(address: &StoreAddress) -> Result<Primary, LinkError> {
    let primary = Primary::open(address)?;
    if primary.has_own_functions {
        return Ok(primary);
    }
    let host = primary.link.host();
    Err(LinkError::Refused(format!("the store at {host} has functions vs1 of another form than this version's")))
}

/// Gives the store this id, where it has none.
///
/// # Errors
/// As [`open`].
pub fn init(address: &StoreAddress, id: &str, cooldown_s: u64) -> Result<Initialised, LinkError> {
    let mut primary = open(address)?;
    let reply = primary.link.ask(cmd("FCALL").arg("vs1_init").arg(1).arg(keys::META).arg(id).arg(cooldown_s))?;
    let fields = match items(&reply) {
        Some([is_new, store, cooldown_s]) => number(is_new).zip(text(store)).zip(number(cooldown_s)),
        _ => None,
    };
    let Some(((is_new, store), cooldown_s)) = fields else { return Err(primary.link.strange("an id")) };
    Ok(Initialised { is_new: is_new == 1, store: store.to_owned(), cooldown_s })
}
