//! Edit distances, and suggestions for misspelled names.

/// The maximum number of names that are compared: a file can have any number.
const MAX_NAMES: usize = 20_000;
/// The maximum length of a misspelled name that is compared, in bytes.
const MAX_LEN: usize = 96;

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

/// Returns the part of one of `names` that is most similar to `text`: consecutive components, as many
/// as `text` has, separated by dots. Ignores ASCII case. Returns `None` if no part is similar.
///
/// ```
/// use ggmill_arch::near_part;
/// let names = ["token_embd.weight", "blk.0.attn_q.weight", "blk.0.attn_v.weight"];
/// assert_eq!(near_part("atn_v", names).as_deref(), Some("attn_v"));
/// assert_eq!(near_part("0.Attn_q", names).as_deref(), Some("0.attn_q"));
/// assert_eq!(near_part("vision", names), None);
/// ```
pub fn near_part<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    if text.is_empty() || text.len() > MAX_LEN {
        return None;
    }
    let wanted = text.to_ascii_lowercase();
    let (count, most) = (wanted.split('.').count(), wanted.len() / 3);
    let mut best: Option<(usize, &str)> = None;
    for name in names.into_iter().take(MAX_NAMES) {
        for part in runs(name, count).filter(|part| part.len().abs_diff(wanted.len()) <= most) {
            let found = distance(part.to_ascii_lowercase().as_bytes(), wanted.as_bytes());
            if found <= most && best.is_none_or(|best| (found, part) < best) {
                best = Some((found, part));
            }
        }
    }
    best.map(|(_, part)| part.to_owned())
}

/// Returns all runs of `count` consecutive components of a name.
fn runs(name: &str, count: usize) -> impl Iterator<Item = &str> {
    let starts =
        || std::iter::once(0).chain(name.match_indices('.').map(|(at, _)| at.saturating_add(1)));
    let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
    starts().zip(ends.skip(count.saturating_sub(1))).filter_map(|(start, end)| name.get(start..end))
}

#[cfg(test)]
mod tests {
    use super::{distance, runs};

    #[test]
    fn edits_are_counted() {
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"", b"abc"), 3);
    }

    #[test]
    fn runs_of_components() {
        assert_eq!(runs("a.b.c", 1).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(runs("a.b.c", 2).collect::<Vec<_>>(), ["a.b", "b.c"]);
        assert_eq!(runs("a.b.c", 3).collect::<Vec<_>>(), ["a.b.c"]);
        assert_eq!(runs("a.b", 3).count(), 0);
    }
}
