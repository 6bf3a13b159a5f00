//! Types of tensors by name, as read from a plan in JSON, and the types that weights can have.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_core::{FileType, GgmlType};

use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{PlanDocumentError, SourceTensor, planned_types};

/// The type of each tensor by name, as in a plan that was printed as JSON.
///
/// ```
/// use ggmill_quantize::TypePlan;
/// use ggmill_core::GgmlType;
/// let plan = TypePlan::parse(br#"{"schema": "ggmill.plan/1", "tensors": [{"name": "output.weight", "type": "Q6_K"}]}"#)?;
/// assert_eq!(plan.get(b"output.weight"), Some(GgmlType::Q6_K));
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypePlan {
    types: BTreeMap<Vec<u8>, GgmlType>,
    is_complete: bool,
}

impl TypePlan {
    /// Parses the output of `ggmill quantize --json`: `ggmill.plan/1`, or `ggmill.plans/1` for a
    /// set of shards. Only names and types are used.
    ///
    /// # Errors
    ///
    /// If it is not a plan, names no tensor, has an invalid type, or names a tensor twice.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let wrong = |error: PlanDocumentError| match &error {
            PlanDocumentError::Type { tensor, .. } => {
                let tensor = tensor.clone();
                Error::caused(ErrorKind::Types, error).tensor(tensor)
            }
            _ => Error::caused(ErrorKind::Types, error),
        };
        let mut types = BTreeMap::new();
        for (name, ggml_type) in planned_types(json).map_err(wrong)? {
            if types.contains_key(&name) {
                return Err(Error::new(ErrorKind::Types, "occurs twice in the plan").tensor(&name));
            }
            types.insert(name, ggml_type);
        }
        if types.is_empty() {
            Err(Error::new(ErrorKind::Types, "names no tensors"))
        } else {
            Ok(Self { types, is_complete: false })
        }
    }

    /// Requires that the plan has the type of every tensor of the output.
    #[must_use]
    pub fn complete(self) -> Self {
        Self { is_complete: true, ..self }
    }

    /// Returns `true` if the plan must have the type of every tensor.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the type of a tensor, by its name in the output.
    pub fn get(&self, name: &[u8]) -> Option<GgmlType> {
        self.types.get(name).copied()
    }

    /// Checks that the plan names only these tensors and, if `is_copy` or it must be complete, all of them.
    pub(crate) fn check<'a>(
        &self,
        names: impl Iterator<Item = &'a [u8]>,
        is_copy: bool,
    ) -> Result<()> {
        let complete = is_copy || self.is_complete;
        let names: BTreeSet<&[u8]> = names.collect();
        let wrong =
            |name: &[u8], message: &str| Err(Error::new(ErrorKind::Types, message).tensor(name));
        let plan = if self.is_complete { "other model" } else { "plan" };
        if let Some(name) = self.types.keys().find(|name| !names.contains(name.as_slice())) {
            return wrong(name, &format!("is in the {plan}, but not in the model"));
        }
        match names.iter().find(|name| complete && !self.types.contains_key(**name)) {
            Some(name) => wrong(name, &format!("is in the model, but not in the {plan}")),
            None => Ok(()),
        }
    }
}

impl FromIterator<(Vec<u8>, GgmlType)> for TypePlan {
    fn from_iter<T: IntoIterator<Item = (Vec<u8>, GgmlType)>>(types: T) -> Self {
        Self { types: types.into_iter().collect(), is_complete: false }
    }
}

/// Returns an error if a tensor cannot be converted to the planned type.
pub(crate) fn check_type(planned: GgmlType, source: &SourceTensor) -> Result<()> {
    if planned == source.ggml_type {
        return Ok(());
    }
    let wrong = |message: String| Err(Error::new(ErrorKind::Types, message));
    if !is_for_weights(planned)
        || is_integer(source.ggml_type)
        || ggmill_quant::codec(source.ggml_type).is_err()
    {
        return wrong(format!("is {}, and cannot be converted to {planned}", source.ggml_type));
    }
    let row_len = source.shape.row_len();
    match planned.layout() {
        Some(layout) if row_len.is_multiple_of(u64::from(layout.elements)) => Ok(()),
        _ => wrong(format!(
            "has row length {row_len}, which is not a multiple of the block size of \
                            {planned}"
        )),
    }
}

/// Returns the file type of the type that most weights have.
pub(crate) fn mostly(tensors: impl Iterator<Item = (GgmlType, u64)>) -> FileType {
    let mut elements: BTreeMap<GgmlType, u64> = BTreeMap::new();
    for (ggml_type, more) in tensors {
        let sum = elements.entry(ggml_type).or_default();
        *sum = sum.saturating_add(more);
    }
    match elements.into_iter().max_by_key(|&(_, elements)| elements) {
        // The only file type with MXFP4 blocks, although not only experts have them. The reference
        // never guesses it.
        Some((GgmlType::MXFP4, _)) => FileType::MXFP4_MOE,
        most => most.map_or(FileType::F32, |(ggml_type, _)| file_type_of(ggml_type)),
    }
}

/// Returns the file type whose tensors mostly have this type.
pub(crate) fn file_type_of(ggml_type: GgmlType) -> FileType {
    match ggml_type {
        GgmlType::Q3_K => FileType::Q3_K_M,
        GgmlType::Q4_K => FileType::Q4_K_M,
        GgmlType::Q5_K => FileType::Q5_K_M,
        other => other.name().and_then(|name| name.parse().ok()).unwrap_or(FileType::F32),
    }
}

/// Returns the tensor type with this name, ignoring case, if it is one of [`weight_types`].
pub fn weight_type(name: &str) -> Option<GgmlType> {
    name.parse::<GgmlType>().ok().filter(|&ggml_type| is_for_weights(ggml_type))
}

/// Returns the tensor types that weights can be written as: all but the integers, and `Q8_1` and
/// `Q8_K`, which programs use for activations.
pub fn weight_types() -> impl Iterator<Item = GgmlType> {
    GgmlType::all().filter(|&ggml_type| is_for_weights(ggml_type))
}

pub(crate) fn is_for_weights(ggml_type: GgmlType) -> bool {
    !is_integer(ggml_type)
        && !matches!(ggml_type, GgmlType::Q8_1 | GgmlType::Q8_K)
        && ggmill_quant::codec(ggml_type).is_ok()
}

/// Returns `true` for integer types, which hold no weights.
pub(crate) fn is_integer(ggml_type: GgmlType) -> bool {
    matches!(ggml_type, GgmlType::I8 | GgmlType::I16 | GgmlType::I32 | GgmlType::I64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_type_of_most_of_its_weights() {
        let of = |tensors: &[(GgmlType, u64)]| mostly(tensors.iter().copied());
        assert_eq!(of(&[]), FileType::F32);
        assert_eq!(
            of(&[(GgmlType::Q4_K, 5), (GgmlType::Q6_K, 3), (GgmlType::Q6_K, 4)]),
            FileType::Q6_K
        );
        assert_eq!(of(&[(GgmlType::MXFP4, 5), (GgmlType::F32, 4)]), FileType::MXFP4_MOE);
        assert_eq!(of(&[(GgmlType::Q5_K, 5)]), FileType::Q5_K_M);
    }
}
