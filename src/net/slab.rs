//! The slots of a worker's connections. A slot is used again, each time with a new generation: so a
//! late event or message never reaches a later connection in its slot.

/// Names one occupant of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabKey {
    /// The slot.
    pub index: u32,
    /// How many occupants the slot had before.
    pub generation: u32,
}

impl SlabKey {
    /// Both parts in one word; the index in the low half.
    #[must_use]
    pub const fn packed(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The inverse of [`SlabKey::packed`].
    #[must_use]
    pub const fn unpacked(word: u64) -> Self {
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

struct Slot<T> {
    generation: u32,
    occupant: Option<T>,
}

/// Slots for connections.
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Number of occupants.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no occupant.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives a slot to `occupant`. The caller bounds the number of slots.
    pub fn insert(&mut self, occupant: T) -> SlabKey {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            debug_assert!(slot.occupant.is_none(), "a free slot has no occupant");
            slot.occupant = Some(occupant);
            return SlabKey { index, generation: slot.generation };
        }
        let index = u32::try_from(self.slots.len()).expect("connections are bounded by descriptors");
        self.slots.push(Slot { generation: 0, occupant: Some(occupant) });
        SlabKey { index, generation: 0 }
    }

    /// The occupant that `key` names, if it is still there.
    #[inline]
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation { slot.occupant.as_mut() } else { None }
    }

    /// Takes the occupant out and ends its generation.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let occupant = slot.occupant.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(occupant)
    }

    /// The occupants' keys.
    #[must_use]
    pub fn keys(&self) -> Vec<SlabKey> {
        let occupied = self.slots.iter().zip(0..).filter(|(slot, _)| slot.occupant.is_some());
        occupied.map(|(slot, index)| SlabKey { index, generation: slot.generation }).collect()
    }

    /// The key of the occupant of slot `index`.
    #[must_use]
    pub fn key_of(&self, index: u32) -> Option<SlabKey> {
        let slot = self.slots.get(index as usize)?;
        slot.occupant.as_ref().map(|_| SlabKey { index, generation: slot.generation })
    }
}

#[cfg(test)]
mod tests {
    use super::{Slab, SlabKey};

    #[test]
    fn a_key_dies_with_its_occupant() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(first.index, second.index);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(second), Some(&mut "second"));
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.keys(), [second]);
        assert_eq!(SlabKey::unpacked(second.packed()), second);
    }
}
