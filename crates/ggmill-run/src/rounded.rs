//! A weight as another type: its numbers are rounded when they are read.

use std::sync::Arc;

use ggmill_core::GgmlType;
use ggmill_quant::codec;

use crate::error::Result;

/// A weight whose numbers become what they are after quantization to a type.
#[derive(Clone, Debug)]
pub(crate) struct Rounded {
    /// Its number in the graph.
    pub(crate) weight: usize,
    pub(crate) ggml_type: GgmlType,
    /// A row of weights for each matrix of the tensor.
    pub(crate) importance: Option<Arc<Vec<f32>>>,
}

impl Rounded {
    /// Rounds rows from one on; `height` is the number of rows of a matrix.
    pub(crate) fn round(
        &self,
        height: usize,
        first: usize,
        row_len: usize,
        values: &mut [f32],
    ) -> Result<()> {
        let codec = codec(self.ggml_type)?;
        let size = self.ggml_type.layout().and_then(|layout| layout.bytes_for(row_len as u64));
        let mut blocks = vec![0; size.unwrap_or(0) as usize];
        for (row, values) in (first..).zip(values.chunks_exact_mut(row_len)) {
            let importance = self.importance.as_ref().map(|all| {
                let start = row / height.max(1) * row_len;
                &all[start..start + row_len]
            });
            codec.quantize(values, row_len, importance, &mut blocks)?;
            codec.dequantize(&blocks, values)?;
        }
        Ok(())
    }
}
