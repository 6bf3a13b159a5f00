//! Importance matrices from sums that a program has just computed.

use std::collections::BTreeMap;

use ggmill_core::RawStr;

use super::{Imatrix, ImatrixEntry, ImatrixForm, invalid};
use ggmill_pipeline::Result;

impl Imatrix {
    /// A matrix of sums: for each tensor its name, the sums of the squares of activations (a row of
    /// columns for each matrix of the tensor), and for each matrix how many went into them. `chunks`
    /// is the number of chunks and the tokens of one; `dataset` names the text.
    ///
    /// Fails where there is no tensor or one occurs twice, where sums and counts do not belong
    /// together, and where a sum is not finite.
    ///
    /// ```
    /// use ggmill_quantize::Imatrix;
    /// let sums = [("blk.0.attn_q.weight", vec![8.0, 2.0], vec![4])];
    /// let imatrix = Imatrix::from_sums(sums, Some("wiki.txt"), (1, 4))?;
    /// assert_eq!(imatrix.get(b"blk.0.attn_q.weight").ok_or("an entry")?.weights(), [2.0, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_sums<N: AsRef<[u8]>>(
        tensors: impl IntoIterator<Item = (N, Vec<f32>, Vec<i64>)>,
        dataset: Option<&str>,
        chunks: (u32, u32),
    ) -> Result<Self> {
        let mut entries = BTreeMap::new();
        for (name, sums, counts) in tensors {
            let name = name.as_ref();
            let about = |what: &str| invalid(format!("entry {:?}: {what}", RawStr::new(name)));
            if counts.is_empty() || sums.is_empty() || !sums.len().is_multiple_of(counts.len()) {
                return Err(about("the sums cannot be divided evenly among the counts"));
            }
            if !sums.iter().all(|sum| sum.is_finite()) {
                return Err(about("a sum is not finite"));
            }
            let entry = ImatrixEntry { form: ImatrixForm::Gguf, sums, counts };
            if entries.insert(name.to_vec(), entry).is_some() {
                return Err(about("occurs twice"));
            }
        }
        if entries.is_empty() {
            return Err(invalid("no tensor has been measured"));
        }
        let datasets = dataset.map(|name| name.as_bytes().to_vec()).into_iter().collect();
        let (chunk_count, chunk_size) = chunks;
        Ok(Self { form: ImatrixForm::Gguf, entries, datasets, chunk_count, chunk_size })
    }
}
