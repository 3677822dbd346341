//! A copy of the store's state, read as a node reads it, to compare with a node's.

use super::address::StoreAddress;
use super::admin;
use super::digest::Digest;
use super::link::{LinkError, StoreLink, TIMEOUT};
use super::node::bounds::Bounds;
use super::node::reading::{ReadingProgress, StateReading};
use super::primary::Primary;
use super::reason::{Reason, RebuildCause};
use super::reply_reader;
use super::resp;
use super::wire::answer::{LogItem, StoreReply};
use super::wire::last::Last;
use super::wire::question::StoreQuestion;
use crate::vote::directory::Snapshot;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::table::CooldownTable;
use crate::vote::time::{Cooldown, UnixSeconds};

/// The most tries to read the state. A reading is torn if a server is listed anew during it, or the store forgets something.
const READINGS_MAX: usize = 5;
const BOUNDS: Bounds = Bounds::USUAL;
/// Entries of the log that are read at once: few enough for a store that limits a client's output buffer.
const ENTRIES_MAX: usize = 1_000;

/// The store's state up to an entry of its log.
pub struct Mirror {
    primary: Primary,
    reading: StateReading,
    /// The store's id.
    pub store: String,
    /// The store's cooldown.
    pub cooldown: Cooldown,
}

impl Mirror {
    /// Reads the whole state, while others write.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn read(address: &StoreAddress) -> Result<Self, LinkError> {
        let mut primary = admin::open(address)?;
        // A primary that is busy saving is slow, and no voter waits for this reading.
        primary.link.set_timeout(TIMEOUT * 5)?;
        let StoreReply::Meta { store, cooldown_s, prefix, .. } = ask(&mut primary.link, &StoreQuestion::Meta)? else {
            return Err(primary.link.strange("a cooldown"));
        };
        let minutes = u32::try_from(cooldown_s / 60).unwrap_or_default();
        let Some(cooldown) = Cooldown::from_minutes(minutes).filter(|_| !store.is_empty()) else {
            let host = primary.link.host();
            return Err(LinkError::Refused(
                Reason::WrongStore,
                format!(
                    "the store at {host} is empty: `vote-status reseed` fills it from a node that knows what was in it, `vote-status cluster init` makes a new one"
                ),
            ));
        };
        let prefix = u8::try_from(prefix).ok().and_then(Ipv6Prefix::from_bits).unwrap_or(Ipv6Prefix::USUAL);
        for _ in 0..READINGS_MAX {
            let reading =
                StateReading::new(RebuildCause::Start, &CooldownTable::with_prefix(prefix).view(), ENTRIES_MAX);
            if let Some(reading) = read_whole(&mut primary.link, reading, cooldown)? {
                return Ok(Self { primary, reading, store, cooldown });
            }
        }
        Err(broken_off())
    }

    /// Follows the log to the entry of number `until`, or to the end.
    ///
    /// # Errors
    /// If the log cannot be read, or does not continue this state.
    pub fn advance(&mut self, until: Option<u64>) -> Result<(), LinkError> {
        let (link, reading) = (&mut self.primary.link, &mut self.reading);
        let now = now(link)?;
        while until.is_none_or(|until| reading.position.n < until) {
            let question = StoreQuestion::Log(reading.cursor, ENTRIES_MAX, None);
            let StoreReply::Log(mut lines) = ask(link, &question)? else { return Err(link.strange("a log")) };
            let is_all = lines.len() < ENTRIES_MAX;
            let is_behind = |line: &LogItem| matches!(line, LogItem::Entry(entry) if until.is_some_and(|until| entry.last.n > until));
            let count = lines.iter().position(is_behind).unwrap_or(lines.len());
            lines.truncate(count);
            if !reading.follow(lines, self.cooldown, now) {
                return Err(broken_off());
            }
            if is_all {
                break;
            }
        }
        Ok(())
    }

    /// The last entry of the log that this state has.
    #[must_use]
    pub const fn position(&self) -> Last {
        self.reading.position
    }

    /// The listed servers.
    #[must_use]
    pub fn servers(&self) -> Snapshot {
        self.reading.servers()
    }

    /// The votes.
    #[must_use]
    pub const fn votes(&self) -> &CooldownTable {
        &self.reading.state.table
    }

    /// The parts of the store that cannot be read. Nodes do not show them either.
    #[must_use]
    pub fn unreadable(&self) -> &[String] {
        &self.reading.unreadable
    }

    /// The digest of the servers, and of the votes live at `now`.
    #[must_use]
    pub fn digest(&self, now: UnixSeconds) -> Digest {
        Digest::of(&self.servers(), &self.votes().view(), self.cooldown, now)
    }
}

fn broken_off() -> LinkError {
    LinkError::Lost(Reason::Garbled, "the log of the store does not go on from what was read; try again".to_owned())
}

fn ask(link: &mut StoreLink, question: &StoreQuestion) -> Result<StoreReply, LinkError> {
    Ok(admin::ask(link, question)?.reply)
}

/// The store's time.
fn now(link: &mut StoreLink) -> Result<UnixSeconds, LinkError> {
    let answer = admin::ask(link, &StoreQuestion::Head(Last::default()))?;
    let now_s = answer.now_ms.and_then(|now_ms| u32::try_from(now_ms / 1_000).ok());
    now_s.map(UnixSeconds).ok_or_else(|| link.strange("a time"))
}

/// Carries a reading out; `None` if it was torn.
fn read_whole(
    link: &mut StoreLink,
    mut reading: StateReading,
    cooldown: Cooldown,
) -> Result<Option<StateReading>, LinkError> {
    let now = now(link)?;
    loop {
        let questions = reading.questions(&BOUNDS, now.minus(cooldown.seconds()));
        let mut packed = Vec::new();
        questions.iter().for_each(|question| resp::pack(&question.words(), &mut packed));
        link.send(&packed)?;
        for question in questions {
            let reply = reply_reader::answer(link, &question, &|| {})?.reply;
            match reading.take(reply, &BOUNDS, cooldown, now) {
                ReadingProgress::More | ReadingProgress::Of(..) => {}
                ReadingProgress::Whole => return Ok(Some(reading)),
                ReadingProgress::Torn => return Ok(None),
                ReadingProgress::Refused(why) => return Err(link.refused(&why)),
            }
        }
    }
}
