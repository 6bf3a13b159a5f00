//! The blocks that tensors belong to, by the names that tensors have in GGUF files.

use crate::pattern::is_number;

/// What the name of a tensor of a block begins with, before the number of the block.
pub(crate) const BLOCK: &str = "blk.";

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
