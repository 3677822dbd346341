//! Deadlines of a worker's connections, at a cost per turn that does not grow with their number.
//!
//! Every class has one length, so a queue in order of arrival is in order of expiry too. Setting,
//! clearing and finding the next cost a few writes. The front of the idle queue is also the
//! connection that has been idle longest.

use crate::http::wait::WaitSeconds;
use crate::limits::WAITS_END_EVERY_MS;
use crate::lists::{Ends, Links};

/// The event that must happen to a connection in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A request that was begun must become whole.
    Request,
    /// An idle connection must ask again.
    Idle,
    /// The peer must take the unsent output.
    Write,
    /// A connection that was shut must be closed by its peer.
    Linger,
    /// A connection on which nothing was asked yet must ask.
    Fresh,
    /// A waiting request is to be answered. Each number of seconds is a class: every class has one length.
    Waiting(WaitSeconds),
}

/// The classes except those of waiting requests. Each of the first [`KEYED`] has a second queue, for clients that have
/// shown the key.
const COMMON: [Class; 5] = [Class::Request, Class::Idle, Class::Write, Class::Linger, Class::Fresh];
const KEYED: usize = 3;
const QUEUES: usize = COMMON.len() + KEYED + WaitSeconds::MAX as usize;
const _: () = assert!(QUEUES <= u64::BITS as usize, "the queues in use are bits of a word");

impl Class {
    fn all() -> impl Iterator<Item = Self> {
        let waits = (1..=u64::from(WaitSeconds::MAX)).filter_map(WaitSeconds::at_most).map(Self::Waiting);
        COMMON.into_iter().chain(waits)
    }

    /// The index of the class's queue. Waiting requests come last, behind the queues of clients with the key.
    const fn index(self) -> usize {
        match self {
            Self::Request => 0,
            Self::Idle => 1,
            Self::Write => 2,
            Self::Linger => 3,
            Self::Fresh => 4,
            Self::Waiting(seconds) => COMMON.len() + KEYED + seconds.get() as usize - 1,
        }
    }
}

/// The event that a connection has a deadline for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The event.
    pub class: Class,
    /// The client has shown the key. It has a queue of its own, as newcomers do not evict it like the others.
    pub is_keyed: bool,
}

impl Awaited {
    const fn queue(self) -> usize {
        let class = self.class.index();
        if self.is_keyed && class < KEYED { COMMON.len() + class } else { class }
    }
}

impl From<Class> for Awaited {
    /// Of clients that have not shown the key.
    fn from(class: Class) -> Self {
        Self { class, is_keyed: false }
    }
}

#[derive(Clone, Copy)]
struct Deadline {
    due_ms: u64,
    awaited: Awaited,
}

/// At most one deadline for each connection, by the index of its slot.
pub struct Deadlines {
    links: Links<Deadline>,
    queues: [Ends; QUEUES],
    lengths_ms: [u64; QUEUES],
    /// How many connections have had the last answer and have only to go.
    lingering: usize,
    /// Queues with a deadline, by their bits.
    in_use: u64,
}

impl Deadlines {
    /// No deadline yet; the lengths of the classes in milliseconds.
    #[must_use]
    pub fn new(length_ms: impl Fn(Class) -> u64) -> Self {
        let mut lengths_ms = [0; QUEUES];
        for class in Class::all() {
            lengths_ms[class.index()] = length_ms(class);
        }
        Self { links: Links::default(), queues: [Ends::EMPTY; QUEUES], lengths_ms, lingering: 0, in_use: 0 }
    }

    /// Gives `index` a deadline from `now_ms`, in place of any that it had. Those of waiting requests fall together,
    /// see [`WAITS_END_EVERY_MS`].
    pub fn set(&mut self, index: u32, awaited: Awaited, now_ms: u64) {
        self.clear(index);
        let mut due_ms = now_ms.saturating_add(self.lengths_ms[awaited.class.index()]);
        if let Class::Waiting(_) = awaited.class {
            due_ms = due_ms.next_multiple_of(WAITS_END_EVERY_MS);
        }
        self.lingering += usize::from(awaited.class == Class::Linger);
        self.in_use |= 1 << awaited.queue();
        self.links.push(&mut self.queues[awaited.queue()], index, Deadline { due_ms, awaited });
    }

    /// Takes the deadline of `index` away.
    pub fn clear(&mut self, index: u32) {
        let Some(awaited) = self.awaited(index) else { return };
        let queue = &mut self.queues[awaited.queue()];
        self.links.remove(queue, index);
        if queue.front().is_none() {
            self.in_use &= !(1 << awaited.queue());
        }
        self.lingering -= usize::from(awaited.class == Class::Linger);
    }

    /// The event that `index` has a deadline for.
    #[must_use]
    pub fn awaited(&self, index: u32) -> Option<Awaited> {
        self.links.get(index).map(|deadline| deadline.awaited)
    }

    /// The class of the deadline of `index`.
    #[must_use]
    pub fn class(&self, index: u32) -> Option<Class> {
        self.awaited(index).map(|awaited| awaited.class)
    }

    /// The connection whose deadline of this kind was set first.
    #[must_use]
    pub fn oldest(&self, awaited: Awaited) -> Option<u32> {
        self.queues[awaited.queue()].front()
    }

    /// How many connections have had the last answer and have only to go.
    #[must_use]
    pub const fn lingering(&self) -> usize {
        self.lingering
    }

    /// Which waiting request is to be answered next.
    #[must_use]
    pub fn next_waiting(&self) -> Option<u32> {
        let waiting = self.fronts().filter(|(_, deadline)| matches!(deadline.awaited.class, Class::Waiting(_)));
        waiting.min_by_key(|(_, deadline)| deadline.due_ms).map(|(index, _)| index)
    }

    /// How long ago the deadline of `index` was set.
    #[must_use]
    pub fn age_ms(&self, index: u32, now_ms: u64) -> u64 {
        let set_ms = self
            .links
            .get(index)
            .and_then(|Deadline { due_ms, awaited }| due_ms.checked_sub(self.lengths_ms[awaited.class.index()]));
        set_ms.map_or(0, |set_ms| now_ms.saturating_sub(set_ms))
    }

    /// When the next deadline falls, in milliseconds of the same clock.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.fronts().map(|(_, deadline)| deadline.due_ms).min()
    }

    /// Takes one deadline that has fallen by `now_ms`.
    pub fn expire(&mut self, now_ms: u64) -> Option<(u32, Class)> {
        let (index, deadline) = self.fronts().find(|(_, deadline)| deadline.due_ms <= now_ms)?;
        self.clear(index);
        Some((index, deadline.awaited.class))
    }

    fn fronts(&self) -> impl Iterator<Item = (u32, Deadline)> {
        let lowest = |bits: u64| (bits != 0).then_some(bits);
        let in_use = std::iter::successors(lowest(self.in_use), move |bits| lowest(bits & (bits - 1)));
        let fronts = in_use.filter_map(|bits| self.queues[bits.trailing_zeros() as usize].front());
        fronts.filter_map(|front| self.links.get(front).map(|deadline| (front, *deadline)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Deadlines};
    use crate::http::wait::WaitSeconds;
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};

    fn deadlines() -> Deadlines {
        Deadlines::new(|class| match class {
            Class::Request => 10,
            Class::Idle => 75,
            Class::Write => 30,
            Class::Linger => 2,
            Class::Fresh => 99,
            Class::Waiting(seconds) => u64::from(seconds.get()) * 250,
        })
    }

    fn waiting(seconds: u64) -> Class {
        Class::Waiting(WaitSeconds::at_most(seconds).expect("a second at least"))
    }

    proptest! {
        #[test]
        fn they_behave_as_a_list(steps in vec((0..6u32, 0..8usize), 0..200)) {
            let classes = [Class::Request, Class::Idle, Class::Write, Class::Linger, waiting(1), waiting(50)];
            let due_ms = |action, now_ms: u64| match action {
                4 | 5 => (now_ms + [250, 12_500][action - 4]).next_multiple_of(250),
                _ => now_ms + [10, 75, 30, 2][action],
            };
            let mut deadlines = deadlines();
            let mut model: Vec<(u32, usize, u64)> = Vec::new();
            for (now_ms, (index, action)) in (0_u64..).zip(steps) {
                model.retain(|entry| entry.0 != index || action == 7);
                match action {
                    0..=5 => {
                        deadlines.set(index, classes[action].into(), now_ms);
                        model.push((index, action, due_ms(action, now_ms)));
                    }
                    6 => deadlines.clear(index),
                    _ => while let Some((index, class)) = deadlines.expire(now_ms) {
                        let at = model.iter().position(|entry| entry.0 == index && entry.2 <= now_ms);
                        prop_assert_eq!(at.map(|at| model.remove(at).1), classes.iter().position(|other| *other == class));
                    },
                }
                if action == 7 {
                    prop_assert_eq!(model.iter().filter(|entry| entry.2 <= now_ms).count(), 0);
                }
                prop_assert_eq!(deadlines.next_ms(), model.iter().map(|entry| entry.2).min());
                let waiting = model.iter().filter(|entry| entry.1 == 4 || entry.1 == 5).min_by_key(|entry| (entry.2, entry.1));
                prop_assert_eq!(deadlines.next_waiting(), waiting.map(|entry| entry.0));
                let idle = model.iter().find(|entry| entry.1 == 1).map(|entry| entry.0);
                prop_assert_eq!(deadlines.oldest(Class::Idle.into()), idle);
                prop_assert_eq!(deadlines.lingering(), model.iter().filter(|entry| entry.1 == 3).count());
            }
        }
    }
}
