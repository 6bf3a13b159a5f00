//! Sums of squared activations of matrices: what an importance matrix is made of.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefMutIterator as _, ParallelIterator as _,
};
use rayon::slice::ParallelSliceMut as _;

use crate::error::{Error, ErrorKind, Result};
use crate::program::Program;

/// What the names of the matrices of blocks begin with: those of a decoder alone, and those of an
/// encoder and a decoder.
const BLOCKS: [&str; 3] = ["blk.", "enc.blk.", "dec.blk."];
/// The matrix of the output.
const OUTPUT: &str = "output.weight";
/// Columns that one task adds up: some cache lines of a row.
const PIECE: usize = 64;

/// Which matrices of a model are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matrices {
    /// Those of the blocks (`blk.`), as llama-imatrix measures them by default, and those of the blocks
    /// of an encoder and a decoder (`enc.blk.`, `dec.blk.`), which llama-imatrix leaves out.
    #[default]
    Blocks,
    /// Those of the blocks, and `output.weight`: llama-imatrix's `--process-output`.
    BlocksAndOutput,
    /// All, including those outside the blocks: token embeddings that serve as the output matrix too,
    /// for example.
    All,
}

impl Matrices {
    fn include(self, name: &str) -> bool {
        BLOCKS.iter().any(|start| name.starts_with(start))
            || match self {
                Self::Blocks => false,
                Self::BlocksAndOutput => name == OUTPUT,
                Self::All => true,
            }
    }

    /// Whether the output of the model is computed for them.
    pub(crate) fn need_output(self) -> bool {
        self != Self::Blocks
    }
}

/// For each matrix of a model the sums of the squares of what it was multiplied with, column by
/// column, and how many rows went into them.
///
/// The matrices of experts have sums and counts of their own, of the tokens that were routed to
/// them, as llama-imatrix has them. Sums are of double precision and in the order of the tokens, so
/// they do not depend on threads, or on how many chunks are run at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activations {
    measured: Matrices,
    /// By the number of the weight.
    by_weight: BTreeMap<usize, TensorActivations>,
}

/// The sums of one tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorActivations {
    /// The name of the tensor.
    pub name: String,
    /// The sums of squares: a row of columns for each matrix of the tensor.
    pub sums: Vec<f64>,
    /// For each matrix how many rows of activations went into its sums.
    pub counts: Vec<u64>,
}

impl Activations {
    /// The fewest tokens of a chunk: llama-imatrix does not count shorter ones.
    pub const LEAST: usize = 16;

    /// The tensors, in the order in which the model has them.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorActivations> {
        self.by_weight.values()
    }

    /// Sums of nothing yet.
    pub(crate) fn new(measured: Matrices) -> Self {
        Self { measured, by_weight: BTreeMap::new() }
    }

    /// Adds what a matrix is multiplied with; `places` are the experts of each token.
    pub(crate) fn add(
        &mut self,
        program: &Program<'_>,
        matrix: usize,
        values: &[f32],
        places: Option<&[u32]>,
    ) -> Result<()> {
        let name = program.graph().weights()[matrix].name.as_str();
        if !self.measured.include(name) {
            return Ok(());
        }
        let columns = program.row_len(matrix);
        let matrices = places.map_or(1, |_| program.dimension(matrix, 2));
        let entry = match self.by_weight.entry(matrix) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(TensorActivations::new(name, columns, matrices)?),
        };
        match places {
            Some(places) => entry.add_of_experts(values, columns, places),
            None => entry.add(values, columns),
        }
        if entry.sums.iter().all(|sum| sum.is_finite()) {
            return Ok(());
        }
        let message = format!("tensor {name:?} is multiplied with numbers that are not finite");
        Err(Error::new(ErrorKind::NotFinite, message))
    }
}

impl TensorActivations {
    fn new(name: &str, columns: usize, matrices: usize) -> Result<Self> {
        let len = columns.saturating_mul(matrices);
        let mut sums = Vec::new();
        sums.try_reserve_exact(len).map_err(|_| Error::memory(len))?;
        sums.resize(len, 0.0);
        Ok(Self { name: name.to_owned(), sums, counts: vec![0; matrices] })
    }

    /// How many of the matrices nothing was multiplied with.
    pub fn unused(&self) -> usize {
        self.counts.iter().filter(|&&count| count == 0).count()
    }

    fn add(&mut self, values: &[f32], columns: usize) {
        self.sums.par_chunks_mut(PIECE).enumerate().for_each(|(piece, sums)| {
            let start = piece * PIECE;
            for row in values.chunks_exact(columns) {
                add_squares(sums, &row[start..]);
            }
        });
        self.counts[0] += (values.len() / columns) as u64;
    }

    /// The rows of each expert: there is one for each choice, or one for all choices of a token.
    fn add_of_experts(&mut self, values: &[f32], columns: usize, places: &[u32]) {
        let rows = values.len() / columns;
        let choices_of_a_row = places.len().checked_div(rows).unwrap_or(1).max(1);
        let sums = self.sums.par_chunks_mut(columns).zip(self.counts.par_iter_mut());
        sums.enumerate().for_each(|(expert, (sums, count))| {
            for (choice, &place) in places.iter().enumerate() {
                if place as usize == expert {
                    add_squares(sums, &values[choice / choices_of_a_row * columns..]);
                    *count += 1;
                }
            }
        });
    }
}

fn add_squares(sums: &mut [f64], row: &[f32]) {
    for (sum, &value) in sums.iter_mut().zip(row) {
        *sum += f64::from(value) * f64::from(value);
    }
}
