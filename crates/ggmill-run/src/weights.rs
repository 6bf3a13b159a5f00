//! Weights of a model as numbers, a few rows at a time.

use ggmill_core::Tensor;
use ggmill_quant::{Isa, Panels, codec_with};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use crate::error::{Error, ErrorKind, Result, room};
use crate::program::Program;

/// Rows that one task decodes.
pub(crate) const ROWS: usize = Panels::WIDTH;

impl Program<'_> {
    fn tensor(&self, weight: usize) -> Result<Tensor<'_>> {
        let name = &self.graph.weights()[weight].name;
        Ok(self.model.tensor(name)?)
    }

    /// The rows of a weight, counted over all dimensions but the first.
    pub(crate) fn rows(&self, weight: usize, first: usize, count: usize) -> Result<Vec<f32>> {
        self.rows_with(Isa::best(), weight, first, count)
    }

    fn rows_with(&self, isa: Isa, weight: usize, first: usize, count: usize) -> Result<Vec<f32>> {
        let tensor = self.tensor(weight)?;
        let row_len = self.row_len(weight);
        let layout = tensor.ggml_type().layout().ok_or_else(|| {
            Error::new(ErrorKind::Tensor, format_args!("type {}", tensor.ggml_type()))
        })?;
        let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
        let row_size = row_len / elements * bytes;
        if !row_len.is_multiple_of(elements) {
            // A row begins within a block: there is no reading it alone.
            return self.rows_within_blocks(&tensor, weight, first, count);
        }
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(row_size * count).map_err(|_| Error::memory(row_size * count))?;
        blocks.resize(row_size * count, 0);
        self.model.read(&tensor, (row_size * first) as u64, &mut blocks)?;
        let mut values = room(row_len * count)?;
        codec_with(tensor.ggml_type(), isa)?.dequantize(&blocks, &mut values)?;
        self.check_finite(weight, first, &values)?;
        if let Some(rounded) = self.rounded.as_ref().filter(|rounded| rounded.weight == weight) {
            rounded.round(self.dimension(weight, 1), first, row_len, &mut values)?;
        }
        Ok(values)
    }

    fn rows_within_blocks(
        &self,
        tensor: &Tensor<'_>,
        weight: usize,
        first: usize,
        count: usize,
    ) -> Result<Vec<f32>> {
        let row_len = self.row_len(weight);
        let values = ggmill_quant::read_f32(self.model, tensor)?;
        let values = values[first * row_len..(first + count) * row_len].to_vec();
        self.check_finite(weight, first, &values)?;
        Ok(values)
    }

    /// A whole weight, which is small.
    pub(crate) fn whole(&self, weight: usize) -> Result<Vec<f32>> {
        let rows = self.graph.weights()[weight].dimensions[1..].iter().product::<u64>();
        self.rows(weight, 0, rows as usize)
    }

    /// The first dimension.
    pub(crate) fn row_len(&self, weight: usize) -> usize {
        self.graph.weights()[weight].dimensions.first().map_or(1, |&len| len as usize)
    }

    fn check_finite(&self, weight: usize, first: usize, values: &[f32]) -> Result<()> {
        // One test for all is faster than one for each.
        let sum = values
            .chunks(64)
            .all(|values| values.iter().fold(true, |all, value| all & value.is_finite()));
        if sum {
            return Ok(());
        }
        let place = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
        let row = first + place / self.row_len(weight).max(1);
        let name = &self.graph.weights()[weight].name;
        let value = values[place];
        let message = format!("tensor {name:?}, row {row}: {value}, expected a finite number");
        Err(Error::new(ErrorKind::NotFinite, message))
    }

    /// Some rows of a matrix, decoded and arranged for products on several threads.
    pub(crate) fn panels(
        &self,
        isa: Isa,
        weight: usize,
        first: usize,
        count: usize,
    ) -> Result<Vec<Panels>> {
        let starts: Vec<usize> = (first..first + count).step_by(ROWS).collect();
        let pack = |start: usize| {
            let rows = ROWS.min(first + count - start);
            let values = self.rows_with(isa, weight, start, rows)?;
            let mut panels = Panels::default();
            panels.pack(&values, self.row_len(weight))?;
            Ok(panels)
        };
        starts.into_par_iter().map(pack).collect()
    }
}
