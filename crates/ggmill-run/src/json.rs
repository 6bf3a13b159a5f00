//! Measurements and probes as JSON.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::measure::{Comparison, Distribution, Estimate, Measurement, Similarity};
use crate::probe::Probe;

/// The name and version of the JSON of [`document`].
pub const SCHEMA: &str = "ggmill.measure/1";

/// Returns the document that `ggmill measure --json` writes (`docs/formats/measure.md`). `base` is the name
/// of the base model, `context` the number of tokens per chunk. Each measurement is paired with the name
/// of its model.
pub fn document<'a>(
    base: Option<&str>,
    context: usize,
    measured: impl IntoIterator<Item = (&'a str, &'a Measurement)>,
) -> impl Serialize {
    let measured: Vec<(&str, &Measurement)> = measured.into_iter().collect();
    let first = measured.first().map(|(_, first)| first);
    let models: Vec<Value> = measured
        .iter()
        .map(|(file, measured)| {
            json!({
                "file": file,
                "perplexity": measured.perplexity.as_ref().map(estimate),
                "comparison": measured.comparison.as_ref().map(comparison),
                "embeddings": measured.similarity.as_ref().map(similarity),
            })
        })
        .collect();
    json!({
        "schema": SCHEMA,
        "about": Measurement::ABOUT,
        "base": base,
        "context": context,
        "chunks": first.map(|first| first.chunks),
        "counted": first.map(|first| first.counted),
        "models": models,
    })
}

/// Returns the JSON of a probe or of its error, as in reports of `ggmill check` (`docs/formats/check.md`).
pub fn probe_result(found: Result<&Probe, &str>) -> Value {
    match found {
        Ok(found) => json!({
            "tokens": found.tokens,
            "outputs": {
                "min": found.range.0,
                "max": found.range.1,
                "root_mean_square": found.root_mean_square,
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

fn comparison(compared: &Comparison) -> Value {
    json!({
        "base_perplexity": estimate(&compared.base_perplexity),
        "perplexity_ratio": estimate(&compared.ratio),
        "kl_divergence": distribution(&compared.divergence),
        "kl_divergence_by_chunk": compared.divergence_by_chunk,
        "probability_change": distribution(&compared.probability_change),
        "probability_rms": estimate(&compared.probability_rms),
        "same_top": estimate(&compared.same_top),
    })
}

fn similarity(found: &Similarity) -> Value {
    json!({
        "cosine": distribution(&found.cosine),
        "cosine_by_chunk": found.cosine_by_chunk,
    })
}

fn estimate(estimate: &Estimate) -> Value {
    json!({ "value": estimate.value, "error": estimate.error })
}

fn distribution(values: &Distribution) -> Value {
    let quantiles: Map<String, Value> = Distribution::QUANTILES
        .iter()
        .map(|(name, share)| ((*name).to_owned(), json!(values.quantile(*share))))
        .collect();
    json!({ "mean": estimate(&values.mean), "quantiles": quantiles })
}
