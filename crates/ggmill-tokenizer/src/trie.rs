//! A double-array trie: a step is one load.

use crate::work::Work;

/// A map from texts to values. A node is the index of a unit; the root is 0.
#[derive(Debug, Default)]
pub(crate) struct Trie {
    units: Vec<Unit>,
}

/// A node. Its child by a byte is at `base ^ byte`, if the `parent` of that unit is this node.
#[derive(Clone, Copy, Debug)]
struct Unit {
    base: u32,
    parent: u32,
    value: u32,
}

/// No value, parent or children.
const NONE: u32 = u32::MAX;
const FREE: Unit = Unit { base: NONE, parent: NONE, value: NONE };
/// The units that contain all children of a node.
const BLOCK: usize = 256;
/// The most blocks in which free units are searched.
const OPEN: usize = 12;

/// The root node.
pub(crate) const ROOT: u32 = 0;

impl Trie {
    /// Builds a trie. Empty texts are ignored; the last of equal texts counts. Returns `None` if
    /// there is not enough memory, or if more than 2^31 units are needed.
    pub(crate) fn new<'a>(texts: impl Iterator<Item = (&'a [u8], u32)>) -> Option<Self> {
        let mut sorted: Vec<(u64, &[u8], u32)> = Vec::new();
        for (text, value) in texts.filter(|(text, _)| !text.is_empty()) {
            sorted.try_reserve(1).ok()?;
            sorted.push((first_eight(text), text, value));
        }
        // The sort is stable: the last of equal texts stays last.
        sorted.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        let mut builder = Builder { trie: Self { units: Vec::new() }, open: Vec::new() };
        builder.block()?;
        builder.trie.units[0].parent = 0;
        builder.open[0].1 -= 1;
        // Nodes whose children are not placed: the node, the range of its texts, and its depth.
        let mut waiting: Vec<(u32, usize, usize, usize)> = vec![(ROOT, 0, sorted.len(), 0)];
        let mut children: Vec<(u8, usize, usize)> = Vec::new();
        while let Some((node, mut from, to, depth)) = waiting.pop() {
            while let Some(&(_, text, value)) = sorted.get(from).filter(|_| from < to) {
                if text.len() > depth {
                    break;
                }
                builder.trie.units[node as usize].value = value;
                from += 1;
            }
            children.clear();
            while from < to {
                let byte = sorted[from].1[depth];
                let end =
                    from + sorted[from..to].partition_point(|(_, text, _)| text[depth] == byte);
                children.push((byte, from, end));
                from = end;
            }
            if children.is_empty() {
                continue;
            }
            let base = builder.place(&children)?;
            builder.trie.units[node as usize].base = base;
            for &(byte, from, to) in &children {
                let child = base ^ u32::from(byte);
                builder.trie.units[child as usize].parent = node;
                waiting.push((child, from, to, depth + 1));
            }
        }
        Some(builder.trie)
    }

    /// Returns the number of units, which is more than the greatest node.
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Returns all nodes except the root, each with its parent and the byte between them, in the order
    /// of their depths. Returns `None` if there is not enough memory.
    pub(crate) fn by_depth(&self) -> Option<Vec<(u32, u32, u8)>> {
        let mut depths: Vec<u32> = Vec::new();
        depths.try_reserve_exact(self.units.len()).ok()?;
        depths.resize(self.units.len(), 0);
        let mut nodes = Vec::new();
        let mut path = Vec::new();
        for (node, unit) in (0u32..).zip(&self.units) {
            if node == ROOT || unit.parent == NONE {
                continue;
            }
            nodes.try_reserve(1).ok()?;
            let byte = self.units.get(unit.parent as usize)?.base ^ node;
            nodes.push((node, unit.parent, u8::try_from(byte).ok()?));
            // The depth is that of the nearest ancestor with a known one, plus the path to it.
            let mut at = node;
            while at != ROOT && depths[at as usize] == 0 {
                path.push(at);
                at = self.units.get(at as usize)?.parent;
            }
            let mut depth = depths[at as usize];
            while let Some(on_path) = path.pop() {
                depth += 1;
                depths[on_path as usize] = depth;
            }
        }
        nodes.sort_by_key(|&(node, ..)| depths[node as usize]);
        Some(nodes)
    }

    /// Returns the child of a node by a byte.
    #[inline]
    pub(crate) fn step(&self, node: u32, byte: u8) -> Option<u32> {
        let child = self.units.get(node as usize)?.base ^ u32::from(byte);
        (self.units.get(child as usize)?.parent == node && child != ROOT).then_some(child)
    }

    /// Returns the value of the text that leads to a node.
    #[inline]
    pub(crate) fn value(&self, node: u32) -> Option<u32> {
        self.units.get(node as usize).map(|unit| unit.value).filter(|&value| value != NONE)
    }

    /// Returns the length and value of the longest text that is a prefix of the bytes, and takes a
    /// step for each byte.
    #[inline]
    pub(crate) fn longest_within(&self, bytes: &[u8], budget: &mut Work) -> Option<(usize, u32)> {
        let mut steps = 0;
        let found = self.walk(bytes, |place| steps = place);
        if budget.take(steps) { found } else { None }
    }

    /// Returns the length and value of the longest text that is a prefix of the bytes.
    #[cfg(test)]
    pub(crate) fn longest(&self, bytes: &[u8]) -> Option<(usize, u32)> {
        self.walk(bytes, |_| {})
    }

    #[inline]
    fn walk(&self, bytes: &[u8], mut step: impl FnMut(usize)) -> Option<(usize, u32)> {
        let mut node = ROOT;
        let mut found = None;
        for (place, &byte) in bytes.iter().enumerate() {
            let Some(next) = self.step(node, byte) else { break };
            node = next;
            step(place + 1);
            if let Some(value) = self.value(node) {
                found = Some((place + 1, value));
            }
        }
        found
    }

    /// Calls `found` with the length and value of each text that is a prefix of the bytes, the
    /// shortest first. Returns the number of compared bytes.
    #[cfg(feature = "tokenizer-json")]
    pub(crate) fn prefixes(&self, bytes: &[u8], mut found: impl FnMut(usize, u32)) -> usize {
        let mut node = ROOT;
        for (place, &byte) in bytes.iter().enumerate() {
            let Some(next) = self.step(node, byte) else { return place };
            node = next;
            if let Some(value) = self.value(node) {
                found(place + 1, value);
            }
        }
        bytes.len()
    }

    /// Returns the length of the longest prefix of the bytes that is a prefix of a text.
    pub(crate) fn depth(&self, bytes: &[u8]) -> usize {
        let mut node = ROOT;
        for (place, &byte) in bytes.iter().enumerate() {
            let Some(next) = self.step(node, byte) else { return place };
            node = next;
        }
        bytes.len()
    }
}

/// Returns the first eight bytes as a number with the same order.
fn first_eight(text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

struct Builder {
    trie: Trie,
    /// Blocks with free units, and the number of these.
    open: Vec<(usize, usize)>,
}

impl Builder {
    /// Appends a block.
    fn block(&mut self) -> Option<usize> {
        let start = self.trie.units.len();
        if start >= 1 << 31 {
            return None;
        }
        self.trie.units.try_reserve(BLOCK).ok()?;
        self.trie.units.resize(start + BLOCK, FREE);
        if self.open.len() == OPEN {
            let fullest = (0..OPEN).min_by_key(|&place| self.open[place].1).unwrap_or_default();
            self.open.swap_remove(fullest);
        }
        self.open.push((start, BLOCK));
        Some(start)
    }

    /// Returns a base at which all children have a free unit. The caller must set their parents
    /// before the next call.
    fn place(&mut self, children: &[(u8, usize, usize)]) -> Option<u32> {
        let wanted = children.len();
        let first = usize::from(children.first()?.0);
        for number in 0..self.open.len() {
            let (start, free) = self.open[number];
            if free < wanted {
                continue;
            }
            for place in 0..BLOCK {
                if self.trie.units[start + place].parent != NONE {
                    continue;
                }
                let base = start + (place ^ first);
                let fits = children
                    .iter()
                    .all(|child| self.trie.units[base ^ usize::from(child.0)].parent == NONE);
                if fits {
                    self.open[number].1 -= wanted;
                    if self.open[number].1 == 0 {
                        self.open.swap_remove(number);
                    }
                    return u32::try_from(base).ok();
                }
            }
        }
        let base = self.block()?;
        if let Some(last) = self.open.last_mut() {
            last.1 -= wanted;
        }
        u32::try_from(base).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found() {
        let texts: Vec<Vec<u8>> = (0..5000u32)
            .map(|number| {
                let mixed = number.wrapping_mul(2_654_435_761);
                let length = 1 + (mixed >> 28) as usize % 7;
                (0..length).map(|place| (mixed >> (3 * place)).to_le_bytes()[0] % 11 * 23).collect()
            })
            .collect();
        let pairs = || texts.iter().zip(0..).map(|(text, value)| (&text[..], value));
        let trie = Trie::new(pairs()).unwrap();
        let map: std::collections::BTreeMap<&[u8], u32> = pairs().collect();
        for text in &texts {
            let longest =
                (1..=text.len()).rev().find_map(|end| Some((end, *map.get(&text[..end])?)));
            assert_eq!(trie.longest(text), longest, "{text:?}");
            assert_eq!(trie.depth(text), text.len());
        }
        assert_eq!(trie.longest(b"\xfe\xfe"), None);
        assert_eq!(trie.longest(b""), None);
    }

    #[test]
    fn the_last_of_equal_texts_counts_and_zero_bytes_are_bytes() {
        let trie = Trie::new([(&b"\0"[..], 1), (b"\0", 2), (b"\0\0a", 3), (b"", 4)].into_iter());
        let trie = trie.unwrap();
        assert_eq!(trie.longest(b"\0"), Some((1, 2)));
        assert_eq!(trie.longest(b"\0\0a"), Some((3, 3)));
        assert_eq!(trie.longest(b"\0\0b"), Some((1, 2)));
        assert!(Trie::new(std::iter::empty()).unwrap().longest(b"a").is_none());
    }
}
