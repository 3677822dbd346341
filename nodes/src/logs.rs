//! Streams, as blocks of entries: trimming "about" takes whole blocks. The last name outlives the trimmed and deleted entries,
//! and goes with the key.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::keyspace::{Content, Kind};
use crate::reply::Reply;

/// The name of an entry: milliseconds, and a number among those of one millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryName {
    /// The milliseconds.
    pub ms: u64,
    /// The number within the millisecond.
    pub nth: u64,
}

impl EntryName {
    /// The greatest name.
    pub const LAST: Self = Self { ms: u64::MAX, nth: u64::MAX };

    /// Reads a name. Without a number in it, the number is `nth`.
    #[must_use]
    pub fn read(bytes: &[u8], nth: u64) -> Option<Self> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let text = std::str::from_utf8(bytes).ok()?;
        match text.split_once('-') {
            Some((ms, nth)) => Some(Self { ms: digits(ms)?, nth: digits(nth)? }),
            None => Some(Self { ms: digits(text)?, nth }),
        }
    }

    /// The name behind this one.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match (self.ms, self.nth.checked_add(1)) {
            (ms, Some(nth)) => Some(Self { ms, nth }),
            (u64::MAX, None) => None,
            (ms, None) => Some(Self { ms: ms + 1, nth: 0 }),
        }
    }

    /// The name before this one.
    #[must_use]
    pub const fn before(self) -> Option<Self> {
        match (self.ms, self.nth.checked_sub(1)) {
            (ms, Some(nth)) => Some(Self { ms, nth }),
            (0, None) => None,
            (ms, None) => Some(Self { ms: ms - 1, nth: u64::MAX }),
        }
    }

    fn told(self) -> Reply {
        Reply::bulk(format!("{}-{}", self.ms, self.nth))
    }
}

/// The name that a new entry asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// By this clock in milliseconds, or behind the last name if the clock has gone back.
    Clock(u64),
    /// The next name of this millisecond.
    In(u64),
    /// This name.
    Name(EntryName),
}

/// The part of a log that stays.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Entries(usize),
    From(EntryName),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: EntryName,
    fields: Vec<Vec<u8>>,
    is_out: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Block {
    entries: Vec<Entry>,
}

impl Block {
    fn count(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_out).count()
    }
}

/// A stream. A copy shares its blocks until one of the two changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    blocks: VecDeque<Rc<Block>>,
    count: usize,
    last: EntryName,
}

impl Log {
    /// The number of entries.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Appends an entry, to a new block if the last one is full.
    pub(crate) fn append(&mut self, wanted: Wanted, fields: &[Vec<u8>], block_max: usize) -> Result<EntryName, String> {
        if self.last == EntryName::LAST {
            return Err("ERR The stream has exhausted the last possible ID, unable to add more items".to_owned());
        }
        let last = self.last;
        let name = match wanted {
            Wanted::Clock(now_ms) if now_ms > last.ms => Some(EntryName { ms: now_ms, nth: 0 }),
            Wanted::Clock(_) => last.next(),
            Wanted::In(ms) if ms == last.ms => last.nth.checked_add(1).map(|nth| EntryName { ms, nth }),
            Wanted::In(ms) => Some(EntryName { ms, nth: 0 }),
            Wanted::Name(name) => Some(name),
        };
        let Some(name) = name.filter(|name| *name > last) else {
            let why = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
            return Err(why.to_owned());
        };
        if self.blocks.back().is_none_or(|block| block.entries.len() >= block_max) {
            self.blocks.push_back(Rc::default());
        }
        if let Some(block) = self.blocks.back_mut() {
            Rc::make_mut(block).entries.push(Entry { name, fields: fields.to_vec(), is_out: false });
        }
        self.count += 1;
        self.last = name;
        Ok(name)
    }

    /// Takes the oldest entries out, at most about `work_max`. Gives their number. "About" takes only whole blocks.
    pub(crate) fn trim(&mut self, kept: Kept, is_about: bool, work_max: Option<usize>) -> usize {
        let before = self.count;
        while let Some(block) = self.blocks.front_mut() {
            let count = block.count();
            let is_enough = matches!(kept, Kept::Entries(most) if self.count <= most);
            if is_enough || work_max.is_some_and(|most| before - self.count + count > most) {
                break;
            }
            let is_over = match kept {
                Kept::Entries(most) => self.count - count >= most,
                Kept::From(oldest) => block.entries.last().is_some_and(|last| last.name < oldest),
            };
            if is_over {
                self.count -= count;
                self.blocks.pop_front();
                continue;
            }
            if !is_about {
                for entry in Rc::make_mut(block).entries.iter_mut().filter(|entry| !entry.is_out) {
                    let is_kept = match kept {
                        Kept::Entries(most) => self.count <= most,
                        Kept::From(oldest) => entry.name >= oldest,
                    };
                    if is_kept {
                        break;
                    }
                    entry.is_out = true;
                    self.count -= 1;
                }
            }
            break;
        }
        before - self.count
    }

    /// Takes one entry out. Gives whether it was there.
    pub(crate) fn take_out(&mut self, name: EntryName) -> bool {
        let holds = |block: &Rc<Block>| block.entries.last().is_some_and(|last| last.name >= name);
        let Some(at) = self.blocks.iter().position(holds) else { return false };
        let block = Rc::make_mut(&mut self.blocks[at]);
        let entry = block.entries.iter_mut().find(|entry| entry.name == name && !entry.is_out);
        let Some(entry) = entry else { return false };
        entry.is_out = true;
        self.count -= 1;
        if block.count() == 0 {
            self.blocks.remove(at);
        }
        true
    }

    /// The entries between two names, both included, each as its name and its fields.
    pub(crate) fn between(&self, low: EntryName, high: EntryName) -> impl DoubleEndedIterator<Item = Reply> {
        let from = self.blocks.partition_point(|block| block.entries.last().is_some_and(|last| last.name < low));
        let entries = self.blocks.range(from..).flat_map(|block| &block.entries);
        let wanted = entries.filter(move |entry| !entry.is_out && (low..=high).contains(&entry.name));
        wanted.map(|entry| {
            Reply::Array(vec![entry.name.told(), Reply::Array(entry.fields.iter().map(Reply::bulk).collect())])
        })
    }

    /// All that commands see: the last name, the number of blocks, the entries.
    pub(crate) fn told(&self) -> Reply {
        let entries = self.between(EntryName::default(), EntryName::LAST).collect();
        Reply::Array(vec![self.last.told(), Reply::count(self.blocks.len()), Reply::Array(entries)])
    }
}

impl Kind for Log {
    fn of(content: &mut Content) -> Option<&mut Self> {
        if let Content::Log(log) = content { Some(log) } else { None }
    }

    fn content(self) -> Content {
        Content::Log(self)
    }

    /// An empty stream stays.
    fn is_over(&self) -> bool {
        false
    }
}
