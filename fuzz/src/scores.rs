//! Any JSON as scores of models on a part of a text.

use ggmill_run::Scores;

use crate::allocations::bounded;

/// Reads the scores, summarizes them, and merges them with themselves, which must fail.
pub fn scores(data: &[u8]) {
    let Ok(scores) = bounded(data.len(), 1 << 16, 200, || Scores::parse(data)) else { return };
    for (_, model) in scores.models() {
        let _ = model.measurement();
    }
    let json = serde_json::to_vec(&scores).unwrap_or_default();
    assert!(Scores::parse(&json).is_ok_and(|again| again == scores));
    let is_empty = scores.models().len() == 0;
    assert_eq!(Scores::merge([scores.clone(), scores]).is_ok(), is_empty);
}
