//! Numbers that are added to the scores of attention by the distance of two tokens (T5).

use ggmill_arch::graph::{Attention, Buckets};

use crate::error::{Error, Result};

/// The bucket, of so many, of a token at a distance from the one that attends to it; from `far` on, all
/// are in the last one. `later` is whether it comes after that one, for which texts that are not causal
/// have the second half
/// (`llama_relative_position_bucket` in `src/llama-graph.cpp`).
fn row(count: u64, far: u64, distance: u64, later: bool, causal: bool) -> u64 {
    let half = if causal { count } else { count / 2 };
    let exact = half / 2;
    let start = if later && !causal { half } else { 0 };
    if distance < exact {
        return start + distance;
    }
    // As the reference does, in these precisions.
    let ratio = |distance: u64| distance as f64 / exact as f64;
    let part = f64::from(libm::logf(ratio(distance) as f32)) / libm::log(ratio(far));
    let place = exact + ((half - exact) as f64 * part).floor() as u64;
    start + place.min(half - 1)
}

/// What is added to scores by distance.
pub(crate) struct Biases<'a> {
    /// A row for each bucket, in it a number for each head.
    values: &'a [f32],
    heads: usize,
    /// The bucket of each distance, of earlier tokens and of later ones.
    earlier: Vec<usize>,
    later: Vec<usize>,
}

impl<'a> Biases<'a> {
    pub(crate) fn new(
        options: &Attention,
        values: Option<&'a [f32]>,
        heads: usize,
        longest: usize,
    ) -> Result<Option<Self>> {
        let (Some(buckets), Some(values)) = (options.buckets, values) else { return Ok(None) };
        let by_distance = |later: bool| {
            let mut rows = Vec::new();
            rows.try_reserve_exact(longest).map_err(|_| Error::memory(longest))?;
            let Buckets { count, distance: far, .. } = buckets;
            let bucket = |distance| row(count, far, distance, later, options.causal);
            rows.extend((0..longest as u64).map(|distance| bucket(distance) as usize));
            Ok::<_, Error>(rows)
        };
        Ok(Some(Self { values, heads, earlier: by_distance(false)?, later: by_distance(true)? }))
    }

    /// What is added to the score of a token with another one.
    pub(crate) fn of(&self, head: usize, token: usize, other: usize) -> f32 {
        let rows = if other > token { &self.later } else { &self.earlier };
        self.values[rows[token.abs_diff(other)] * self.heads + head]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where buckets begin, by the distance: what `llama_relative_position_bucket` of libllama
    /// (llama-cpp-python 0.3.36, called with ctypes) gives for distances below 300.
    #[test]
    fn distances_are_in_the_buckets_of_the_reference() {
        const HALF: [(u64, u64); 16] = [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 4),
            (5, 5),
            (6, 6),
            (7, 7),
            (8, 8),
            (12, 9),
            (16, 10),
            (23, 11),
            (32, 12),
            (46, 13),
            (64, 14),
            (91, 15),
        ];
        const CAUSAL: [(u64, u64); 17] = [
            (15, 15),
            (16, 16),
            (19, 17),
            (21, 18),
            (24, 19),
            (27, 20),
            (31, 21),
            (35, 22),
            (40, 23),
            (46, 24),
            (52, 25),
            (59, 26),
            (67, 27),
            (77, 28),
            (87, 29),
            (99, 30),
            (113, 31),
        ];
        const SEVEN: [(u64, u64); 7] = [(0, 0), (1, 1), (2, 2), (3, 3), (8, 4), (20, 5), (51, 6)];
        type Starts = [(u64, u64)];
        let cases: [(u64, bool, &Starts); 4] = [
            (32, false, &HALF),
            (32, true, &CAUSAL),
            (8, false, &[(0, 0), (1, 1), (2, 2), (16, 3)]),
            (7, true, &SEVEN),
        ];
        for (count, causal, starts) in cases {
            for (place, &(start, expected)) in starts.iter().enumerate() {
                let end = starts.get(place + 1).map_or(300, |next| next.0);
                for distance in start..end {
                    assert_eq!(row(count, 128, distance, false, causal), expected, "{distance}");
                    if !causal {
                        let later = row(count, 128, distance, true, causal);
                        assert_eq!(later, expected + count / 2, "{distance}");
                    }
                }
            }
        }
    }
}
