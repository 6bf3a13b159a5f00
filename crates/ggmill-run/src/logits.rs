//! Logits of one token.

/// The logarithm of the sum of the exponentials.
pub(crate) fn normalizer(row: &[f32]) -> f64 {
    let most = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + row.iter().map(|&logit| (f64::from(logit) - most).exp()).sum::<f64>().ln()
}

/// Whether a token may be predicted. One that never is has the least number there is; what is not a
/// number says nothing.
pub(crate) fn may_follow(logit: f32) -> bool {
    logit > f32::MIN || logit.is_nan()
}

/// The place of the greatest number, the first of equal ones.
pub(crate) fn greatest(row: &[f32]) -> usize {
    let mut best = 0;
    for (place, logit) in row.iter().enumerate() {
        if *logit > row[best] {
            best = place;
        }
    }
    best
}
