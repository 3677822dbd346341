//! What is done to a store by hand: its id is given, and given anew once it is filled again.

use redis::{Cmd, Value, cmd};

use super::address::StoreAddress;
use super::calls::{self, Change, Term};
use super::entry::{ListingId, items, number, text};
use super::keys;
use super::link::LinkError;
use super::primary::Primary;
use super::reason::Reason;
use super::snapshot::{self, read_prefix};
use crate::recorder::command::ServerOutcome;
use crate::store::StoredVote;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv6::Ipv6Prefix;

/// What a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// Whether it has become one just now.
    pub is_new: bool,
    /// Its id.
    pub store: String,
    /// The length of its cooldown, in seconds.
    pub cooldown_s: u64,
    /// How many bits of an IPv6 address tell one voter from another.
    pub prefix: Ipv6Prefix,
}

/// Opens the store for writing by this version's functions.
///
/// # Errors
/// Where it cannot be reached, has functions of another form, or does not let this user write.
pub fn open(address: &StoreAddress) -> Result<Primary, LinkError> {
    let mut primary = Primary::open(address)?;
    primary.require_fit()?;
    // Of a schema that this version does not know nothing is written.
    snapshot::snap(&mut primary.link)?;
    Ok(primary)
}

/// Gives the store this id, where it has none.
///
/// # Errors
/// As [`open`], and where it drops votes when it is full.
pub fn init(address: &StoreAddress, id: &str, cooldown_s: u64, prefix: Ipv6Prefix) -> Result<Initialised, LinkError> {
    let mut primary = open(address)?;
    primary.check_eviction()?;
    let mut question = cmd("FCALL");
    question.arg("vote_status_init").arg(1).arg(keys::META).arg(id).arg(cooldown_s).arg(prefix.bits());
    let reply = primary.link.ask(&question)?;
    read_initialised(&reply).ok_or_else(|| primary.link.strange("an id"))
}

fn read_initialised(reply: &Value) -> Option<Initialised> {
    let [is_new, store, cooldown_s, bits] = items(reply)? else { return None };
    Some(Initialised {
        is_new: number(is_new)? == 1,
        store: text(store)?.to_owned(),
        cooldown_s: number(cooldown_s)?,
        prefix: read_prefix(bits)?,
    })
}

/// Servers and votes that go out in one go.
const CALLS_AT_ONCE: usize = 1_024;
/// While a store is being filled its id begins so: no node follows it yet.
const FILLING: &str = "reseed-";

/// The id that a store gets once it is full, where it is being filled.
#[must_use]
pub fn filled_for(store: &str) -> Option<&str> {
    store.strip_prefix(FILLING)
}

/// Fills an empty store.
pub struct Filling {
    primary: Primary,
    /// The id until it is full, and the one that it gets then.
    ids: [String; 2],
    /// Those of servers with the token that the node has.
    calls: Vec<(Cmd, Option<(ServerId, Token)>)>,
    filled: Filled,
}

/// What became of a node's servers and votes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// How many were taken.
    pub taken: u64,
    /// How many were not: over meanwhile, or there already.
    pub refused: u64,
    /// Servers that an earlier run, from another node, has given another token: they keep it.
    pub differing: Vec<ServerId>,
}

impl Filling {
    /// Begins, or goes on where a run was cut off.
    ///
    /// # Errors
    /// Where the store is not empty, or cannot be written.
    pub fn begin(address: &StoreAddress, store: &str, cooldown_s: u64, prefix: Ipv6Prefix) -> Result<Self, LinkError> {
        let mut primary = open(address)?;
        let filling = format!("{FILLING}{store}");
        let held = primary.link.ask(cmd("HGET").arg(keys::META).arg("store"))?;
        if text(&held) != Some(&filling) {
            let count = primary.link.ask(cmd("EXISTS").arg(keys::META).arg(keys::DIRECTORY).arg(keys::LOG))?;
            if number(&count) != Some(0) {
                let host = primary.link.host();
                return Err(LinkError::Refused(
                    Reason::WrongStore,
                    format!(
                        "the store at {host} is not empty: only an empty one is filled; nodes read by themselves what is there"
                    ),
                ));
            }
            init(address, &filling, cooldown_s, prefix)?;
        }
        Ok(Self { primary, ids: [filling, store.to_owned()], calls: Vec::new(), filled: Filled::default() })
    }

    /// Adds a server.
    ///
    /// # Errors
    /// Where the store cannot be written.
    pub fn server(&mut self, server: ServerId, token: &Token) -> Result<(), LinkError> {
        // The nodes that follow it take its listings over: under the earlier ones nothing was removed.
        let (spare, listing) = (token.clone(), ListingId::draw(server.0.into()));
        let call = Change::List { server, said: None, spare, kept: None, listing }.question(self.term());
        self.add(call, Some((server, token.clone())))
    }

    /// Adds a vote; its server has been added before.
    ///
    /// # Errors
    /// As [`Filling::server`].
    pub fn vote(&mut self, vote: &StoredVote) -> Result<(), LinkError> {
        self.add(calls::restore(self.term(), vote, None), None)
    }

    /// Sends the rest, and gives the store its id: nodes follow it from now on.
    ///
    /// # Errors
    /// As [`Filling::server`].
    pub fn finish(mut self) -> Result<Filled, LinkError> {
        self.send()?;
        let [filling, store] = &self.ids;
        let reply = self
            .primary
            .link
            .ask(cmd("FCALL").arg("vote_status_adopt").arg(1).arg(keys::META).arg(filling).arg(store))?;
        if number(&reply) != Some(1) {
            return Err(self.primary.link.strange("another id than it was filled under"));
        }
        Ok(self.filled)
    }

    /// No node follows a store while it is filled: what comes late belongs there too.
    fn term(&self) -> Term<'_> {
        Term { store: &self.ids[0], until_ms: None }
    }

    fn add(&mut self, call: Cmd, server: Option<(ServerId, Token)>) -> Result<(), LinkError> {
        self.calls.push((call, server));
        if self.calls.len() == CALLS_AT_ONCE { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), LinkError> {
        let (replies, lost) = self.primary.link.ask_all(self.calls.iter().map(|(call, _)| call));
        for (reply, (_, server)) in replies.into_iter().zip(std::mem::take(&mut self.calls)) {
            let reply = reply?;
            // What both kinds of call answer first: 0 where something came of it.
            match items(&reply).and_then(|fields| number(fields.first()?)) {
                Some(0) => self.filled.taken += 1,
                _ => self.filled.refused += 1,
            }
            if let Some((server, token)) = server
                && calls::read_server(server, &reply, Some(&token)) == Some(ServerOutcome::TokenDiffers)
            {
                self.filled.differing.push(server);
            }
        }
        lost.map_or(Ok(()), Err)
    }
}
