//! An operator's changes to a store: give it an id, or fill an empty store and give it its former id.

use std::collections::HashMap;
use std::time::Duration;

use super::address::StoreAddress;
use super::entry::{number, text};
use super::functions::{self, SCHEMA_BEFORE};
use super::keys::{self, SCHEMA};
use super::link::{LinkError, StoreLink};
use super::primary::Primary;
use super::reason::Reason;
use super::resp::Value;
use super::wire::answer::{StoreAnswer, StoreReply};
use super::wire::fact::{Fact, Listing, Record};
use super::wire::last::Last;
use super::wire::question::{StoreCall, StoreQuestion, Terms};
use crate::random;
use crate::store::StoredVote;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv6::Ipv6Prefix;

/// The identity and the settings of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// Whether this call initialised the store.
    pub is_new: bool,
    /// The store's id.
    pub store: String,
    /// The store's cooldown, in seconds.
    pub cooldown_s: u64,
    /// How many bits of an IPv6 address tell one voter from another.
    pub prefix: Ipv6Prefix,
}

/// Asks one of a node's questions.
///
/// # Errors
/// If the connection is lost, or the store or a function refuses.
pub(super) fn ask(link: &mut StoreLink, question: &StoreQuestion) -> Result<StoreAnswer, LinkError> {
    let reply = link.ask(&question.words())?;
    match StoreAnswer::read(question, &reply) {
        StoreAnswer { reply: StoreReply::Refused(refusal), .. } => Err(link.refused(&refusal.text)),
        answer => Ok(answer),
    }
}

/// Opens the store, and loads this version's functions unless another version has made the keys. Only a node takes over
/// the store of an earlier version: until then the nodes of that version take votes.
///
/// # Errors
/// If the store cannot be reached, has keys or functions of another form, or does not let this user write.
pub fn open(address: &StoreAddress) -> Result<Primary, LinkError> {
    let mut primary = Primary::open(address)?;
    let held = held(&mut primary.link)?;
    require_schema(&primary.link, &held)?;
    primary.require_fit()?;
    Ok(primary)
}

/// The identity that a store reports.
struct HeldMeta {
    /// Empty if the store has no id.
    store: String,
    schema: String,
    cooldown_s: u64,
    prefix: u64,
}

fn held(link: &mut StoreLink) -> Result<HeldMeta, LinkError> {
    match ask(link, &StoreQuestion::Meta)?.reply {
        StoreReply::Meta { store, schema, cooldown_s, prefix, .. } => {
            Ok(HeldMeta { store, schema, cooldown_s, prefix })
        }
        _ => Err(link.strange("a cooldown")),
    }
}

/// Refuses a schema that this version does not know: nothing is written.
fn require_schema(link: &StoreLink, held: &HeldMeta) -> Result<(), LinkError> {
    if held.store.is_empty() {
        return Ok(());
    }
    let what = match held.schema.as_str() {
        SCHEMA => return Ok(()),
        SCHEMA_BEFORE => "start a node of this version, which takes it over",
        _ => "run the version that made it, or make a new store in an empty Redis",
    };
    let (host, schema) = (link.host(), &held.schema);
    let why = format!("the store at {host} has schema {schema}, and this version knows {SCHEMA}: {what}");
    Err(LinkError::Refused(Reason::Unfit, why))
}

/// Gives the store this id, if it has none.
///
/// # Errors
/// As [`open`], and if the store evicts keys when it is full.
pub fn init(address: &StoreAddress, id: &str, cooldown_s: u64, prefix: Ipv6Prefix) -> Result<Initialised, LinkError> {
    let mut primary = Primary::open(address)?;
    primary.check_eviction()?;
    let held = held(&mut primary.link)?;
    // A script may run `init` before each node: it must get as far as the node that takes the store over.
    if !held.store.is_empty() && held.schema == SCHEMA_BEFORE {
        let HeldMeta { store, cooldown_s, prefix, .. } = held;
        let prefix = read_prefix(prefix).ok_or_else(|| primary.link.strange("a prefix"))?;
        return Ok(Initialised { is_new: false, store, cooldown_s, prefix });
    }
    require_schema(&primary.link, &held)?;
    primary.require_fit()?;
    let (cooldown_s, bits) = (cooldown_s.to_string(), prefix.bits().to_string());
    let words = ["FCALL", "vs3_init", "1", keys::META, id, &cooldown_s, &bits];
    let reply = functions::call(&mut primary.link, &words)?;
    read_initialised(&reply).ok_or_else(|| primary.link.strange("an id"))
}

fn read_initialised(fields: &[Value]) -> Option<Initialised> {
    let [word, store, cooldown_s, bits] = fields else { return None };
    let is_new = match text(word)? {
        "made" => true,
        "has" => false,
        _ => return None,
    };
    let (cooldown_s, prefix) = (number(cooldown_s)?, read_prefix(number(bits)?)?);
    Some(Initialised { is_new, store: text(store)?.to_owned(), cooldown_s, prefix })
}

fn read_prefix(bits: u64) -> Option<Ipv6Prefix> {
    Ipv6Prefix::from_bits(u8::try_from(bits).ok()?)
}

/// The most votes of a server in one call.
const VOTES_AT_ONCE: usize = 100;
/// The number of waiting votes, over all servers, at which all of them go out.
const WAITING_MAX: usize = 65_536;
/// The number of waiting facts at which their calls go out. The replies stay below the lowest limit that a provider may set on a
/// client's output buffer, 256 kB.
const FACTS_AT_ONCE: usize = 2_048;
/// The longest wait for a reply during a filling. No node follows the store meanwhile, and a Redis that stands still
/// for a moment, as for a slow disk, ends no filling.
const FILLING_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of servers that one `HSCAN` asks for.
const SERVERS_AT_ONCE: usize = 1_000;
/// The id that a store gets after its filling; `None` if this is no filling's id.
#[must_use]
pub fn filled_for(store: &str) -> Option<&str> {
    store.strip_prefix(&keys::filling(""))
}

/// Fills an empty store with servers and votes. The removals and the listings come from the nodes. Once the nodes
/// follow the store again, they give back their facts, which outweigh the filled-in ones.
pub struct Filling {
    primary: Primary,
    /// The id during the filling, and the id after it.
    ids: [String; 2],
    /// Servers that an earlier run has listed.
    listed: HashMap<ServerId, Record>,
    /// Votes that wait for more votes of their server, and the number of all.
    waiting: HashMap<ServerId, Vec<Fact>>,
    waiting_count: usize,
    /// Calls that wait to go out together, and the number of their facts.
    calls: Vec<(ServerId, Vec<Fact>)>,
    facts: usize,
    filled: Filled,
}

/// The outcome of a filling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Servers and votes that the store took.
    pub taken: u64,
    /// Servers and votes that it did not take: over, or there already.
    pub refused: u64,
    /// Servers that keep another token, which an earlier run from another node gave them.
    pub differing: Vec<ServerId>,
}

impl Filling {
    /// Begins a filling, or continues one that was cut off.
    ///
    /// # Errors
    /// If the store is not empty, or cannot be written.
    pub fn begin(address: &StoreAddress, store: &str, cooldown_s: u64, prefix: Ipv6Prefix) -> Result<Self, LinkError> {
        let mut primary = open(address)?;
        primary.link.set_timeout(FILLING_TIMEOUT)?;
        let filling = keys::filling(store);
        let held = primary.link.ask(&["HGET", keys::META, "store"])?;
        if text(&held) != Some(&filling) {
            let count = primary.link.ask(&["EXISTS", keys::META, keys::DIRECTORY, keys::LOG])?;
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
        let listed = read_listed(&mut primary.link)?;
        let (ids, waiting, calls, filled) =
            ([filling, store.to_owned()], HashMap::new(), Vec::new(), Filled::default());
        Ok(Self { primary, ids, listed, waiting, waiting_count: 0, calls, facts: 0, filled })
    }

    /// Adds a server.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn server(&mut self, server: ServerId, token: &Token) -> Result<(), LinkError> {
        if self.listed.get(&server).is_some_and(|held| held.token != *token) {
            self.filled.refused += 1;
            self.filled.differing.push(server);
            return Ok(());
        }
        let record = Record { listing: listing(&self.primary.link, server)?, stamp: 0, token: token.clone() };
        self.call(server, vec![Fact::Listed(record)])
    }

    /// Adds a vote. The caller has added its server before.
    ///
    /// # Errors
    /// As [`Filling::server`].
    pub fn vote(&mut self, vote: &StoredVote) -> Result<(), LinkError> {
        let server = vote.pair.server;
        // An earlier run or an operator may have given the server another listing.
        let listing = match self.listed.get(&server) {
            Some(record) => record.listing,
            None => listing(&self.primary.link, server)?,
        };
        let votes = self.waiting.entry(server).or_default();
        votes.push(Fact::Vote(listing, vote.voted_at, vote.pair.address));
        self.waiting_count += 1;
        if votes.len() == VOTES_AT_ONCE {
            let votes = std::mem::take(votes);
            self.waiting_count -= votes.len();
            self.call(server, votes)?;
        }
        if self.waiting_count < WAITING_MAX { Ok(()) } else { self.call_waiting() }
    }

    /// Sends the rest, and gives the store its id: nodes follow the store from then on.
    ///
    /// # Errors
    /// As [`Filling::server`].
    pub fn finish(mut self) -> Result<Filled, LinkError> {
        self.call_waiting()?;
        self.send()?;
        let [filling, store] = &self.ids;
        let link = &mut self.primary.link;
        let reply = functions::call(link, &["FCALL", "vs3_adopt", "1", keys::META, filling, store])?;
        match reply.first().and_then(text) {
            Some("made") => Ok(self.filled),
            _ => Err(link.strange("another id than it was filled under")),
        }
    }

    fn call_waiting(&mut self) -> Result<(), LinkError> {
        self.waiting_count = 0;
        for (server, votes) in std::mem::take(&mut self.waiting) {
            if !votes.is_empty() {
                self.call(server, votes)?;
            }
        }
        Ok(())
    }

    fn call(&mut self, server: ServerId, facts: Vec<Fact>) -> Result<(), LinkError> {
        self.facts += facts.len();
        self.calls.push((server, facts));
        if self.facts < FACTS_AT_ONCE { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<(), LinkError> {
        self.facts = 0;
        let calls = std::mem::take(&mut self.calls);
        let questions = calls.iter().map(|(server, facts)| {
            // No node follows a store that is being filled: a late call is welcome, and the store need not hold any entry.
            let (store, last, bits) = (self.ids[0].clone(), Last::default(), random::number().cast_signed());
            let terms = Terms { store, until_ms: None, last, bits };
            StoreQuestion::Change(*server, StoreCall::Give(facts.clone()), terms).words()
        });
        let (replies, lost) = self.primary.link.ask_all(questions);
        for (reply, (server, facts)) in replies.into_iter().zip(&calls) {
            let link = &self.primary.link;
            let fields = functions::answered(link, reply?)?;
            let has_other_token = self.filled.count(facts, &fields).ok_or_else(|| link.strange("an answer"))?;
            if has_other_token {
                self.filled.differing.push(*server);
            }
        }
        lost.map_or(Ok(()), Err)
    }
}

impl Filled {
    /// Counts the outcomes of some facts. Gives whether the server has another token than the given one; `None` if the reply
    /// makes no sense.
    fn count(&mut self, facts: &[Fact], fields: &[Value]) -> Option<bool> {
        let [word, _last, pairs @ ..] = fields else { return None };
        let pairs = pairs.chunks_exact(2).map(|pair| Some((text(&pair[0])?, text(&pair[1])?)));
        // `ok` answers the name of a listing, which is no fact.
        let pairs: Vec<_> = pairs.filter(|pair| !matches!(pair, Some(("ok", _)))).collect::<Option<_>>()?;
        if text(word) != Some("given") || pairs.len() != facts.len() {
            return None;
        }
        let mut has_other_token = false;
        for (fact, (word, held)) in facts.iter().zip(pairs) {
            *if word == "made" { &mut self.taken } else { &mut self.refused } += 1;
            has_other_token |= match fact {
                Fact::Listed(given) => Record::read(held)?.token != given.token,
                _ => false,
            };
        }
        Some(has_other_token)
    }
}

/// The listing of a filled-in server. Any other listing that a node knows is greater.
fn listing(link: &StoreLink, server: ServerId) -> Result<Listing, LinkError> {
    let name = format!("{:016}-{:016x}", 0, server.0);
    Listing::read(&name).ok_or_else(|| link.strange("a listing"))
}

fn read_listed(link: &mut StoreLink) -> Result<HashMap<ServerId, Record>, LinkError> {
    let (mut listed, mut cursor) = (HashMap::new(), "0".to_owned());
    loop {
        let StoreReply::Servers(next, servers) = ask(link, &StoreQuestion::Servers(cursor, SERVERS_AT_ONCE))?.reply
        else {
            return Err(link.strange("a directory"));
        };
        listed.extend(servers.into_iter().filter_map(|(server, record)| Some((server, record?))));
        if next == "0" {
            return Ok(listed);
        }
        cursor = next;
    }
}
