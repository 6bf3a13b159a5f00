//! Weights of a model as numbers, a few rows at a time.

use ggmill_core::Tensor;
use ggmill_quant::{Isa, Panel, codec_with};
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};

use crate::error::{Error, ErrorKind, Result};
use crate::matrix::Tiles;
use crate::program::Program;
use crate::sizes::ROWS;

/// Rows as they are in the file, and as numbers. Its memory serves for one after the other.
#[derive(Default)]
struct Decoded {
    blocks: Vec<u8>,
    values: Vec<f32>,
}

/// Gives a vector this length, whatever is in it.
fn set_len<T: Copy + Default>(values: &mut Vec<T>, len: usize) -> Result<()> {
    let more = len.saturating_sub(values.len());
    values.try_reserve_exact(more).map_err(|_| Error::memory(len))?;
    values.resize(len, T::default());
    Ok(())
}

impl Program<'_> {
    fn tensor(&self, weight: usize) -> Result<Tensor<'_>> {
        let name = &self.graph.weights()[weight].name;
        Ok(self.model.tensor(name)?)
    }

    /// The rows of a weight, counted over all dimensions but the first.
    pub(crate) fn rows(&self, weight: usize, first: usize, count: usize) -> Result<Vec<f32>> {
        let mut decoded = Decoded::default();
        self.rows_into(Isa::best(), weight, first, count, &mut decoded)?;
        Ok(decoded.values)
    }

    fn rows_into(
        &self,
        isa: Isa,
        weight: usize,
        first: usize,
        count: usize,
        decoded: &mut Decoded,
    ) -> Result<()> {
        let tensor = self.tensor(weight)?;
        let row_len = self.row_len(weight);
        let layout = tensor.ggml_type().layout().ok_or_else(|| {
            Error::new(ErrorKind::Tensor, format_args!("type {}", tensor.ggml_type()))
        })?;
        let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
        let row_size = row_len / elements * bytes;
        if !row_len.is_multiple_of(elements) {
            // A row begins within a block: there is no reading it alone.
            decoded.values = self.rows_within_blocks(&tensor, weight, first, count)?;
            return Ok(());
        }
        let Decoded { blocks, values } = decoded;
        set_len(blocks, row_size * count)?;
        self.model.read(&tensor, (row_size * first) as u64, blocks)?;
        set_len(values, row_len * count)?;
        codec_with(tensor.ggml_type(), isa)?.dequantize(blocks, values)?;
        self.check_finite(weight, first, values)?;
        if let Some(rounded) = self.rounded.as_ref().filter(|rounded| rounded.weight == weight) {
            rounded.round(self.dimension(weight, 1), first, row_len, values)?;
        }
        Ok(())
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

    /// Decodes some rows of a matrix and arranges them for products, on several threads.
    pub(crate) fn decode(
        &self,
        tiles: &mut Tiles,
        weight: usize,
        first: usize,
        count: usize,
    ) -> Result<()> {
        let isa = tiles.isa;
        let panels: Vec<Panel<'_>> = tiles.panels.parts(count, self.row_len(weight))?.collect();
        let decode = |decoded: &mut Decoded, (number, panel): (usize, Panel<'_>)| {
            self.rows_into(isa, weight, first + number * ROWS, panel.rows(), decoded)?;
            Ok(panel.pack(isa, &decoded.values)?)
        };
        panels.into_par_iter().enumerate().try_for_each_init(Decoded::default, decode)
    }
}
