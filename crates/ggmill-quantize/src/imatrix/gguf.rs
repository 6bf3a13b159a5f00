//! The GGUF form: for each tensor of the model the sums of squared activations, `NAME.in_sum2`, and
//! how many went into them, `NAME.counts`.

use std::collections::BTreeMap;

use ggmill_core::{Endian, GgmlType, Gguf, Optional as _, RawStr, Tensor};

use super::{Imatrix, ImatrixEntry, ImatrixForm, MAX_ENTRIES, invalid};
use ggmill_pipeline::Result;

pub(super) fn parse(bytes: &[u8]) -> Result<Imatrix> {
    let broken = |error: ggmill_core::Error| invalid(error.to_string());
    let file = Gguf::parse(bytes).map_err(broken)?;
    if file.index().endian() != Endian::Little {
        return Err(invalid("is big-endian, expected little-endian"));
    }
    let mut pairs: BTreeMap<&[u8], Pair<'_>> = BTreeMap::new();
    for tensor in file.tensors() {
        let name = tensor.name().as_bytes();
        if let Some(name) = name.strip_suffix(b".in_sum2") {
            pairs.entry(name).or_default().sums = Some(tensor);
        } else if let Some(name) = name.strip_suffix(b".counts") {
            pairs.entry(name).or_default().counts = Some(tensor);
        }
    }
    if pairs.is_empty() {
        return Err(invalid("has no tensors NAME.in_sum2, expected an importance matrix"));
    }
    if pairs.len() > MAX_ENTRIES {
        return Err(invalid(format!("{} entries, the limit is {MAX_ENTRIES}", pairs.len())));
    }
    let entries = pairs
        .into_iter()
        .map(|(name, pair)| Ok((name.to_vec(), pair.entry(name)?)))
        .collect::<Result<_>>()?;
    let metadata = file.metadata();
    let number = |key: &str| metadata.u32(key).optional().map_err(broken);
    let mut datasets = Vec::new();
    if let Some(array) = metadata.array("imatrix.datasets").optional().map_err(broken)? {
        for name in array.strings().into_iter().flatten() {
            datasets.push(name.map_err(broken)?.as_bytes().to_vec());
        }
    }
    let chunk_count = number("imatrix.chunk_count")?.unwrap_or(0);
    let chunk_size = number("imatrix.chunk_size")?.unwrap_or(0);
    Ok(Imatrix { form: ImatrixForm::Gguf, entries, datasets, chunk_count, chunk_size })
}

/// The two tensors of an entry.
#[derive(Default)]
struct Pair<'a> {
    sums: Option<Tensor<'a>>,
    counts: Option<Tensor<'a>>,
}

impl Pair<'_> {
    fn entry(self, name: &[u8]) -> Result<ImatrixEntry> {
        let name = RawStr::new(name);
        let (Some(sums), Some(counts)) = (self.sums, self.counts) else {
            return Err(invalid(format!(
                "entry {name:?} has sums without counts, or counts without sums"
            )));
        };
        let (sums, counts) = (floats(&sums)?, floats(&counts)?);
        if counts.is_empty() || sums.is_empty() || !sums.len().is_multiple_of(counts.len()) {
            return Err(invalid(format!(
                "entry {name:?}: {} sums cannot be divided evenly among {} counts",
                sums.len(),
                counts.len()
            )));
        }
        let counts = counts.iter().map(|&count| whole(count)).collect::<Option<_>>();
        let counts =
            counts.ok_or_else(|| invalid(format!("entry {name:?}: a count is not a number")))?;
        Ok(ImatrixEntry { form: ImatrixForm::Gguf, sums, counts })
    }
}

fn floats(tensor: &Tensor<'_>) -> Result<Vec<f32>> {
    if tensor.ggml_type() != GgmlType::F32 {
        return Err(invalid(format!(
            "tensor {:?} is {}, expected F32",
            tensor.name(),
            tensor.ggml_type()
        )));
    }
    let data = tensor.data().map_err(|error| invalid(error.to_string()))?;
    super::values(&data).map_err(|error| error.tensor(tensor.name().as_bytes()))
}

/// A count is stored as a float.
fn whole(count: f32) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "finite; whatever is beyond the range becomes its end"
    )]
    count.is_finite().then(|| count.round() as i64)
}
