//! Doubly linked lists of slots: a slot is put in and taken out with a few writes, however long the list is. The owner
//! keeps the two [`Ends`] of each list. Lists share one [`Links`] if a slot stands in at most one of them.

const NONE: u32 = u32::MAX;

/// The first and the last slot of one list.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    front: u32,
    back: u32,
}

impl Ends {
    /// The ends of an empty list.
    pub const EMPTY: Self = Self { front: NONE, back: NONE };

    /// The slot that was put in first.
    #[must_use]
    pub const fn front(self) -> Option<u32> {
        if self.front == NONE { None } else { Some(self.front) }
    }
}

#[derive(Clone, Debug)]
struct Link<T> {
    before: u32,
    behind: u32,
    /// `None` where the slot stands in no list.
    item: Option<T>,
}

/// The data beside each slot: its neighbours, and an item of the owner's.
#[derive(Clone, Debug)]
pub struct Links<T>(Vec<Link<T>>);

impl<T> Default for Links<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Links<T> {
    /// The item of a slot that stands in a list.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.0.get(index as usize).and_then(|link| link.item.as_ref())
    }

    /// All items, in no order.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|link| link.item.as_ref())
    }

    /// Puts a slot that stands in no list at the end of this one.
    pub fn push(&mut self, list: &mut Ends, index: u32, item: T) {
        let at = index as usize;
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || Link { before: NONE, behind: NONE, item: None });
        }
        debug_assert!(self.0[at].item.is_none(), "a slot stands in one list");
        let last = std::mem::replace(&mut list.back, index);
        match last {
            NONE => list.front = index,
            _ => self.0[last as usize].behind = index,
        }
        self.0[at] = Link { before: last, behind: NONE, item: Some(item) };
    }

    /// Takes a slot out of the list that it stands in.
    pub fn remove(&mut self, list: &mut Ends, index: u32) -> Option<T> {
        let link = self.0.get_mut(index as usize)?;
        let item = link.item.take()?;
        let (before, behind) = (link.before, link.behind);
        match before {
            NONE => list.front = behind,
            _ => self.0[before as usize].behind = behind,
        }
        match behind {
            NONE => list.back = before,
            _ => self.0[behind as usize].before = before,
        }
        Some(item)
    }
}
