//! Measurements and probes as JSON.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::measure::{Comparison, Distribution, Estimate, Measurement};
use crate::probe::Probe;

/// The name and version of the JSON of [`document`].
pub const SCHEMA: &str = "ggmill.measure/1";

/// A measurement as `ggmill measure --json` writes it: `docs/formats/measure.md`. `file` and `base`
/// are the names of the model and of the one that it was compared with; `context` is the number of
/// tokens of a chunk.
pub fn document(
    file: &str,
    base: Option<&str>,
    context: usize,
    measured: &Measurement,
) -> impl Serialize {
    json!({
        "schema": SCHEMA,
        "about": Measurement::ABOUT,
        "file": file,
        "context": context,
        "chunks": measured.chunks,
        "counted": measured.counted,
        "perplexity": estimate(&measured.perplexity),
        "comparison": measured.comparison.as_ref().map(|compared| comparison(base, compared)),
    })
}

/// What a few tokens through a model gave, or why nothing, as reports on its files have it:
/// `docs/formats/check.md`.
pub fn probed(found: Result<&Probe, &str>) -> Value {
    match found {
        Ok(found) => json!({
            "tokens": found.tokens,
            "outputs": {
                "min": found.range.0,
                "max": found.range.1,
                "root_mean_square": found.size,
            },
            "recorded": found.difference.map(|difference| json!({
                "nmse": difference.nmse,
                "same_top": difference.same_top,
                "kl_divergence": difference.divergence,
            })),
            "faults": found.faults(),
            "error": null,
        }),
        Err(error) => json!({
            "tokens": null,
            "outputs": null,
            "recorded": null,
            "faults": [],
            "error": error,
        }),
    }
}

fn comparison(base: Option<&str>, compared: &Comparison) -> Value {
    json!({
        "base": base,
        "base_perplexity": estimate(&compared.base_perplexity),
        "perplexity_ratio": estimate(&compared.ratio),
        "kl_divergence": distribution(&compared.divergence),
        "probability_change": distribution(&compared.probability_change),
        "probability_rms": estimate(&compared.probability_rms),
        "same_top": estimate(&compared.same_top),
    })
}

fn estimate(estimate: &Estimate) -> Value {
    json!({ "value": estimate.value, "error": estimate.error })
}

fn distribution(values: &Distribution) -> Value {
    let quantiles: Map<String, Value> = Distribution::SHARES
        .iter()
        .map(|(name, share)| (name.replace(" %", "%"), json!(values.quantile(*share))))
        .collect();
    json!({ "mean": estimate(&values.mean), "quantiles": quantiles })
}
