//! Sums of squared activations per matrix column, from which an importance matrix is computed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefMutIterator as _, ParallelIterator as _,
};
use rayon::slice::ParallelSliceMut as _;

use crate::error::{Error, ErrorKind, Result};
use crate::measure::ChunkInputs;
use crate::program::Program;
use crate::run::{Observer, Runner};

/// The name prefixes of matrices in blocks: of decoder-only models, encoders and decoders.
const BLOCK_PREFIXES: [&str; 3] = ["blk.", "enc.blk.", "dec.blk."];
/// The name of the output matrix.
const OUTPUT: &str = "output.weight";
/// The number of columns that one task sums: a few cache lines per row.
const COLUMNS_PER_TASK: usize = 64;

/// The matrices of a model whose activations are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matrices {
    /// The matrices in blocks: `blk.`, as in llama-imatrix by default, and `enc.blk.` and `dec.blk.`,
    /// which llama-imatrix omits.
    #[default]
    Blocks,
    /// The matrices in blocks, and `output.weight`: llama-imatrix's `--process-output`.
    BlocksAndOutput,
    /// All matrices, for example token embeddings that also serve as the output matrix.
    All,
}

impl Matrices {
    fn include(self, name: &str) -> bool {
        BLOCK_PREFIXES.iter().any(|start| name.starts_with(start))
            || match self {
                Self::Blocks => false,
                Self::BlocksAndOutput => name == OUTPUT,
                Self::All => true,
            }
    }

    /// Returns `true` if the output of the model must be computed.
    pub(crate) fn needs_output(self) -> bool {
        self != Self::Blocks
    }
}

/// The sums of squared activations of each matrix of a model, per column, and the number of rows in
/// each sum.
///
/// Each expert has separate sums and counts, over the tokens routed to it, as in llama-imatrix.
/// Sums have double precision and are computed in the order of the tokens, so they do not depend on the
/// number of threads or of chunks that are run at once.
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
    /// The sums of squares: one row per matrix of the tensor, one number per column.
    pub sums: Vec<f64>,
    /// The number of activation rows in the sums of each matrix.
    pub counts: Vec<u64>,
}

impl Activations {
    /// The minimum number of tokens in a chunk: llama-imatrix does not count shorter chunks.
    pub const MIN_CHUNK_TOKENS: usize = 16;

    /// Returns the tensors in the order of the graph's weights.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorActivations> {
        self.by_weight.values()
    }

    /// Returns empty sums.
    pub(crate) fn new(measured: Matrices) -> Self {
        Self { measured, by_weight: BTreeMap::new() }
    }
}

impl Observer for Activations {
    /// Adds the activations of a matrix.
    fn observe(
        &mut self,
        program: &Program<'_>,
        matrix: usize,
        _operand: usize,
        values: &[f32],
        experts: Option<&[u32]>,
    ) -> Result<()> {
        let name = program.graph().weights()[matrix].name.as_str();
        if !self.measured.include(name) {
            return Ok(());
        }
        let columns = program.row_len(matrix);
        let matrices = experts.map_or(1, |_| program.dimension(matrix, 2));
        let entry = match self.by_weight.entry(matrix) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(TensorActivations::new(name, columns, matrices)?),
        };
        match experts {
            Some(experts) => entry.add_of_experts(values, columns, experts),
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

    /// Returns the number of matrices without activations, such as experts that were never used.
    pub fn unused(&self) -> usize {
        self.counts.iter().filter(|&&count| count == 0).count()
    }

    fn add(&mut self, values: &[f32], columns: usize) {
        self.sums.par_chunks_mut(COLUMNS_PER_TASK).enumerate().for_each(|(piece, sums)| {
            let start = piece * COLUMNS_PER_TASK;
            for row in values.chunks_exact(columns) {
                add_squares(sums, &row[start..]);
            }
        });
        self.counts[0] += (values.len() / columns) as u64;
    }

    /// Adds the rows of each expert. `values` has a row per (token, expert) pair, or one per token.
    fn add_of_experts(&mut self, values: &[f32], columns: usize, experts: &[u32]) {
        let rows = values.len() / columns;
        let experts_per_row = experts.len().checked_div(rows).unwrap_or(1).max(1);
        let sums = self.sums.par_chunks_mut(columns).zip(self.counts.par_iter_mut());
        sums.enumerate().for_each(|(expert, (sums, count))| {
            for (choice, &selected) in experts.iter().enumerate() {
                if selected as usize == expert {
                    add_squares(sums, &values[choice / experts_per_row * columns..]);
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

/// Runs a model over chunks of a text and returns the sums of squared activations of `matrices`. `watch`
/// is called after each group of chunks that are run together, with the sums so far and the number of
/// finished chunks. An error from it ends the run.
///
/// For a model that takes two texts, the source is the first half of each chunk and the token after it.
///
/// Fails for chunks of fewer than [`Activations::MIN_CHUNK_TOKENS`] tokens, for activations that are not
/// finite, for a file that changed while it was read, and as [`Runner::states`] does.
pub fn activations<E: From<Error>>(
    runner: &Runner,
    program: &Program<'_>,
    chunks: &[Vec<u32>],
    matrices: Matrices,
    mut watch: impl FnMut(&Activations, usize) -> Result<(), E>,
) -> Result<Activations, E> {
    let mut found = Activations::new(matrices);
    let shortest = chunks.iter().map(Vec::len).min().unwrap_or(0);
    if shortest < Activations::MIN_CHUNK_TOKENS {
        let message = format!(
            "chunks of {shortest} tokens, expected at least {}",
            Activations::MIN_CHUNK_TOKENS
        );
        return Err(Error::new(ErrorKind::TooShort, message).into());
    }
    let longest = chunks.iter().map(Vec::len).max().unwrap_or(0);
    let outputs = if matrices.needs_output() { longest as u64 } else { 0 };
    let at_once = runner.texts_with_outputs(program, longest as u64, outputs)?;
    let mut done = 0;
    for texts in chunks.chunks(at_once) {
        let divided = ChunkInputs::of(program, texts)?;
        let (tokens, sources) = (divided.texts(), divided.sources());
        let states = runner.states_observed(program, &tokens, sources, Some(&mut found))?;
        if matrices.needs_output() {
            for (number, text) in tokens.iter().enumerate() {
                runner.output_observed(
                    program,
                    &states,
                    number,
                    0..text.len(),
                    Some(&mut found),
                )?;
            }
        }
        done += texts.len();
        program.verify()?;
        watch(&found, done)?;
    }
    Ok(found)
}
