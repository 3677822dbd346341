//! Deadlines of a worker's connections, at a cost per turn that does not grow with their number.
//!
//! Every class has one length, so a queue in order of arrival is in order of expiry too: setting,
//! clearing and finding the next are a few writes. The front of the idle queue is also the
//! connection that has been idle longest.

use crate::http::wait::WaitSeconds;
use crate::limits::WAITS_END_EVERY_MS;

/// What a connection is waited on for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A request that was begun must become whole.
    Request,
    /// An idle connection must ask again.
    Idle,
    /// The peer must take what waits to be sent.
    Write,
    /// A connection that was shut must be closed by its peer.
    Linger,
    /// A connection on which nothing was asked yet must ask.
    Fresh,
    /// As those without `Keyed`, of a client that has shown the key.
    KeyedRequest,
    /// See [`Class::KeyedRequest`].
    KeyedIdle,
    /// See [`Class::KeyedRequest`].
    KeyedWrite,
    /// A held request is to be answered. Each number of seconds is a class: every class has one length.
    Waiting(WaitSeconds),
}

/// Classes but for those of held requests.
const COMMON: [Class; 8] = [
    Class::Request,
    Class::Idle,
    Class::Write,
    Class::Linger,
    Class::Fresh,
    Class::KeyedRequest,
    Class::KeyedIdle,
    Class::KeyedWrite,
];
const CLASSES: usize = COMMON.len() + WaitSeconds::MAX as usize;
const _: () = assert!(CLASSES <= u64::BITS as usize, "the queues in use are bits of a word");

impl Class {
    fn all() -> impl Iterator<Item = Self> {
        let waits = (1..=u64::from(WaitSeconds::MAX)).filter_map(WaitSeconds::at_most).map(Self::Waiting);
        COMMON.into_iter().chain(waits)
    }

    /// The place of its queue: those of held requests come last.
    const fn index(self) -> usize {
        match self {
            Self::Request => 0,
            Self::Idle => 1,
            Self::Write => 2,
            Self::Linger => 3,
            Self::Fresh => 4,
            Self::KeyedRequest => 5,
            Self::KeyedIdle => 6,
            Self::KeyedWrite => 7,
            Self::Waiting(seconds) => COMMON.len() + seconds.get() as usize - 1,
        }
    }

    /// The same for a client that has shown the key.
    #[must_use]
    pub const fn keyed(self) -> Self {
        match self {
            Self::Request | Self::KeyedRequest => Self::KeyedRequest,
            Self::Idle | Self::Fresh | Self::KeyedIdle => Self::KeyedIdle,
            Self::Write | Self::KeyedWrite => Self::KeyedWrite,
            Self::Linger | Self::Waiting(_) => self,
        }
    }
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct QueueLink {
    class: Option<Class>,
    due_ms: u64,
    before: u32,
    behind: u32,
}

#[derive(Clone, Copy)]
struct DeadlineQueue {
    front: u32,
    back: u32,
    count: usize,
    length_ms: u64,
}

/// At most one deadline for each connection, by the index of its slot.
pub struct Deadlines {
    links: Vec<QueueLink>,
    queues: [DeadlineQueue; CLASSES],
    /// Queues that hold somebody, by their bits.
    in_use: u64,
}

impl Deadlines {
    /// No deadline yet; the lengths of the classes in milliseconds.
    #[must_use]
    pub fn new(length_ms: impl Fn(Class) -> u64) -> Self {
        let mut queues = [DeadlineQueue { front: NONE, back: NONE, count: 0, length_ms: 0 }; CLASSES];
        for class in Class::all() {
            queues[class.index()].length_ms = length_ms(class);
        }
        Self { links: Vec::new(), queues, in_use: 0 }
    }

    /// Gives `index` a deadline of `class` from `now_ms`, in place of any that it had. Those of held requests fall
    /// together, see [`WAITS_END_EVERY_MS`].
    pub fn set(&mut self, index: u32, class: Class, now_ms: u64) {
        self.clear(index);
        let at = index as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, QueueLink { class: None, due_ms: 0, before: NONE, behind: NONE });
        }
        let queue = &mut self.queues[class.index()];
        self.in_use |= 1 << class.index();
        let mut due_ms = now_ms.saturating_add(queue.length_ms);
        if let Class::Waiting(_) = class {
            due_ms = due_ms.next_multiple_of(WAITS_END_EVERY_MS);
        }
        let last = queue.back;
        queue.back = index;
        queue.count += 1;
        if last == NONE {
            queue.front = index;
        } else {
            self.links[last as usize].behind = index;
        }
        self.links[at] = QueueLink { class: Some(class), due_ms, before: last, behind: NONE };
    }

    /// Takes the deadline of `index` away.
    pub fn clear(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else { return };
        let Some(class) = link.class.take() else { return };
        let (before, behind) = (link.before, link.behind);
        let queue = &mut self.queues[class.index()];
        queue.count -= 1;
        if queue.count == 0 {
            self.in_use &= !(1 << class.index());
        }
        match before {
            NONE => queue.front = behind,
            _ => self.links[before as usize].behind = behind,
        }
        match behind {
            NONE => self.queues[class.index()].back = before,
            _ => self.links[behind as usize].before = before,
        }
    }

    /// The class of the deadline of `index`.
    #[must_use]
    pub fn class(&self, index: u32) -> Option<Class> {
        self.links.get(index as usize).and_then(|link| link.class)
    }

    /// Who has waited longest in a class.
    #[must_use]
    pub fn oldest(&self, class: Class) -> Option<u32> {
        let front = self.queues[class.index()].front;
        (front != NONE).then_some(front)
    }

    /// How many wait in a class.
    #[must_use]
    pub const fn count(&self, class: Class) -> usize {
        self.queues[class.index()].count
    }

    /// Which held request is to be answered next.
    #[must_use]
    pub fn next_waiting(&self) -> Option<u32> {
        let waiting = self.fronts().filter(|front| matches!(self.class(front.0), Some(Class::Waiting(_))));
        waiting.min_by_key(|(_, due_ms)| *due_ms).map(|(index, _)| index)
    }

    /// Who waits in a class, the longest first.
    pub fn waiting(&self, class: Class) -> impl Iterator<Item = u32> {
        let behind = |index: &u32| self.links.get(*index as usize).map(|link| link.behind).filter(|next| *next != NONE);
        std::iter::successors(self.oldest(class), behind)
    }

    /// How long `index` has waited for what it has a deadline for.
    #[must_use]
    pub fn waits_ms(&self, index: u32, now_ms: u64) -> u64 {
        let link = self.links.get(index as usize);
        let since_ms = link.and_then(|link| link.due_ms.checked_sub(self.queues[link.class?.index()].length_ms));
        since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms))
    }

    /// When the next deadline falls, in milliseconds of the same clock.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.fronts().map(|(_, due_ms)| due_ms).min()
    }

    /// Takes one deadline that has fallen by `now_ms`.
    pub fn expire(&mut self, now_ms: u64) -> Option<(u32, Class)> {
        let (index, _) = self.fronts().find(|(_, due_ms)| *due_ms <= now_ms)?;
        let class = self.class(index)?;
        self.clear(index);
        Some((index, class))
    }

    fn fronts(&self) -> impl Iterator<Item = (u32, u64)> {
        let lowest = |bits: u64| (bits != 0).then_some(bits);
        let in_use = std::iter::successors(lowest(self.in_use), move |bits| lowest(bits & (bits - 1)));
        in_use.map(|bits| {
            let front = self.queues[bits.trailing_zeros() as usize].front;
            (front, self.links[front as usize].due_ms)
        })
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
            Class::Fresh | Class::KeyedRequest | Class::KeyedIdle | Class::KeyedWrite => 99,
            Class::Waiting(seconds) => u64::from(seconds.get()) * 250,
        })
    }

    #[test]
    fn they_fall_in_order() {
        let mut deadlines = deadlines();
        deadlines.set(0, Class::Idle, 100);
        deadlines.set(1, Class::Request, 100);
        deadlines.set(2, Class::Idle, 101);
        assert_eq!(deadlines.next_ms(), Some(110));
        assert_eq!(deadlines.expire(109), None);
        assert_eq!(deadlines.expire(110), Some((1, Class::Request)));
        assert_eq!(deadlines.oldest(Class::Idle), Some(0));
        deadlines.set(0, Class::Idle, 102);
        assert_eq!(deadlines.oldest(Class::Idle), Some(2));
        deadlines.clear(2);
        assert_eq!(deadlines.next_ms(), Some(177));
        assert_eq!(deadlines.expire(200), Some((0, Class::Idle)));
        assert_eq!(deadlines.next_ms(), None);
    }

    fn waiting(seconds: u64) -> Class {
        Class::Waiting(WaitSeconds::at_most(seconds).expect("a second at least"))
    }

    /// The first that is due is the first of all classes, whichever was set first.
    #[test]
    fn each_number_of_seconds_has_a_queue_of_its_own() {
        let mut deadlines = deadlines();
        assert_eq!(deadlines.next_waiting(), None);
        for (index, seconds) in [(0, 50), (1, 1), (2, 25), (3, 1)] {
            deadlines.set(index, waiting(seconds), 100);
        }
        deadlines.set(4, Class::Linger, 100);
        assert_eq!((deadlines.next_ms(), deadlines.next_waiting()), (Some(102), Some(1)));
        let mut expired = |now_ms| std::iter::from_fn(|| deadlines.expire(now_ms)).collect::<Vec<_>>();
        assert_eq!(expired(500), [(4, Class::Linger), (1, waiting(1)), (3, waiting(1))]);
        assert_eq!(expired(12_749), [(2, waiting(25))]);
        assert_eq!(expired(12_750), [(0, waiting(50))]);
    }

    /// A turn for each of thousands costs several times what the answers do.
    #[test]
    fn held_requests_end_together_and_none_too_early() {
        let mut deadlines = deadlines();
        for (index, now_ms) in [(0, 250), (1, 251), (2, 400), (3, 500), (4, 501)] {
            deadlines.set(index, waiting(1), now_ms);
        }
        let mut expired =
            |now_ms| std::iter::from_fn(|| deadlines.expire(now_ms)).map(|(index, _)| index).collect::<Vec<_>>();
        assert!(expired(499).is_empty());
        assert_eq!(expired(500), [0]);
        assert!(expired(749).is_empty());
        assert_eq!(expired(750), [1, 2, 3]);
        assert_eq!(expired(1_000), [4]);
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
                        deadlines.set(index, classes[action], now_ms);
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
                let idle = model.iter().find(|entry| entry.1 == 1).map(|entry| entry.0);
                prop_assert_eq!(deadlines.oldest(Class::Idle), idle);
                let idle: Vec<u32> = model.iter().filter(|entry| entry.1 == 1).map(|entry| entry.0).collect();
                prop_assert_eq!(deadlines.count(Class::Idle), idle.len());
                prop_assert_eq!(deadlines.waiting(Class::Idle).collect::<Vec<_>>(), idle);
            }
        }
    }
}
