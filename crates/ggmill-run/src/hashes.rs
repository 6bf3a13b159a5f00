//! Hashes of the last tokens of a text, which are rows of a table.

use core::ops::Range;

use ggmill_arch::graph::HashedRows;

use crate::error::{Result, room};

/// For each token of each text, the row of each hash.
pub(crate) fn hashes(
    hashed: &HashedRows,
    tokens: &[u32],
    texts: &[Range<usize>],
) -> Result<Vec<u64>> {
    let count = hashed.sizes.len();
    let of_each = (count / hashed.multipliers.len().saturating_sub(1).max(1)).max(1);
    let mut rows = room(tokens.len() * count)?;
    let mut rest = rows.chunks_exact_mut(count.max(1));
    for text in texts {
        let text = &tokens[text.clone()];
        for (place, rows) in rest.by_ref().take(text.len()).enumerate() {
            // From the first token that ends a text on backwards, all are such, as before the text.
            let before = text[..place].iter().rev().map(|&token| u64::from(token));
            let before = before.take_while(|&token| token != hashed.end);
            let before = before.chain(core::iter::repeat(hashed.end));
            let mut products = core::iter::once(u64::from(text[place]))
                .chain(before)
                .zip(&hashed.multipliers)
                .map(|(token, &multiplier)| token.wrapping_mul(multiplier));
            let mut hash = products.next().unwrap_or(0);
            for (number, product) in products.enumerate() {
                hash ^= product;
                let of_this = number * of_each..((number + 1) * of_each).min(count);
                for place in of_this {
                    rows[place] = hash % hashed.sizes[place].max(1) + hashed.offsets[place];
                }
            }
        }
    }
    Ok(rows)
}
