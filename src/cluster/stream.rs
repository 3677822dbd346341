//! The store's log: read from a position on, and checked to have no hole.

use redis::cmd;

use super::entry::{self, EntryId, EntryLine, LogEntry, Position, items};
use super::feed_error::FeedError;
use super::keys;
use super::link::{LinkError, StoreLink};
use super::reason::RebuildCause;

/// How long the store waits for a new entry before it answers that there is none, in milliseconds. An empty
/// answer too says how fresh the state is.
const BLOCK_MS: u64 = 200;

/// How far the log was read.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// To this entry of ours.
    pub position: Position,
    /// To the entry of this name, which another program may have written behind that one.
    cursor: EntryId,
}

/// What was read of the log.
#[derive(Debug, Default)]
pub struct Read {
    /// Our entries.
    pub entries: Vec<LogEntry>,
    /// Entries that another program wrote, between ours: they are passed over.
    pub strange: Vec<EntryId>,
    /// The name of the last entry of both kinds. The next read begins behind it.
    end: EntryId,
    /// Whether the log ended there.
    pub is_all: bool,
}

impl Tail {
    /// To an entry of ours.
    #[must_use]
    pub const fn at(position: Position) -> Self {
        Self { position, cursor: position.id }
    }

    /// Goes on by at most `link.entries_max` entries; waits for one where `is_patient`.
    ///
    /// # Errors
    /// Where the log cannot be read, or does not go on from here.
    pub fn advance(&mut self, link: &mut StoreLink, is_patient: bool) -> Result<Read, FeedError> {
        let read = read(link, self.cursor, is_patient)?;
        self.position = follow(self.position, &read.entries).map_err(FeedError::Broken)?;
        self.cursor = read.end;
        Ok(read)
    }
}

/// Entries behind `after`, at most `link.entries_max`; waits for one where `is_patient`.
///
/// # Errors
/// Where the log cannot be read; [`RebuildCause::Gap`] where one of ours makes no sense. It cannot
/// be followed then, and the state has to be read whole behind it.
fn read(link: &mut StoreLink, after: EntryId, is_patient: bool) -> Result<Read, FeedError> {
    let mut command = cmd("XREAD");
    command.arg("COUNT").arg(link.entries_max);
    if is_patient {
        command.arg("BLOCK").arg(BLOCK_MS);
    }
    let reply = link.ask(command.arg("STREAMS").arg(keys::LOG).arg(after.to_string()))?;
    let lines = entry::lines(&reply).ok_or_else(|| link.strange("a log"))?;
    let mut read = Read { end: after, is_all: lines.len() < link.entries_max, ..Read::default() };
    for line in lines {
        match line {
            EntryLine::Ours(entry) => {
                read.end = entry.position.id;
                read.entries.push(entry);
            }
            EntryLine::Strange(id) => {
                read.end = id;
                read.strange.push(id);
            }
            EntryLine::Unreadable(id) => {
                let host = link.host();
                log::warn!("entry {id} of the log of the store at {host} is of a form that this version does not know");
                return Err(FeedError::Broken(RebuildCause::Gap));
            }
        }
    }
    if !read.is_all {
        read.end_with_whole_votes();
    }
    Ok(read)
}

impl Read {
    /// Leaves the entries of a vote to the next read where not all of them have come: all of its addresses are
    /// shown, or none. The store writes them in one step, so only a read that is full can end between them.
    fn end_with_whole_votes(&mut self) {
        let Some(last_whole) = self.entries.iter().rposition(|entry| entry.more == 0) else { return };
        if last_whole + 1 < self.entries.len() {
            self.entries.truncate(last_whole + 1);
            self.end = self.entries[last_whole].position.id;
        }
    }
}

/// Whether the log still has the entry at `position`: then the store has lost nothing of what came up to it.
///
/// # Errors
/// Either kind.
pub fn has(link: &mut StoreLink, position: Position) -> Result<bool, LinkError> {
    let name = position.id.to_string();
    let reply = link.ask(cmd("XREVRANGE").arg(keys::LOG).arg(&name).arg(&name).arg("COUNT").arg(1))?;
    let found = items(&reply).and_then(|lines| entry::line(lines.first()?));
    Ok(matches!(found, Some(EntryLine::Ours(found)) if found.position == position))
}

/// How far `entries` go from `position`.
///
/// # Errors
/// Where their numbers do not follow: [`RebuildCause::Gap`] where some were missed, [`RebuildCause::History`]
/// where they go on from an earlier point than this one. A read from a position that is gone gives
/// no error: the numbers alone tell.
fn follow(mut reached: Position, entries: &[LogEntry]) -> Result<Position, RebuildCause> {
    for LogEntry { position: next, .. } in entries {
        if next.n > reached.n + 1 {
            return Err(RebuildCause::Gap);
        }
        if next.n <= reached.n {
            return Err(RebuildCause::History);
        }
        reached = *next;
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::Read;
    use crate::cluster::entry::{EntryId, LogEntry, Position};
    use crate::store::Event;
    use crate::vote::id::ServerId;

    fn at(n: u64) -> Position {
        Position { n, id: EntryId { ms: n * 10, sequence: 0 } }
    }

    fn entries(numbers: &[u64]) -> Vec<LogEntry> {
        numbers
            .iter()
            .map(|n| LogEntry { position: at(*n), more: 0, event: Event::ServerRemoved(ServerId(1)), listing: None })
            .collect()
    }

    #[test]
    fn a_vote_is_read_with_all_its_entries_or_none() {
        let read = |more: &[u32]| {
            let mut all = entries(&(1..=more.len() as u64).collect::<Vec<_>>());
            all.iter_mut().zip(more).for_each(|(entry, more)| entry.more = *more);
            let mut read = Read { end: at(99).id, entries: all, ..Read::default() };
            read.end_with_whole_votes();
            (read.entries.len(), read.end)
        };
        assert_eq!(read(&[0, 2, 1, 0]), (4, at(99).id), "whole");
        assert_eq!(read(&[0, 2, 1]), (1, at(1).id));
        assert_eq!(read(&[1, 0, 1]), (2, at(2).id));
        // No vote has so many: what is there is followed rather than waited for.
        assert_eq!(read(&[3, 2, 1]), (3, at(99).id));
    }
}
