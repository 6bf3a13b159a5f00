//! Lookup of token IDs by text.

use std::borrow::Cow;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// A hash table from texts to consecutive IDs. The texts are stored in one arena.
#[derive(Clone, Debug)]
pub(crate) struct TokenMap {
    arena: Vec<u8>,
    /// The start of each text in the arena, and the end of the last.
    starts: Vec<u32>,
    /// Pairs of the low half of a hash and an ID, or [`EMPTY`].
    slots: Vec<(u32, u32)>,
    longest: usize,
    /// The hash seed. It is fixed, and replaced once texts collide too often.
    state: FixedState,
    /// Occupied slots that insertions passed since the hash seed was set.
    collisions: usize,
}

impl Default for TokenMap {
    fn default() -> Self {
        Self {
            arena: Vec::new(),
            starts: Vec::new(),
            slots: Vec::new(),
            longest: 0,
            state: FixedState::with_seed(0x6767_6d69_6c6c),
            collisions: 0,
        }
    }
}

const EMPTY: u32 = u32::MAX;

/// Splits a hash into the first slot to probe and the tag that is compared first.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "halves")]
fn halves(hash: u64) -> (usize, u32) {
    ((hash >> 32) as usize, hash as u32)
}

impl TokenMap {
    /// Creates an empty map for this number of texts and bytes. Returns `None` if there is not
    /// enough memory.
    pub(crate) fn with_capacity(texts: usize, bytes: usize) -> Option<Self> {
        let slots = texts.checked_mul(2)?.checked_next_power_of_two()?.max(8);
        let mut map = Self::default();
        map.arena.try_reserve_exact(bytes).ok()?;
        map.starts.try_reserve_exact(texts.checked_add(1)?).ok()?;
        map.slots.try_reserve_exact(slots).ok()?;
        map.slots.resize(slots, (0, EMPTY));
        map.starts.push(0);
        Some(map)
    }

    /// Returns a hash of all texts.
    #[cold]
    pub(crate) fn seed(&self) -> u64 {
        self.state.hash_one(&*self.arena)
    }

    /// Returns the number of texts.
    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the text of an ID.
    #[inline]
    pub(crate) fn text(&self, id: u32) -> Option<&[u8]> {
        let start = *self.starts.get(id as usize)? as usize;
        let end = *self.starts.get((id as usize).checked_add(1)?)? as usize;
        self.arena.get(start..end)
    }

    /// Returns the ID of a text.
    #[inline]
    pub(crate) fn get(&self, text: &[u8]) -> Option<u32> {
        if text.len() > self.longest {
            return None;
        }
        self.slot(text).ok()
    }

    /// Looks up many texts. Each stage covers a batch, so that cache misses overlap.
    pub(crate) fn get_many(&self, texts: &[&[u8]], ids: &mut Vec<Option<u32>>) {
        const BATCH: usize = 64;
        let mask = self.slots.len().wrapping_sub(1);
        let mut hashes = [0u64; BATCH];
        let mut found = [(0u32, EMPTY); BATCH];
        let mut bounds = [(0u32, 0u32); BATCH];
        ids.clear();
        for texts in texts.chunks(BATCH) {
            for (slot, text) in hashes.iter_mut().zip(texts) {
                *slot = self.state.hash_one(text);
            }
            for (slot, &hash) in found.iter_mut().zip(&hashes) {
                *slot = self.slots.get(halves(hash).0 & mask).copied().unwrap_or((0, EMPTY));
            }
            for (slot, &(_, id)) in bounds.iter_mut().zip(&found) {
                let start = self.starts.get(id as usize).copied().unwrap_or_default();
                let end = self.starts.get((id as usize).saturating_add(1)).copied();
                *slot = (start, end.unwrap_or_default());
            }
            for (((text, &hash), &(tag, id)), &(start, end)) in
                texts.iter().zip(&hashes).zip(&found).zip(&bounds)
            {
                let is_first = tag == halves(hash).1
                    && self.arena.get(start as usize..end as usize) == Some(*text);
                ids.push(if id == EMPTY {
                    None
                } else if is_first {
                    Some(id)
                } else {
                    self.get(text)
                });
            }
        }
    }

    /// Returns the ID of a text, or the free slot for it and its tag.
    #[inline]
    fn slot(&self, text: &[u8]) -> Result<u32, (usize, u32)> {
        self.probe(text).0
    }

    /// Returns the result of [`slot`](Self::slot) and the number of occupied slots that were
    /// passed.
    #[inline]
    fn probe(&self, text: &[u8]) -> (Result<u32, (usize, u32)>, usize) {
        let mask = self.slots.len().wrapping_sub(1);
        let (first, tag) = halves(self.state.hash_one(text));
        let mut place = first;
        loop {
            let steps = place.wrapping_sub(first);
            place &= mask;
            match self.slots.get(place) {
                Some(&(_, EMPTY)) | None => return (Err((place, tag)), steps),
                Some(&(found, id)) if found == tag && self.text(id) == Some(text) => {
                    return (Ok(id), steps);
                }
                Some(_) => place = first.wrapping_add(steps).wrapping_add(1),
            }
        }
    }

    /// Adds a text with the next ID. For a duplicate, returns its first ID as an error; the next ID
    /// is used up anyway. Returns `None` if there is not enough memory.
    pub(crate) fn push(&mut self, text: &[u8]) -> Option<Result<u32, u32>> {
        let id = u32::try_from(self.len()).ok().filter(|&id| id != EMPTY)?;
        let end = u32::try_from(self.arena.len().checked_add(text.len())?).ok()?;
        if self.len().checked_mul(2)? > self.slots.len() {
            self.grow()?;
        }
        let (mut found, steps) = self.probe(text);
        self.collisions = self.collisions.saturating_add(steps);
        // Half of the slots are free, so that an insertion passes one or two on average.
        if self.collisions > self.slots.len().saturating_mul(16).saturating_add(4096) {
            self.rehash()?;
            found = self.slot(text);
        }
        self.arena.try_reserve(text.len()).ok()?;
        self.arena.extend_from_slice(text);
        self.starts.try_reserve(1).ok()?;
        self.starts.push(end);
        self.longest = self.longest.max(text.len());
        match found {
            Ok(known) => Some(Err(known)),
            Err((place, tag)) => {
                *self.slots.get_mut(place)? = (tag, id);
                Some(Ok(id))
            }
        }
    }

    /// Adds texts with the next IDs, as [`push`](Self::push) does, so that cache misses overlap.
    /// Stops at a duplicate and returns its first ID and the ID of the duplicate.
    pub(crate) fn push_many(&mut self, texts: &[Cow<'_, [u8]>]) -> Option<Result<(), (u32, u32)>> {
        let mask = self.slots.len().wrapping_sub(1);
        let is_free = |text: &[u8]| {
            let place = halves(self.state.hash_one(text)).0 & mask;
            self.slots.get(place).is_some_and(|&(_, id)| id == EMPTY)
        };
        // Loads the slots into the cache.
        std::hint::black_box(texts.iter().filter(|text| is_free(text)).count());
        for text in texts {
            let id = u32::try_from(self.len()).ok()?;
            if let Err(first) = self.push(text)? {
                return Some(Err((first, id)));
            }
        }
        Some(Ok(()))
    }

    fn grow(&mut self) -> Option<()> {
        self.resize(self.slots.len().max(4).checked_mul(2)?)
    }

    /// Hashes all texts again with a seed that depends on them, since they were chosen to collide.
    #[cold]
    fn rehash(&mut self) -> Option<()> {
        self.state = FixedState::with_seed(self.seed());
        self.collisions = 0;
        self.resize(self.slots.len())
    }

    /// Places all texts into `size` slots.
    fn resize(&mut self, size: usize) -> Option<()> {
        let mut slots: Vec<(u32, u32)> = Vec::new();
        slots.try_reserve_exact(size).ok()?;
        slots.resize(size, (0, EMPTY));
        let old = std::mem::replace(&mut self.slots, slots);
        for (_, id) in old {
            if id != EMPTY {
                let place = self.text(id).map(|text| self.slot(text));
                if let Some(Err((place, tag))) = place {
                    *self.slots.get_mut(place)? = (tag, id);
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that were chosen to collide do not take quadratic time.
    #[test]
    fn colliding_texts_are_hashed_again() {
        const TEXTS: usize = 3000;
        let mut map = TokenMap::with_capacity(TEXTS, 0).unwrap();
        let mask = map.slots.len() - 1;
        let first =
            |map: &TokenMap, text: &str| halves(map.state.hash_one(text.as_bytes())).0 & mask;
        let collide =
            (0u64..).map(|number| number.to_string()).filter(|text| first(&map, text) < 16);
        let texts: Vec<String> = collide.take(TEXTS).collect();
        let mut most = 0;
        for (id, text) in (0..).zip(&texts) {
            assert_eq!(map.push(text.as_bytes()), Some(Ok(id)));
            most = most.max(map.collisions);
        }
        assert!(most <= map.slots.len() * 16 + 4096 + TEXTS, "{most}");
        assert!(map.collisions < TEXTS * 8, "{} collisions after that", map.collisions);
        for (id, text) in (0..).zip(&texts) {
            assert_eq!(map.get(text.as_bytes()), Some(id));
            assert_eq!(map.push(text.as_bytes()), Some(Err(id)));
        }
        assert_eq!(map.get(b"x"), None);
    }
}
