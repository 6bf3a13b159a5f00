//! PLaMo-2: the cheapest way through the text, found from its end.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::Fragment;
use crate::attributes::Attributes;
use crate::error::{Error, ErrorKind};
use crate::memory::bound;
use crate::sink::Sink;
use crate::unicode;
use crate::vocabulary::{Vocabulary, byte_of_token};

/// Every end of every token is a node. The node of a text that begins with a character is a child
/// of the node of what follows it.
#[derive(Debug)]
pub(crate) struct Plamo2 {
    children: HashMap<u64, u32, RandomState>,
    nodes: Vec<Node>,
    /// The token of each byte.
    bytes: [u32; 256],
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The token with this text, and its score; [`INVALID`] where there is none.
    token: u32,
    score: i32,
    /// Its number of characters.
    length: u32,
    /// The longest beginning of the text, but for the text itself, that is a node; the root's is
    /// the root.
    shorter: u32,
    /// The first of this node and its shorter ones that is a token.
    usable: u32,
}

/// Memory that calls use one after the other.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    points: Vec<(u32, usize)>,
    best: Vec<Best>,
}

impl Scratch {
    /// Gives back what one long text made large.
    pub(super) fn bound(&mut self) {
        bound(&mut self.points);
        bound(&mut self.best);
    }
}

/// The best way from a place to the end.
#[derive(Clone, Copy, Debug)]
struct Best {
    cost: i64,
    length: u32,
    token: u32,
}

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;
/// The score of a text without a token, and that of a character as its bytes.
const INVALID: i32 = -20_000_000;
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
    /// Fails where a byte has no token, or token 0, as the reference does.
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
        // The last character of each node's text before its parent's is not kept: it is in the key.
        let mut edges: Vec<(u32, u32)> = vec![(ROOT, 0)];
        for id in 0..vocabulary.len() {
            // The reference makes this before it corrects attributes.
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

    /// Finds what is shorter for each node, in the order of lengths.
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

    /// The longest node that begins with a character and goes on with a node or its shorter ones.
    /// In the reference's search over texts, a token with the score of an unknown character ends it.
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

/// A score as the reference has it: ten thousandths.
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
