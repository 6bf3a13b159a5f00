//! PLaMo-2: the path of the least cost through the text, found from its end.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::{Fragment, bound};
use crate::error::{Error, ErrorKind};
use crate::tokenizer::Sink;
use crate::unicode;
use crate::vocabulary::{Attributes, Vocabulary, byte_of_token};
use crate::work::Work;

/// An automaton over the reversed tokens (Aho-Corasick). Every suffix of every token is a node; the
/// node of a text is a child of the node of the text without its first character.
#[derive(Debug)]
pub(crate) struct Plamo2 {
    /// Children by [`key`]. The hash seed is random, since the keys are content of the file.
    children: HashMap<u64, u32, RandomState>,
    nodes: Vec<Node>,
    /// The token of each byte.
    bytes: [u32; 256],
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The token with this text, or [`NONE`].
    token: u32,
    /// The score of the token, or [`INVALID`].
    score: i32,
    /// The number of characters of the text.
    length: u32,
    /// The failure link: the node of the longest proper prefix of the text that is a node.
    shorter: u32,
    /// The first node that is a token, on the path of failure links from this node.
    usable: u32,
}

/// Scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    points: Vec<(u32, usize)>,
    best: Vec<Best>,
}

impl Scratch {
    /// Frees buffers that a long text enlarged.
    pub(super) fn bound(&mut self) {
        bound(&mut self.points);
        bound(&mut self.best);
    }
}

/// The best path from a position to the end.
#[derive(Clone, Copy, Debug)]
struct Best {
    cost: i64,
    length: u32,
    token: u32,
}

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;
/// The score of a text that is not a token.
const INVALID: i32 = -20_000_000;
/// The score of a character that is encoded as its bytes.
const UNKNOWN: i32 = -10_000_000;
const BYTE_ORDER_MARK: u32 = 0xFEFF;

fn key(node: u32, point: u32) -> u64 {
    u64::from(node) << 32 | u64::from(point)
}

fn decode(text: &[u8], points: &mut Vec<(u32, usize)>) {
    points.clear();
    let mut at = 0;
    while let Some((point, length)) = unicode::decode(&text[at..]) {
        points.push((point, at));
        at += length;
    }
}

impl Plamo2 {
    /// Fails if a byte has no token, or token 0, as llama.cpp does.
    pub(crate) fn new(vocabulary: &Vocabulary) -> Result<Self, Error> {
        let mut model = Self {
            children: HashMap::default(),
            nodes: vec![Node {
                token: NONE,
                score: INVALID,
                length: 0,
                shorter: ROOT,
                usable: ROOT,
            }],
            bytes: byte_tokens(vocabulary)?,
        };
        let mut points = Vec::new();
        // The parent of each node, and the character before the parent's text.
        let mut edges: Vec<(u32, u32)> = vec![(ROOT, 0)];
        for id in 0..vocabulary.len() {
            // llama.cpp builds its table before it corrects attributes.
            if vocabulary.attributes_in_file(id).contains(Attributes::BYTE) {
                continue;
            }
            decode(vocabulary.text(id).unwrap_or_default(), &mut points);
            let mut node = ROOT;
            for &(point, _) in points.iter().rev() {
                let next = u32::try_from(model.nodes.len()).unwrap_or(NONE);
                if next == NONE {
                    return Err(Error::new(ErrorKind::Limit, "the tokens are too long"));
                }
                let length = model.nodes[node as usize].length + 1;
                node = *model.children.entry(key(node, point)).or_insert_with(|| {
                    model.nodes.push(Node {
                        token: NONE,
                        score: INVALID,
                        length,
                        shorter: ROOT,
                        usable: ROOT,
                    });
                    edges.push((node, point));
                    next
                });
            }
            let node = &mut model.nodes[node as usize];
            (node.token, node.score) = (id, whole(vocabulary.score(id)));
        }
        model.link(&edges);
        Ok(model)
    }

    /// Sets the failure links of all nodes, in the order of their lengths.
    fn link(&mut self, edges: &[(u32, u32)]) {
        let mut order: Vec<u32> = (1..).take(self.nodes.len() - 1).collect();
        order.sort_by_key(|&node| self.nodes[node as usize].length);
        for node in order {
            let (parent, point) = edges[node as usize];
            let shorter = if parent == ROOT {
                ROOT
            } else {
                self.longest(self.nodes[parent as usize].shorter, point, false)
            };
            let score = self.nodes[node as usize].score;
            let usable = if score > INVALID { node } else { self.nodes[shorter as usize].usable };
            let node = &mut self.nodes[node as usize];
            (node.shorter, node.usable) = (shorter, usable);
        }
    }

    /// Follows failure links from a node until one has a child for the character, and returns that
    /// child, or the root. If `ends`, a token with the score of an unknown character ends the
    /// search, as in llama.cpp.
    fn longest(&self, mut node: u32, point: u32, ends: bool) -> u32 {
        loop {
            if let Some(&found) = self.children.get(&key(node, point)) {
                return found;
            }
            if node == ROOT || ends && self.nodes[node as usize].score == UNKNOWN {
                return ROOT;
            }
            node = self.nodes[node as usize].shorter;
        }
    }

    pub(crate) fn encode<S: Sink>(
        &self,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        budget: &mut Work,
        out: &mut S,
    ) {
        let Scratch { points, best } = scratch;
        decode(fragment.text, points);
        let skipped = points.first().is_some_and(|&(point, _)| point == BYTE_ORDER_MARK);
        let points = points.get(usize::from(skipped)..).unwrap_or_default();
        best.clear();
        best.resize(points.len() + 1, Best { cost: 1 << 60, length: 1, token: NONE });
        best[points.len()].cost = 0;
        let mut node = ROOT;
        for (at, &(point, _)) in points.iter().enumerate().rev() {
            node = self.longest(node, point, true);
            let mut usable = self.nodes[node as usize].usable;
            let mut ended = false;
            while usable != ROOT && !ended {
                if !budget.take(1) {
                    return;
                }
                let Node { token, score, length, shorter, .. } = self.nodes[usable as usize];
                let cost = best[at + length as usize].cost - i64::from(score);
                if cost < best[at].cost {
                    best[at] = Best { cost, length, token };
                }
                ended = score == UNKNOWN;
                usable = self.nodes[shorter as usize].usable;
            }
            let cost = best[at + 1].cost - i64::from(UNKNOWN);
            if !ended && cost < best[at].cost {
                best[at] = Best { cost, length: 1, token: NONE };
            }
        }
        let place = |at: usize| points.get(at).map_or(fragment.text.len(), |&(_, place)| place);
        let mut at = 0;
        while let Some(&(point, _)) = points.get(at) {
            let Best { length, token, .. } = best[at];
            let next = at + length as usize;
            let (start, end) = (fragment.start + place(at), fragment.start + place(next));
            if token == NONE {
                let mut bytes = Vec::new();
                unicode::encode(point, &mut bytes);
                for byte in bytes {
                    out.push(self.bytes[usize::from(byte)], start, end);
                }
            } else {
                out.push(token, start, end);
            }
            at = next;
        }
    }
}

/// Returns a score in units of 1/10,000, as llama.cpp stores it.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn whole(score: f32) -> i32 {
    if score.is_finite() { (f64::from(score) * 1e4).round() as i32 } else { INVALID }
}

fn byte_tokens(vocabulary: &Vocabulary) -> Result<[u32; 256], Error> {
    let mut bytes = [0; 256];
    for id in 0..vocabulary.len() {
        if vocabulary.attributes_in_file(id).contains(Attributes::BYTE)
            && let Some(byte) = byte_of_token(vocabulary.text(id).unwrap_or_default())
        {
            bytes[usize::from(byte)] = id;
        }
    }
    match bytes.iter().position(|&id| id == 0) {
        None => Ok(bytes),
        Some(byte) => Err(Error::at(
            ErrorKind::Malformed,
            ggmill_core::keys::TOKENIZER_TOKENS,
            format!(
                "no token, or token 0, for the byte 0x{byte:02X}, expected a token <0x{byte:02X}>"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    /// A file that makes its nodes collide for one seed does not for the next.
    #[test]
    fn nodes_are_hashed_with_a_random_seed() {
        let hash = || HashMap::<u64, u32, RandomState>::default().hasher().hash_one(key(1, 2));
        assert_ne!(hash(), hash());
    }
}
