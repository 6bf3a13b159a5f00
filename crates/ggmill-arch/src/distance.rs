//! The edit distance of two words.

/// Returns the Levenshtein distance of two words: the number of byte insertions, deletions and
/// substitutions. Takes time proportional to the product of the lengths.
///
/// ```
/// assert_eq!(ggmill_arch::distance(b"kitten", b"sitting"), 3);
/// ```
pub fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        let mut next = vec![left];
        for (y, &above) in b.iter().zip(row.iter().skip(1)) {
            let changed = diagonal.saturating_add(usize::from(x != y));
            left = changed.min(above.saturating_add(1)).min(left.saturating_add(1));
            diagonal = above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn edits_are_counted() {
        assert_eq!(super::distance(b"kitten", b"sitting"), 3);
        assert_eq!(super::distance(b"", b"abc"), 3);
    }
}
