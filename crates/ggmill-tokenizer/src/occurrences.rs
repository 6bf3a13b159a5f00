//! Finds all occurrences of many texts in a text, overlapping ones included (Aho-Corasick).
//!
//! The `aho-corasick` crate is not used: it renumbers its states, which takes time quadratic in the
//! number of texts if most of these are prefixes of others.

use crate::trie::{ROOT, Trie};

/// Finds the occurrences of a set of texts.
#[derive(Debug)]
pub(crate) struct Occurrences {
    trie: Trie,
    /// A link for each node of the trie.
    links: Vec<Link>,
    /// The first bytes of the texts.
    is_first: [bool; 256],
    /// The first bytes as a list, if there are few.
    few: Option<Few>,
}

/// Suffix links of a node.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The node of the longest proper suffix of this node's text that is a node.
    suffix: u32,
    /// The node of the longest proper suffix that is one of the texts, or the root.
    found: u32,
}

/// One to three first bytes, which are searched with vector instructions.
#[derive(Clone, Copy, Debug)]
enum Few {
    One(u8),
    Two(u8, u8),
    Three(u8, u8, u8),
}

impl Occurrences {
    /// Builds the automaton from texts with their values. Empty texts are ignored; the last of equal
    /// texts counts. Returns `None` if there is not enough memory.
    pub(crate) fn new<'a>(texts: impl Iterator<Item = (&'a [u8], u32)>) -> Option<Self> {
        let trie = Trie::new(texts)?;
        let mut links = Vec::new();
        links.try_reserve_exact(trie.len()).ok()?;
        links.resize(trie.len(), Link { suffix: ROOT, found: ROOT });
        for (node, parent, byte) in trie.by_depth()? {
            let mut suffix = ROOT;
            if parent != ROOT {
                let mut shorter = links.get(parent as usize)?.suffix;
                suffix = loop {
                    match trie.step(shorter, byte) {
                        Some(found) => break found,
                        None if shorter == ROOT => break ROOT,
                        None => shorter = links.get(shorter as usize)?.suffix,
                    }
                };
            }
            let found = match trie.value(suffix) {
                Some(_) => suffix,
                None => links.get(suffix as usize)?.found,
            };
            *links.get_mut(node as usize)? = Link { suffix, found };
        }
        let mut is_first = [false; 256];
        for (byte, is_first) in (0u8..=255).zip(&mut is_first) {
            *is_first = trie.step(ROOT, byte).is_some();
        }
        let firsts: Vec<u8> = (0u8..=255).filter(|&byte| is_first[usize::from(byte)]).collect();
        let few = match *firsts {
            [one] => Some(Few::One(one)),
            [one, two] => Some(Few::Two(one, two)),
            [one, two, three] => Some(Few::Three(one, two, three)),
            _ => None,
        };
        Some(Self { trie, links, is_first, few })
    }

    /// Calls `each` with the value and the end of each occurrence, in the order of their ends, until
    /// it returns `false`.
    pub(crate) fn find(&self, text: &[u8], mut each: impl FnMut(u32, usize) -> bool) {
        let mut node = ROOT;
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            if node == ROOT && !self.is_first[usize::from(byte)] {
                match self.first(text.get(at..).unwrap_or_default()) {
                    Some(skipped) => at += skipped,
                    None => return,
                }
                continue;
            }
            node = self.step(node, byte);
            at += 1;
            let mut found = node;
            while found != ROOT {
                if let Some(value) = self.trie.value(found)
                    && !each(value, at)
                {
                    return;
                }
                found = self.links.get(found as usize).map_or(ROOT, |link| link.found);
            }
        }
    }

    /// Returns the node after a byte.
    #[inline]
    fn step(&self, mut node: u32, byte: u8) -> u32 {
        loop {
            match self.trie.step(node, byte) {
                Some(found) => return found,
                None if node == ROOT => return ROOT,
                None => node = self.links.get(node as usize).map_or(ROOT, |link| link.suffix),
            }
        }
    }

    /// Returns the position of the first byte of any text.
    fn first(&self, text: &[u8]) -> Option<usize> {
        match self.few {
            Some(Few::One(one)) => memchr::memchr(one, text),
            Some(Few::Two(one, two)) => memchr::memchr2(one, two, text),
            Some(Few::Three(one, two, three)) => memchr::memchr3(one, two, three, text),
            None => text.iter().position(|&byte| self.is_first[usize::from(byte)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str], text: &str) -> Vec<(u32, usize)> {
        let pairs = texts.iter().zip(0..).map(|(text, value)| (text.as_bytes(), value));
        let mut found = Vec::new();
        Occurrences::new(pairs).unwrap().find(text.as_bytes(), |value, end| {
            found.push((value, end));
            true
        });
        found.sort_unstable();
        found
    }

    #[test]
    fn overlapping_occurrences_are_found() {
        let sets: &[&[&str]] = &[
            &["a", "ab", "bab", "bc", "bca", "c", "caa"],
            &["aa", "aaaa", "a", "aaa"],
            &["<s>", "</s>", "<", "s>x", "\u{e9}"],
            &["abcd", "bc", "x"],
            &[],
        ];
        for texts in sets {
            for text in ["abccab", "aaaaaa", "<<s>x</s>\u{e9}s>", "xabcabcd", ""] {
                let mut expected = Vec::new();
                for (value, part) in (0..).zip(*texts) {
                    let starts = (0..text.len()).filter(|&at| {
                        text.as_bytes()
                            .get(at..)
                            .is_some_and(|rest| rest.starts_with(part.as_bytes()))
                    });
                    expected.extend(starts.map(|at| (value, at + part.len())));
                }
                expected.sort_unstable();
                assert_eq!(found(texts, text), expected, "{texts:?} in {text:?}");
            }
        }
    }
}
