//! Several importance matrices added up, as `llama-imatrix --in-file` does it.

use std::collections::BTreeMap;

use ggmill_core::RawStr;

use super::memory::collected;
use super::{Imatrix, ImatrixEntry, ImatrixForm, as_f32, invalid};
use ggmill_pipeline::Result;

/// Tokens in a chunk where no file says it: what `llama-imatrix` takes unless it is told otherwise.
pub(super) const USUAL_CHUNK: u32 = 512;

impl Imatrix {
    /// The combined measurements, in the GGUF form: sums and counts of each tensor are
    /// added, the names of the texts are concatenated.
    ///
    /// `chunk_size` is how many tokens a chunk has; 0 takes it from the first file that says so,
    /// else 512. It is what the calls of a legacy file are converted to counts with, and what the
    /// number of chunks follows from. One matrix alone is brought into that form.
    ///
    /// Fails when two files do not agree on how many columns or matrices a tensor has, and when a
    /// sum is no longer finite; both name the entry.
    pub fn merge(matrices: &[Self], chunk_size: u32) -> Result<Self> {
        let stated = || {
            matrices
                .iter()
                .map(|matrix| matrix.chunk_size)
                .find(|&size| size > 0)
                .unwrap_or(USUAL_CHUNK)
        };
        let chunk_size = if chunk_size > 0 { chunk_size } else { stated() };
        let mut entries: BTreeMap<Vec<u8>, ImatrixEntry> = BTreeMap::new();
        for matrix in matrices {
            for (name, entry) in &matrix.entries {
                let about =
                    |message: String| invalid(format!("entry {:?}: {message}", RawStr::new(name)));
                let sum = match entries.get_mut(name) {
                    Some(sum) => sum,
                    None => entries.entry(name.clone()).or_insert(entry.empty()?),
                };
                sum.add(entry, chunk_size).map_err(about)?;
                if let Some(column) = sum.sums.iter().position(|sum| !sum.is_finite()) {
                    return Err(about(format!("the sum of column {column} is not finite")));
                }
            }
        }
        let datasets = matrices.iter().flat_map(|matrix| matrix.datasets.iter().cloned()).collect();
        let most = entries.values().flat_map(|entry| &entry.counts).max().copied().unwrap_or(0);
        let chunk_count = u32::try_from(most / i64::from(chunk_size)).unwrap_or(0);
        Ok(Self { form: ImatrixForm::Gguf, entries, datasets, chunk_count, chunk_size })
    }
}

impl ImatrixEntry {
    /// An entry of this shape in which nothing is counted yet.
    fn empty(&self) -> Result<Self> {
        let sums = collected(self.sums.iter().map(|_| 0.0))?;
        let counts = collected(self.counts.iter().map(|_| 0))?;
        Ok(Self { form: ImatrixForm::Gguf, sums, counts })
    }

    /// Adds what was measured elsewhere. In the order of operations, and in single precision, as
    /// the reference does it.
    fn add(&mut self, other: &Self, chunk_size: u32) -> Result<(), String> {
        if self.sums.len() != other.sums.len() {
            return Err(format!(
                "{} columns, but {} in a different input, counted over all matrices",
                self.sums.len(),
                other.sums.len()
            ));
        }
        match other.form {
            ImatrixForm::Legacy => {
                // A legacy file scales its sums to the number of calls, and does not tell matrices
                // of a stack apart.
                for (sum, &more) in self.sums.iter_mut().zip(&other.sums) {
                    *sum += more * as_f32(i64::from(chunk_size));
                }
                let calls = other
                    .counts
                    .first()
                    .copied()
                    .unwrap_or(0)
                    .saturating_mul(i64::from(chunk_size));
                self.counts.iter_mut().for_each(|count| *count = count.saturating_add(calls));
            }
            ImatrixForm::Gguf => {
                if let (&[counted], more @ 2..) = (&*self.counts, other.counts.len()) {
                    self.counts = vec![counted; more];
                }
                if self.counts.len() != other.counts.len() {
                    return Err(format!(
                        "{} matrices, but {} in a different input",
                        self.counts.len(),
                        other.counts.len()
                    ));
                }
                self.sums.iter_mut().zip(&other.sums).for_each(|(sum, &more)| *sum += more);
                self.counts
                    .iter_mut()
                    .zip(&other.counts)
                    .for_each(|(count, &more)| *count = count.saturating_add(more));
            }
        }
        Ok(())
    }
}
