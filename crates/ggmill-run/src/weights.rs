//! Decodes the weights of a model a few rows at a time, and requantizes one of them to another type.

use std::sync::Arc;

use ggmill_core::{BlockLayout, GgmlType, Tensor};
use ggmill_quant::{Isa, Panel, codec, codec_with};
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};

use crate::error::{Error, ErrorKind, Result, try_zeros};
use crate::matrix::{PANEL_ROWS, Tiles};
use crate::program::Program;

/// Reusable buffers for encoded and decoded rows.
#[derive(Default)]
struct RowBuffers {
    blocks: Vec<u8>,
    values: Vec<f32>,
}

/// Resizes a vector; existing elements keep their values. Fails if there is not enough memory.
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

    /// Decodes `count` rows of a weight. Rows are numbered over all dimensions but the first.
    pub(crate) fn rows(&self, weight: usize, first: usize, count: usize) -> Result<Vec<f32>> {
        let mut decoded = RowBuffers::default();
        self.rows_into(Isa::best(), weight, first, count, &mut decoded)?;
        Ok(decoded.values)
    }

    fn rows_into(
        &self,
        isa: Isa,
        weight: usize,
        first: usize,
        count: usize,
        decoded: &mut RowBuffers,
    ) -> Result<()> {
        let row_len = self.row_len(weight);
        if let Some(Changed::Encoded(encoded)) = self.changed(weight) {
            set_len(&mut decoded.values, row_len * count)?;
            return encoded.decode_rows(isa, first, row_len, &mut decoded.values);
        }
        let tensor = self.tensor(weight)?;
        let layout = tensor.ggml_type().layout().ok_or_else(|| {
            Error::new(ErrorKind::Tensor, format_args!("type {}", tensor.ggml_type()))
        })?;
        let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
        let row_size = row_len / elements * bytes;
        if !row_len.is_multiple_of(elements) {
            // Rows can begin within a block, so the whole tensor is decoded.
            decoded.values = self.rows_across_blocks(&tensor, weight, first, count)?;
            return Ok(());
        }
        let RowBuffers { blocks, values } = decoded;
        set_len(blocks, row_size * count)?;
        self.model.read(&tensor, (row_size * first) as u64, blocks)?;
        set_len(values, row_len * count)?;
        codec_with(tensor.ggml_type(), isa)?.dequantize(blocks, values)?;
        self.check_finite(weight, first, values)?;
        if let Some(Changed::Requantized(requantized)) = self.changed(weight) {
            requantized.requantize_rows(self.dimension(weight, 1), first, row_len, values)?;
        }
        Ok(())
    }

    /// Returns how a weight differs from that of the model.
    fn changed(&self, weight: usize) -> Option<&Changed> {
        self.changed.as_ref().filter(|changed| changed.weight() == weight)
    }

    /// Decodes a whole tensor and returns some of its rows.
    fn rows_across_blocks(
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

    /// Decodes all elements of a weight. Use it for small weights only.
    pub(crate) fn decode_weight(&self, weight: usize) -> Result<Vec<f32>> {
        let rows = self.graph.weights()[weight].dimensions[1..].iter().product::<u64>();
        self.rows(weight, 0, rows as usize)
    }

    /// Returns the row length of a weight: its first dimension.
    pub(crate) fn row_len(&self, weight: usize) -> usize {
        self.graph.weights()[weight].dimensions.first().map_or(1, |&len| len as usize)
    }

    /// Fails for an infinite or NaN element of decoded rows.
    fn check_finite(&self, weight: usize, first: usize, values: &[f32]) -> Result<()> {
        // The fold has no branch, so that the compiler vectorizes it.
        let all_finite = values
            .chunks(64)
            .all(|values| values.iter().fold(true, |all, value| all & value.is_finite()));
        if all_finite {
            return Ok(());
        }
        let index = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
        let row = first + index / self.row_len(weight).max(1);
        let name = &self.graph.weights()[weight].name;
        let value = values[index];
        let message = format!("tensor {name:?}, row {row}: {value}, expected a finite number");
        Err(Error::new(ErrorKind::NotFinite, message))
    }

    /// Decodes rows of a matrix in parallel and packs them into panels.
    pub(crate) fn decode_panels(
        &self,
        tiles: &mut Tiles,
        weight: usize,
        first: usize,
        count: usize,
    ) -> Result<()> {
        let isa = tiles.isa;
        let panels: Vec<Panel<'_>> = tiles.panels.parts(count, self.row_len(weight))?.collect();
        let decode = |decoded: &mut RowBuffers, (number, panel): (usize, Panel<'_>)| {
            self.rows_into(isa, weight, first + number * PANEL_ROWS, panel.rows(), decoded)?;
            Ok(panel.pack(isa, &decoded.values)?)
        };
        panels.into_par_iter().enumerate().try_for_each_init(RowBuffers::default, decode)
    }
}

/// A weight that differs from that of the model.
#[derive(Clone, Debug)]
pub(crate) enum Changed {
    Requantized(Requantized),
    Encoded(Encoded),
}

impl Changed {
    fn weight(&self) -> usize {
        match self {
            Self::Requantized(requantized) => requantized.weight,
            Self::Encoded(encoded) => encoded.weight,
        }
    }
}

/// A weight that is read from blocks in memory.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    /// The index of the weight in the graph.
    pub(crate) weight: usize,
    pub(crate) ggml_type: GgmlType,
    /// The blocks of all rows.
    pub(crate) blocks: Arc<[u8]>,
}

impl Encoded {
    /// Decodes the rows from `first` on.
    fn decode_rows(&self, isa: Isa, first: usize, row_len: usize, out: &mut [f32]) -> Result<()> {
        let size = self.ggml_type.layout().and_then(|layout| layout.bytes_for(row_len as u64));
        let size = size.unwrap_or(0) as usize;
        let blocks = &self.blocks[first * size..][..out.len() / row_len.max(1) * size];
        Ok(codec_with(self.ggml_type, isa)?.dequantize(blocks, out)?)
    }
}

/// A weight that is quantized to a type and decoded again whenever it is read.
#[derive(Clone, Debug)]
pub(crate) struct Requantized {
    /// The index of the weight in the graph.
    pub(crate) weight: usize,
    pub(crate) ggml_type: GgmlType,
    /// Importance weights: a row per matrix of the tensor, in it a number per column.
    pub(crate) importance: Option<Arc<Vec<f32>>>,
}

impl Requantized {
    /// Quantizes and decodes the rows from `first` on; `height` is the number of rows per matrix.
    pub(crate) fn requantize_rows(
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

impl<'m> Program<'m> {
    /// Returns the program with one tensor requantized to another type; `None` if the graph does not use
    /// the tensor.
    ///
    /// Fails if the row length is not a multiple of the type's block size, if the type cannot be encoded
    /// or requires importance weights that are missing, and if their number is wrong.
    pub(crate) fn with_requantized(
        &self,
        tensor: &str,
        ggml_type: GgmlType,
        importance: Option<&Arc<Vec<f32>>>,
    ) -> Result<Option<Program<'m>>> {
        let weights = self.graph.weights();
        let Some(weight) = weights.iter().position(|weight| weight.name == tensor) else {
            return Ok(None);
        };
        let wrong = |message: String| {
            Error::new(ErrorKind::Tensor, format_args!("tensor {tensor:?}: {message}"))
        };
        let row_len = self.row_len(weight);
        let source = self.model.tensor(tensor)?.ggml_type();
        for block_type in [ggml_type, source] {
            let divides = |layout: BlockLayout| row_len.is_multiple_of(layout.elements as usize);
            if !block_type.layout().is_some_and(divides) {
                return Err(wrong(format!(
                    "the row length {row_len} is not a multiple of the block size of {block_type}"
                )));
            }
        }
        let matrices = weights[weight].dimensions.iter().skip(2).product::<u64>();
        let wanted = row_len * matrices as usize;
        if let Some(found) = importance.map(|all| all.len()).filter(|&found| found != wanted) {
            return Err(wrong(format!("{found} importance weights, expected {wanted}")));
        }
        let requantized = Requantized { weight, ggml_type, importance: importance.map(Arc::clone) };
        // A type that cannot be encoded fails for every row, so a row of zeros is enough.
        let mut zeros = try_zeros(row_len)?;
        requantized
            .requantize_rows(1, 0, row_len, &mut zeros)
            .map_err(|error| wrong(error.to_string()))?;
        let mut program = self.clone();
        program.changed = Some(Changed::Requantized(requantized));
        Ok(Some(program))
    }

    /// Returns the program with one weight read from blocks. Fails if these are not those of the whole
    /// tensor.
    pub(crate) fn with_encoded(&self, encoded: Encoded) -> Result<Program<'m>> {
        let weight = &self.graph.weights()[encoded.weight];
        let elements = weight.dimensions.iter().product();
        let layout = encoded.ggml_type.layout();
        let expected = layout.and_then(|layout| layout.bytes_for(elements));
        if expected != Some(encoded.blocks.len() as u64) {
            let (name, found, ggml_type) = (&weight.name, encoded.blocks.len(), encoded.ggml_type);
            let message = format!("tensor {name:?}: {found} bytes are not its size in {ggml_type}");
            return Err(Error::new(ErrorKind::Tensor, message));
        }
        let mut program = self.clone();
        program.changed = Some(Changed::Encoded(encoded));
        Ok(program)
    }

    /// Returns the first node whose result can differ from that of the unmodified program.
    pub(crate) fn first_difference(&self) -> usize {
        let nodes = self.graph.nodes();
        let uses_weight = |changed: &Changed| {
            nodes.iter().position(|node| node.operation.weights().contains(&changed.weight()))
        };
        self.changed.as_ref().and_then(uses_weight).unwrap_or(nodes.len())
    }
}
