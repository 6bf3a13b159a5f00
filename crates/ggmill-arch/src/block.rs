//! The blocks that tensors belong to, by the names that tensors have in GGUF files.

use crate::pattern::is_number;

/// What the name of a tensor of a block begins with, before the number of the block.
pub(crate) const BLOCK: &str = "blk.";

/// What the names of the blocks of an encoder and of a decoder begin with, where a model has both.
const SIDES: [&str; 2] = ["enc.", "dec."];

/// The name by which steps know a tensor, without the number of its block: `attn_q.weight` for
/// `blk.{bid}.attn_q.weight`, `enc.attn_q.weight` for `enc.blk.{bid}.attn_q.weight`.
pub(crate) fn without_block(name: &str) -> String {
    let (side, rest) = divided(name);
    let rest = rest
        .strip_prefix(BLOCK)
        .and_then(|rest| rest.split_once('.'))
        .map_or(rest, |(_, rest)| rest);
    format!("{side}{rest}")
}

/// The name of the tensor of a block that steps know by a name without its number.
pub(crate) fn with_block(name: &str, block: u64) -> String {
    let (side, rest) = divided(name);
    format!("{side}{BLOCK}{block}.{rest}")
}

/// The number of the block that a tensor belongs to, of an encoder or a decoder too.
pub(crate) fn block_of_side(name: &str) -> Option<u64> {
    Some(block_of(divided(name).1)?.0)
}

/// The side of a model that a name begins with, and the rest.
fn divided(name: &str) -> (&str, &str) {
    let side = SIDES.into_iter().find(|side| name.starts_with(side));
    name.split_at(side.map_or(0, str::len))
}

/// The number of the block that a tensor belongs to, and its name within the block; `None` for a
/// tensor that is in no block.
///
/// ```
/// use ggmill_arch::block_of;
/// assert_eq!(block_of("blk.12.attn_q.weight"), Some((12, "attn_q.weight")));
/// assert_eq!(block_of("token_embd.weight"), None);
/// assert_eq!(block_of("blk.+1.attn_q.weight"), None);
/// ```
pub fn block_of(tensor: &str) -> Option<(u64, &str)> {
    let (number, rest) = tensor.strip_prefix(BLOCK)?.split_once('.')?;
    let number = is_number(number).then(|| number.parse().ok())??;
    Some((number, rest))
}
