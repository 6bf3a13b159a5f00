//! The blocks that tensors belong to, by the names that tensors have in GGUF files.

use crate::language::pattern::is_number;

/// What the name of a tensor of a block begins with, before the number of the block.
pub(crate) const BLOCK: &str = "blk.";

/// What the names of the tensors of a part of a model begin with, where it has several with blocks of
/// their own, and what follows in those of their blocks: encoders and decoders as llama.cpp has them,
/// and as whisper.cpp has, and the two stacks of WavTokenizer.
const SIDES: [(&str, &str); 6] = [
    ("enc.", BLOCK),
    ("dec.", BLOCK),
    ("encoder.", "blocks."),
    ("decoder.", "blocks."),
    ("posnet.", ""),
    ("convnext.", ""),
];

/// The name by which steps know a tensor, without the number of its block: `attn_q.weight` for
/// `blk.{bid}.attn_q.weight`, `enc.attn_q.weight` for `enc.blk.{bid}.attn_q.weight`.
pub(crate) fn without_block(name: &str) -> String {
    let (side, blocks, rest) = divided(name);
    let rest = rest
        .strip_prefix(blocks)
        .and_then(|rest| rest.split_once('.'))
        .map_or(rest, |(_, rest)| rest);
    format!("{side}{rest}")
}

/// The name of the tensor of a block that steps know by a name without its number.
pub(crate) fn with_block(name: &str, block: u64) -> String {
    let (side, blocks, rest) = divided(name);
    format!("{side}{blocks}{block}.{rest}")
}

/// The number of the block that a tensor belongs to, of an encoder, a decoder or a stack too.
pub(crate) fn block_of_side(name: &str) -> Option<u64> {
    let (_, blocks, rest) = divided(name);
    Some(numbered(rest, blocks)?.0)
}

/// The side of a model that a name begins with, what the names of its blocks go on with, and the rest.
fn divided(name: &str) -> (&str, &str, &str) {
    let side = SIDES.into_iter().find(|(side, _)| name.starts_with(side));
    let (side, blocks) = side.unwrap_or(("", BLOCK));
    let (side, rest) = name.split_at(side.len());
    (side, blocks, rest)
}

/// The number of a block after what the names of blocks begin with, and the rest.
fn numbered<'n>(name: &'n str, blocks: &str) -> Option<(u64, &'n str)> {
    let (number, rest) = name.strip_prefix(blocks)?.split_once('.')?;
    let number = is_number(number).then(|| number.parse().ok())??;
    Some((number, rest))
}

/// The number of the block that a tensor belongs to, and its name within the block; `None` for a
/// tensor that is in no block.
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
