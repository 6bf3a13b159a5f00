//! How far one word is from another.

/// The number of bytes to change, add or drop to make one word of the other (the Levenshtein
/// distance), in time proportional to the product of the lengths.
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
    fn letters_are_counted() {
        assert_eq!(super::distance(b"kitten", b"sitting"), 3);
        assert_eq!(super::distance(b"", b"abc"), 3);
    }
}
