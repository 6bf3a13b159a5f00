//! Plans as JSON, written and read (`docs/formats/plan.md`).

use std::fmt;

use ggmill_core::{GgmlType, PlannedTensor, RawStr};
use ggmill_text::LosslessStr;
use serde::Serialize;
use serde_json::{Value, json};

use crate::formats::Unambiguous;
use crate::recipe::{Plan, Sensitivity};

/// The schema of one plan.
const PLAN: &str = "ggmill.plan/1";
/// The schema of the plans of a set of shards.
const PLANS: &str = "ggmill.plans/1";

/// Returns the document of a plan for the file `output`. `written` is false for a dry run.
pub fn plan_document(plan: &Plan, output: RawStr<'_>, written: bool) -> impl Serialize + use<> {
    document(plan, output, written)
}

/// Returns the document of the plans of a shard set, each with its file.
pub fn plans_document<'a>(
    plans: impl IntoIterator<Item = (&'a Plan, RawStr<'a>)>,
    written: bool,
) -> impl Serialize {
    let plans: Vec<Value> =
        plans.into_iter().map(|(plan, output)| document(plan, output, written)).collect();
    json!({ "schema": PLANS, "plans": plans })
}

fn document(plan: &Plan, output: RawStr<'_>, written: bool) -> Value {
    let layout = plan.layout();
    let tensor = |(tensor, sensitivity): (&PlannedTensor, &Option<Sensitivity>)| {
        let mut planned = json!({
            "name": LosslessStr(tensor.name()),
            "type": tensor.ggml_type().to_string(),
            "shape": tensor.shape().dimensions(),
            "offset": tensor.offset(),
            "size": tensor.size(),
        });
        if let Some(found) = sensitivity {
            planned["sensitivity"] = json!({
                "type": found.ggml_type.to_string(),
                "kl_divergence": found.divergence,
            });
            if found.with_importance {
                planned["sensitivity"]["importance"] = json!(true);
            }
        }
        planned
    };
    let tensors = layout.tensors().iter().zip(&plan.sensitivities);
    json!({
        "schema": PLAN,
        "output": LosslessStr(output),
        "written": written,
        "file_size": layout.total_len(),
        "data_offset": layout.data_offset(),
        "alignment": layout.alignment().get(),
        "notes": plan.notes().iter().cloned().chain(plan.losses()).chain(plan.non_finite()).collect::<Vec<_>>(),
        "tensors": tensors.map(tensor).collect::<Vec<_>>(),
    })
}

/// Why a document is not a valid plan.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlanDocumentError {
    /// It is not JSON.
    Json(serde_json::Error),
    /// It has another schema.
    Schema,
    /// A tensor lacks its name or its type.
    Incomplete,
    /// A sensitivity has no type, or its divergence is not a finite number of at least 0.
    Sensitivity {
        /// The tensor.
        tensor: Vec<u8>,
    },
    /// A tensor has an unknown type.
    Type {
        /// The tensor.
        tensor: Vec<u8>,
        /// The value of its type.
        found: String,
    },
}

impl fmt::Display for PlanDocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "is not valid JSON: {error}"),
            Self::Schema => f.write_str(
                "is not a plan, expected a document of schema ggmill.plan/1 or ggmill.plans/1",
            ),
            Self::Sensitivity { .. } => f.write_str(
                "has a sensitivity without a type or a finite kl_divergence of at least 0",
            ),
            Self::Incomplete => f.write_str("contains a tensor without a name or a type"),
            Self::Type { found, .. } => write!(f, "{found:?} is not a type"),
        }
    }
}

impl std::error::Error for PlanDocumentError {}

/// Returns names and types of the tensors in a plan or in the plans of a shard set, in order. It
/// ignores everything else, so that a plan can be written by hand.
///
/// ```
/// use ggmill_core::GgmlType;
/// let json = br#"{"schema": "ggmill.plan/1", "tensors": [{"name": "output.weight", "type": "Q6_K"}]}"#;
/// assert_eq!(ggmill_pipeline::planned_types(json)?, [(b"output.weight".to_vec(), GgmlType::Q6_K)]);
/// # Ok::<(), ggmill_pipeline::PlanDocumentError>(())
/// ```
pub fn planned_types(json: &[u8]) -> Result<Vec<(Vec<u8>, GgmlType)>, PlanDocumentError> {
    let mut types = Vec::new();
    each_tensor(json, |tensor| {
        let (name, ggml_type) =
            (tensor.get("name").and_then(name_of), tensor.get("type").and_then(Value::as_str));
        let (Some(name), Some(ggml_type)) = (name, ggml_type) else {
            return Err(PlanDocumentError::Incomplete);
        };
        match ggml_type.parse::<GgmlType>() {
            Ok(ggml_type) => types.push((name, ggml_type)),
            Err(_) => {
                return Err(PlanDocumentError::Type { tensor: name, found: ggml_type.to_owned() });
            }
        }
        Ok(())
    })?;
    Ok(types)
}

/// Returns names and sensitivities of the tensors in a plan that have one, in order. Fails for a
/// divergence that is negative or not a number.
///
/// ```
/// use ggmill_core::GgmlType;
/// let json = br#"{"schema": "ggmill.plan/1", "tensors": [{"name": "output.weight", "type": "Q6_K",
///     "sensitivity": {"type": "Q4_0", "kl_divergence": 0.01}}]}"#;
/// let found = ggmill_pipeline::planned_sensitivities(json)?;
/// assert_eq!((&*found[0].0, found[0].1.ggml_type), (&b"output.weight"[..], GgmlType::Q4_0));
/// # Ok::<(), ggmill_pipeline::PlanDocumentError>(())
/// ```
pub fn planned_sensitivities(
    json: &[u8],
) -> Result<Vec<(Vec<u8>, Sensitivity)>, PlanDocumentError> {
    let mut sensitivities = Vec::new();
    each_tensor(json, |tensor| {
        let Some(found) = tensor.get("sensitivity").filter(|found| !found.is_null()) else {
            return Ok(());
        };
        let name = tensor.get("name").and_then(name_of).ok_or(PlanDocumentError::Incomplete)?;
        let ggml_type = found.get("type").and_then(Value::as_str).map(str::parse::<GgmlType>);
        let divergence = found.get("kl_divergence").and_then(Value::as_f64);
        let with_importance = found.get("importance").and_then(Value::as_bool).unwrap_or(false);
        let sensitivity = match (ggml_type, divergence) {
            (Some(Ok(ggml_type)), Some(divergence)) if divergence >= 0.0 => {
                Sensitivity::new(ggml_type, divergence)
            }
            _ => None,
        }
        .map(|found| found.with_importance(with_importance));
        match sensitivity {
            Some(sensitivity) => sensitivities.push((name, sensitivity)),
            None => return Err(PlanDocumentError::Sensitivity { tensor: name }),
        }
        Ok(())
    })?;
    Ok(sensitivities)
}

/// Calls `visit` for each tensor of a plan or of the plans of a shard set.
fn each_tensor(
    json: &[u8],
    mut visit: impl FnMut(&Value) -> Result<(), PlanDocumentError>,
) -> Result<(), PlanDocumentError> {
    let Unambiguous(document) = serde_json::from_slice(json).map_err(PlanDocumentError::Json)?;
    let single = std::slice::from_ref(&document);
    let plans = match document.get("schema").and_then(Value::as_str) {
        Some(PLAN) => single,
        Some(PLANS) => {
            document.get("plans").and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
        }
        _ => return Err(PlanDocumentError::Schema),
    };
    plans
        .iter()
        .filter_map(|plan| plan.get("tensors")?.as_array())
        .flatten()
        .try_for_each(&mut visit)
}

/// Returns the bytes of a name: a string, or `{"bytes_hex": "…"}` for a name that is not UTF-8.
fn name_of(name: &Value) -> Option<Vec<u8>> {
    if let Some(text) = name.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let digits: Option<Vec<u8>> = name
        .get("bytes_hex")?
        .as_str()?
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    let (pairs, []) = digits.as_deref()?.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
