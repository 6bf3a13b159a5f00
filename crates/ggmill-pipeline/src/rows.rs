//! Which elements of the sources each element of an output tensor comes from.
//!
//! Stacking, and the permutation of attention heads, move whole rows and leave their numbers alone. They are therefore no work on data but a map from output
//! to source, followed while reading: nothing is ever held that a chunk of output does not need, and a tensor that keeps its type is copied byte for byte.

/// The map of one output tensor, counted in units: the slices of a source along its slowest dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMap {
    /// Units of each source.
    units: u64,
    /// Elements in a unit.
    unit_len: u64,
    steps: Vec<Step>,
}

/// One operation, followed from output to source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// From halves of each head side by side (Hugging Face) to pairs side by side (ggml): unit `2·i + j` of a head was unit `j·half + i`.
    Permute { heads: u64 },
}

/// A run of elements that lie side by side in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which of the tensor's sources.
    pub source: usize,
    /// The first element within it.
    pub start: u64,
    /// How many elements.
    pub len: u64,
}

impl RowMap {
    /// A map over sources of `units` units of `unit_len` elements each, stacked when there are several. `None` when an operation does not divide them evenly.
    pub fn new(units: u64, unit_len: u64, steps: Vec<Step>) -> Option<Self> {
        for step in &steps {
            match *step {
                Step::Permute { heads } if heads == 0 || !units.is_multiple_of(heads.checked_mul(2)?) => return None,
                Step::Permute { .. } => {}
            }
        }
        Some(Self { units, unit_len, steps })
    }

    /// Whether the output is what its sources are, one behind the other.
    pub fn is_plain(&self) -> bool {
        self.steps.is_empty()
    }

    /// Where a unit of the output was in its source.
    fn back(&self, unit: u64) -> u64 {
        self.steps.iter().rev().fold(unit, |unit, step| match *step {
            Step::Permute { heads } => {
                let head = self.units / heads;
                let (start, within) = (unit - unit % head, unit % head);
                start + (within % 2) * (head / 2) + within / 2
            }
        })
    }

    /// The runs that elements `start..end` of the output come from, in order, each as long as can be.
    pub fn runs(&self, start: u64, end: u64) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut at = start;
        while at < end {
            let (unit, within) = (at / self.unit_len, at % self.unit_len);
            let (source, unit) = (unit / self.units, unit % self.units);
            // Without an operation a source is one run from here to its end.
            let (from, len) = if self.steps.is_empty() {
                (unit * self.unit_len + within, (self.units - unit) * self.unit_len - within)
            } else {
                (self.back(unit) * self.unit_len + within, self.unit_len - within)
            };
            let (source, len) = (usize::try_from(source).unwrap_or(usize::MAX), len.min(end - at));
            at += len;
            match runs.last_mut() {
                Some(last) if last.source == source && last.start + last.len == from => last.len += len,
                _ => runs.push(Run { source, start: from, len }),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_copy_is_one_run() {
        let map = RowMap::new(10, 4, vec![]).unwrap();
        assert_eq!(map.runs(3, 37), [Run { source: 0, start: 3, len: 34 }]);
    }

    #[test]
    fn stacked_sources_follow_one_another() {
        let map = RowMap::new(2, 4, vec![]).unwrap();
        assert_eq!(map.runs(6, 18), [Run { source: 0, start: 6, len: 2 }, Run { source: 1, start: 0, len: 8 }, Run { source: 2, start: 0, len: 2 }]);
    }

    #[test]
    fn permuting_pairs_the_halves_of_each_head() {
        // Two heads of four rows: 0 1 2 3 becomes 0 2 1 3 in each.
        let map = RowMap::new(8, 1, vec![Step::Permute { heads: 2 }]).unwrap();
        let rows: Vec<u64> = (0..8).map(|row| map.runs(row, row + 1)[0].start).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7]);
    }

    #[test]
    fn runs_do_not_depend_on_where_they_are_cut() {
        let map = RowMap::new(12, 3, vec![Step::Permute { heads: 3 }]).unwrap();
        let elements = |runs: Vec<Run>| runs.into_iter().flat_map(|run| run.start..run.start + run.len).collect::<Vec<_>>();
        let whole = elements(map.runs(0, 36));
        for cut in 0..=36 {
            assert_eq!([elements(map.runs(0, cut)), elements(map.runs(cut, 36))].concat(), whole);
        }
        let mut sorted = whole;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..36).collect::<Vec<_>>());
    }

    #[test]
    fn heads_must_divide_the_rows() {
        assert_eq!(RowMap::new(9, 1, vec![Step::Permute { heads: 3 }]), None);
        assert_eq!(RowMap::new(8, 1, vec![Step::Permute { heads: 0 }]), None);
    }
}
