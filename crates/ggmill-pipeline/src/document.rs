//! Plans as JSON (`docs/formats/plan.md`): written, and read again.

use std::fmt;

use ggmill_core::{GgmlType, PlannedTensor, RawStr};
use ggmill_text::LosslessStr;
use serde::Serialize;
use serde_json::{Value, json};

use crate::plan::Plan;

/// The schema of one plan.
const PLAN: &str = "ggmill.plan/1";
/// The schema of the plans of a set of shards.
const PLANS: &str = "ggmill.plans/1";

/// The document of a plan for a file at `output`, which was `written` or is only planned.
pub fn plan_document(plan: &Plan, output: RawStr<'_>, written: bool) -> impl Serialize + use<> {
    document(plan, output, written)
}

/// The document of the plans for a set of shards, each with its file.
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
    let tensor = |tensor: &PlannedTensor| {
        json!({
            "name": LosslessStr(tensor.name()),
            "type": tensor.ggml_type().to_string(),
            "shape": tensor.shape().dimensions(),
            "offset": tensor.offset(),
            "size": tensor.size(),
        })
    };
    json!({
        "schema": PLAN,
        "output": LosslessStr(output),
        "written": written,
        "file_size": layout.total_len(),
        "data_offset": layout.data_offset(),
        "alignment": layout.alignment().get(),
        "notes": plan.notes(),
        "tensors": layout.tensors().iter().map(tensor).collect::<Vec<_>>(),
    })
}

/// Why bytes are not a plan.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlanDocumentError {
    /// They are not JSON.
    Json(serde_json::Error),
    /// They are JSON of another schema.
    Schema,
    /// A tensor lacks its name or its type.
    Incomplete,
    /// A tensor has a type that does not exist.
    Type {
        /// The tensor.
        tensor: Vec<u8>,
        /// The value in the place of its type.
        found: String,
    },
}

impl fmt::Display for PlanDocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "is not JSON: {error}"),
            Self::Schema => f.write_str(
                "is not a plan, expected a document of schema ggmill.plan/1 or ggmill.plans/1",
            ),
            Self::Incomplete => f.write_str("has a tensor without a name or a type"),
            Self::Type { found, .. } => write!(f, "{found:?} is not a type"),
        }
    }
}

impl std::error::Error for PlanDocumentError {}

/// Names and types of the tensors in a plan, or in the plans of a set of shards, in order. Nothing
/// else is used, so a plan can be written by hand.
///
/// ```
/// use ggmill_core::GgmlType;
/// let json = br#"{"schema": "ggmill.plan/1", "tensors": [{"name": "output.weight", "type": "Q6_K"}]}"#;
/// assert_eq!(ggmill_pipeline::planned_types(json)?, [(b"output.weight".to_vec(), GgmlType::Q6_K)]);
/// # Ok::<(), ggmill_pipeline::PlanDocumentError>(())
/// ```
pub fn planned_types(json: &[u8]) -> Result<Vec<(Vec<u8>, GgmlType)>, PlanDocumentError> {
    let document: Value = serde_json::from_slice(json).map_err(PlanDocumentError::Json)?;
    let single = std::slice::from_ref(&document);
    let plans = match document.get("schema").and_then(Value::as_str) {
        Some(PLAN) => single,
        Some(PLANS) => {
            document.get("plans").and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
        }
        _ => return Err(PlanDocumentError::Schema),
    };
    let mut types = Vec::new();
    for tensor in plans.iter().filter_map(|plan| plan.get("tensors")?.as_array()).flatten() {
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
    }
    Ok(types)
}

/// The bytes of a name: a string, or `{"bytes_hex": "…"}` where it is not UTF-8.
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
