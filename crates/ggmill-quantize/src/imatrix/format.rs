//! The two file formats of importance matrices, as `llama-imatrix` reads and writes them.
//!
//! A GGUF file has, for each tensor of the model, the sums of squared activations, `NAME.in_sum2`,
//! and the number of activations, `NAME.counts`. The legacy format has a count of entries; for each
//! entry its name, calls and values; and optionally the number of chunks and the name of the
//! dataset.

use std::collections::BTreeMap;

use ggmill_core::{
    Builder, Endian, GgmlType, Header, MetadataBuf, Optional as _, RawStr, Shape, Tensor, Writer,
};
use ggmill_pipeline::{Error, ErrorKind, Result};

use super::{
    DEFAULT_CHUNK_SIZE, Imatrix, ImatrixEntry, ImatrixForm, MAX_ENTRIES, as_f32, invalid, values,
    with_capacity,
};

pub(super) fn parse_gguf(bytes: &[u8]) -> Result<Imatrix> {
    let broken = |error: ggmill_core::Error| invalid(error.to_string());
    let file = Header::parse(bytes).map_err(broken)?;
    if file.endian() != Endian::Little {
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
    values(&data).map_err(|error| error.tensor(tensor.name().as_bytes()))
}

/// Converts a count, which is stored as a float, or returns `None` if it is not finite.
fn whole(count: f32) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "finite, and the conversion saturates")]
    count.is_finite().then(|| count.round() as i64)
}

pub(super) fn parse_legacy(bytes: &[u8]) -> Result<Imatrix> {
    let mut reader = Reader { bytes, at: 0 };
    let count = reader.count("entries", ENTRY)?;
    if count == 0 {
        return Err(invalid("has no entries"));
    }
    if count > MAX_ENTRIES {
        return Err(invalid(format!("{count} entries, the limit is {MAX_ENTRIES}")));
    }
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let (name, entry) = reader.entry()?;
        if entries.contains_key(&name) {
            return Err(invalid(format!("entry {:?} is a duplicate", RawStr::new(&name))));
        }
        entries.insert(name, entry);
    }
    let mut imatrix = Imatrix {
        form: ImatrixForm::Legacy,
        entries,
        datasets: Vec::new(),
        chunk_count: 0,
        chunk_size: 0,
    };
    if !reader.is_at_end() {
        imatrix.chunk_count = u32::try_from(reader.i32("the number of chunks")?).unwrap_or(0);
    }
    if !reader.is_at_end() {
        let length = reader.count("bytes of a dataset name", 1)?;
        let name = reader.take(length, "the dataset name")?;
        // Written from a C string.
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        imatrix.datasets.extend((!name.is_empty()).then(|| name.to_vec()));
    }
    Ok(imatrix)
}

/// The size of the smallest entry in bytes: an empty name with its length, two counts, one value.
const ENTRY: usize = 16;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..length).ok_or_else(|| {
            let (at, remain) = (self.at, rest.len());
            invalid(format!(
                "offset {at:#x}: {what} needs {length} bytes, but {remain} remain; the file is \
                 truncated, or is not an importance matrix"
            ))
        })?;
        self.at += length;
        Ok(taken)
    }

    fn i32(&mut self, what: &str) -> Result<i32> {
        let bytes = self.take(4, what)?;
        Ok(bytes.first_chunk().map_or(0, |&bytes| i32::from_le_bytes(bytes)))
    }

    /// Reads a count of items of at least `least` bytes each. Returns an error if the remaining
    /// bytes cannot hold them.
    fn count(&mut self, what: &str, least: usize) -> Result<usize> {
        let at = self.at;
        let count = self.i32(what)?;
        let remain = self.bytes.len() - self.at;
        let fits = |&count: &usize| count.checked_mul(least).is_some_and(|bytes| bytes <= remain);
        usize::try_from(count).ok().filter(fits).ok_or_else(|| {
            invalid(format!(
                "offset {at:#x}: {count} {what} in the remaining {remain} bytes; the file is \
                 truncated, or is not an importance matrix"
            ))
        })
    }

    fn entry(&mut self) -> Result<(Vec<u8>, ImatrixEntry)> {
        let length = self.count("bytes of a name", 1)?;
        let name = self.take(length, "a name")?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
        let calls = self.i32("the number of calls")?;
        let value_count = self.count("values", 4)?;
        if value_count == 0 {
            return Err(invalid(format!("entry {:?} has no values", RawStr::new(&name))));
        }
        let sums = values(self.take(value_count * 4, "the values")?)?;
        Ok((name, ImatrixEntry { form: ImatrixForm::Legacy, sums, counts: vec![i64::from(calls)] }))
    }
}

/// The number of values that are encoded at once.
const AT_ONCE: usize = 4096;

impl Imatrix {
    /// Returns the bytes of a file of this format.
    ///
    /// The legacy format omits tensors that were never used, and keeps neither the counts of single
    /// matrices of a stack nor more than the last dataset name.
    ///
    /// # Errors
    ///
    /// If no entry remains, a name or a number does not fit the format, or memory cannot be
    /// allocated.
    pub fn to_bytes(&self, form: ImatrixForm) -> Result<Vec<u8>> {
        match (self.form, form) {
            // Merging converts the calls to counts, which both formats are written from.
            (ImatrixForm::Legacy, _) => Self::merge(std::slice::from_ref(self), 0)?.to_bytes(form),
            (ImatrixForm::Gguf, ImatrixForm::Gguf) => self.gguf(),
            (ImatrixForm::Gguf, ImatrixForm::Legacy) => self.legacy(),
        }
    }

    fn gguf(&self) -> Result<Vec<u8>> {
        let failed = |error: ggmill_core::Error| Error::caused(ErrorKind::Importance, error);
        let mut metadata = MetadataBuf::new();
        metadata.set("general.type", "imatrix");
        let datasets: Vec<RawStr<'_>> = self.datasets().collect();
        metadata.set("imatrix.datasets", datasets);
        metadata.set("imatrix.chunk_count", self.chunk_count);
        metadata.set("imatrix.chunk_size", self.chunk_size);
        let mut builder = Builder::new().metadata(metadata);
        for (name, entry) in &self.entries {
            let matrices = entry.counts.len() as u64;
            for (suffix, columns) in [(".in_sum2", entry.width() as u64), (".counts", 1)] {
                // As in all GGUF files of the reference, a trailing dimension of 1 is omitted.
                let dimensions = if matrices == 1 { &[columns][..] } else { &[columns, matrices] };
                let shape = Shape::new(dimensions).map_err(failed)?;
                builder = builder.tensor([name, suffix.as_bytes()].concat(), GgmlType::F32, shape);
            }
        }
        let plan = builder.plan().map_err(failed)?;
        let broken =
            |error: ggmill_core::WriteError<_>| Error::new(ErrorKind::Misuse, error.to_string());
        let out = with_capacity(usize::try_from(plan.total_len()).unwrap_or(usize::MAX))?;
        let mut writer = Writer::start(&plan, out).map_err(broken)?;
        for (number, entry) in self.entries.values().enumerate() {
            let counts: Vec<f32> = entry.counts.iter().map(|&count| as_f32(count)).collect();
            for (place, values) in [&entry.sums, &counts].into_iter().enumerate() {
                for values in values.chunks(AT_ONCE) {
                    let bytes: Vec<u8> =
                        values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    writer.write(2 * number + place, &bytes).map_err(broken)?;
                }
            }
        }
        writer.finish().map_err(broken)
    }

    fn legacy(&self) -> Result<Vec<u8>> {
        let chunk_size =
            i64::from(if self.chunk_size > 0 { self.chunk_size } else { DEFAULT_CHUNK_SIZE });
        let used: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.is_used()).collect();
        if used.is_empty() {
            return Err(invalid(
                "no entry has been measured, so there is nothing to write in the legacy format",
            ));
        }
        // Three numbers per entry: the length of its name, its calls, the number of values. And the
        // number of entries, the number of chunks and the length of the dataset name.
        let len =
            used.iter().map(|(name, entry)| 12 + name.len() + 4 * entry.sums.len()).sum::<usize>();
        let mut out = with_capacity(len + 12 + self.datasets.last().map_or(0, Vec::len))?;
        put_count(&mut out, used.len())?;
        for (name, entry) in used {
            put_count(&mut out, name.len())?;
            out.extend_from_slice(name);
            // Rounded up, so that an entry that was used has at least one call.
            let most = entry.counts.iter().max().copied().unwrap_or(0);
            let calls = most.saturating_add(chunk_size - 1) / chunk_size;
            put_count(&mut out, usize::try_from(calls).unwrap_or(usize::MAX))?;
            put_count(&mut out, entry.sums.len())?;
            for (sums, &count) in entry.sums.chunks(entry.width().max(1)).zip(&entry.counts) {
                let scaled = |&sum: &f32| {
                    if count == 0 { as_f32(calls) } else { sum / as_f32(count) * as_f32(calls) }
                };
                out.extend(sums.iter().map(scaled).flat_map(f32::to_le_bytes));
            }
        }
        put_count(&mut out, usize::try_from(self.chunk_count).unwrap_or(usize::MAX))?;
        let dataset = self.datasets.last().map_or(&[][..], Vec::as_slice);
        put_count(&mut out, dataset.len())?;
        out.extend_from_slice(dataset);
        Ok(out)
    }
}

/// Writes a number of the legacy format, an `i32`.
fn put_count(out: &mut Vec<u8>, number: usize) -> Result<()> {
    let number = i32::try_from(number).map_err(|_| {
        invalid(format!("{number} does not fit the legacy format, the limit is {}", i32::MAX))
    })?;
    out.extend(number.to_le_bytes());
    Ok(())
}
