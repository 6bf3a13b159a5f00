//! Writing either form, as `llama-imatrix` writes it.

use ggmill_core::{Builder, GgmlType, MetadataBuf, RawStr, Shape, Writer};

use super::combine::USUAL_CHUNK;
use super::memory::room;
use super::{Imatrix, ImatrixEntry, ImatrixForm, as_f32, invalid};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// Values that are encoded at once.
const AT_ONCE: usize = 4096;

impl Imatrix {
    /// The bytes of a file in this form.
    ///
    /// The legacy form has no place for a tensor that was never used, which is left out, nor for
    /// the counts of single matrices of a stack, nor for more than the last text. Fails when no
    /// entry is left, when a name or a number does not fit the form, and when memory is short.
    pub fn to_bytes(&self, form: ImatrixForm) -> Result<Vec<u8>> {
        match (self.form, form) {
            // Counts are what either form is written from.
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
                // As in any GGUF file of the reference, a last dimension of one is not written.
                let dimensions = if matrices == 1 { &[columns][..] } else { &[columns, matrices] };
                let shape = Shape::new(dimensions).map_err(failed)?;
                builder = builder.tensor([name, suffix.as_bytes()].concat(), GgmlType::F32, shape);
            }
        }
        let plan = builder.plan().map_err(failed)?;
        let broken =
            |error: ggmill_core::WriteError<_>| Error::new(ErrorKind::Misuse, error.to_string());
        let out = room(usize::try_from(plan.total_len()).unwrap_or(usize::MAX))?;
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
        let chunk_size = i64::from(if self.chunk_size > 0 { self.chunk_size } else { USUAL_CHUNK });
        let used: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.is_used()).collect();
        if used.is_empty() {
            return Err(invalid(
                "no entry has been measured, so there is nothing to write in the legacy format",
            ));
        }
        // Per entry the lengths of its name and its values, and its calls; at the end two counts
        // and the data set.
        let len =
            used.iter().map(|(name, entry)| 12 + name.len() + 4 * entry.sums.len()).sum::<usize>();
        let mut out = room(len + 12 + self.datasets.last().map_or(0, Vec::len))?;
        put_count(&mut out, used.len())?;
        for (name, entry) in used {
            put_count(&mut out, name.len())?;
            out.extend_from_slice(name);
            // Rounded up, so that little use is not none.
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

impl ImatrixEntry {
    /// Whether any matrix of the stack was used.
    pub fn is_used(&self) -> bool {
        self.counts.iter().any(|&count| count > 0)
    }
}

/// A number of the legacy form: 32 bits with a sign.
fn put_count(out: &mut Vec<u8>, number: usize) -> Result<()> {
    let number = i32::try_from(number).map_err(|_| {
        invalid(format!("{number} does not fit the legacy format, the limit is {}", i32::MAX))
    })?;
    out.extend(number.to_le_bytes());
    Ok(())
}
