//! The block that a tensor belongs to, according to its name in GGUF files.

use crate::language::pattern::is_number;

/// The prefix of the names of block tensors, before the block number.
pub(crate) const BLOCK: &str = "blk.";

/// The prefixes of tensor names of models with several stacks of blocks, each with the prefix of its
/// block names: encoders and decoders in llama.cpp and whisper.cpp, and the two stacks of WavTokenizer.
const SIDES: [(&str, &str); 6] = [
    ("enc.", BLOCK),
    ("dec.", BLOCK),
    ("encoder.", "blocks."),
    ("decoder.", "blocks."),
    ("posnet.", ""),
    ("convnext.", ""),
];

/// Returns the name by which programs refer to a tensor, without its block number: `attn_q.weight` for
/// `blk.{bid}.attn_q.weight`, `enc.attn_q.weight` for `enc.blk.{bid}.attn_q.weight`.
pub(crate) fn without_block(name: &str) -> String {
    let (side, blocks, rest) = divided(name);
    let rest = rest
        .strip_prefix(blocks)
        .and_then(|rest| rest.split_once('.'))
        .map_or(rest, |(_, rest)| rest);
    format!("{side}{rest}")
}

/// Returns the full name of a block tensor: the inverse of [`without_block`].
pub(crate) fn with_block(name: &str, block: u64) -> String {
    let (side, blocks, rest) = divided(name);
    format!("{side}{blocks}{block}.{rest}")
}

/// Returns the block number of a tensor in any stack of blocks.
pub(crate) fn block_of_side(name: &str) -> Option<u64> {
    let (_, blocks, rest) = divided(name);
    Some(numbered(rest, blocks)?.0)
}

/// Splits a name into the stack prefix, the prefix of block names in this stack, and the rest.
fn divided(name: &str) -> (&str, &str, &str) {
    let side = SIDES.into_iter().find(|(side, _)| name.starts_with(side));
    let (side, blocks) = side.unwrap_or(("", BLOCK));
    let (side, rest) = name.split_at(side.len());
    (side, blocks, rest)
}

/// Returns the block number after the prefix `blocks`, and the rest of the name.
fn numbered<'n>(name: &'n str, blocks: &str) -> Option<(u64, &'n str)> {
    let (number, rest) = name.strip_prefix(blocks)?.split_once('.')?;
    let number = is_number(number).then(|| number.parse().ok())??;
    Some((number, rest))
}

/// Returns the block number of a tensor and its name within the block; `None` for a tensor outside
/// blocks.
///
/// ```
/// use ggmill_arch::block_of;
/// assert_eq!(block_of("blk.12.attn_q.weight"), Some((12, "attn_q.weight")));
/// assert_eq!(block_of("token_embd.weight"), None);
/// assert_eq!(block_of("blk.+1.attn_q.weight"), None);
/// assert_eq!(block_of("blk.01.attn_q.weight"), None);
/// ```
pub fn block_of(tensor: &str) -> Option<(u64, &str)> {
    numbered(tensor, BLOCK)
}
