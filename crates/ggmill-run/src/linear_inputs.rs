//! The inputs of the matrices of a model on a text, one layer after the other.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::program::Program;
use crate::run::{Observer, Runner};

/// A matrix of a model, and what it is multiplied with.
pub struct LinearInput<'r> {
    program: &'r Program<'r>,
    matrix: usize,
    operand: usize,
    values: &'r [f32],
}

impl fmt::Debug for LinearInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinearInput").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl<'r> LinearInput<'r> {
    /// Returns the name of the matrix.
    pub fn name(&self) -> &'r str {
        &self.program.graph().weights()[self.matrix].name
    }

    /// Returns the number of elements of an input, which is the row length of the matrix.
    pub fn columns(&self) -> usize {
        self.program.row_len(self.matrix)
    }

    /// Returns the inputs: those of all tokens, in the order of the texts.
    pub fn values(&self) -> &'r [f32] {
        self.values
    }

    /// Returns the number of the operation whose result the inputs are. Matrices with the same number have
    /// the same inputs.
    pub fn operand(&self) -> usize {
        self.operand
    }

    /// Decodes the matrix. Fails for elements that are not finite.
    pub fn weights(&self) -> Result<Vec<f32>> {
        self.program.decode_weight(self.matrix)
    }
}

/// Passes inputs to a closure, and keeps its error.
struct Visitor<V, E> {
    visit: V,
    error: Option<E>,
}

impl<V, E> Observer for Visitor<V, E>
where
    V: FnMut(&LinearInput<'_>) -> Result<(), E> + Send,
    E: Send,
{
    fn observe(
        &mut self,
        program: &Program<'_>,
        matrix: usize,
        operand: usize,
        values: &[f32],
        experts: Option<&[u32]>,
    ) -> Result<()> {
        // A matrix for each expert or head has other inputs for each.
        if experts.is_some() {
            return Ok(());
        }
        (self.visit)(&LinearInput { program, matrix, operand, values }).map_err(|error| {
            self.error = Some(error);
            Error::new(ErrorKind::Read, "the visitor failed")
        })
    }
}

/// Runs the blocks of a model over texts, and calls `visit` with the inputs of each matrix that has one set
/// of inputs for all tokens, in the order of the graph. An error of `visit` ends the run.
///
/// Omits the matrices of experts and of heads, and those after the last block.
///
/// Fails if the texts together need more memory than the runner allows, for a file that changed while it was
/// read, and as [`Runner::states`] does.
pub fn linear_inputs<E: From<Error> + Send>(
    runner: &Runner,
    program: &Program<'_>,
    texts: &[Vec<u32>],
    visit: impl FnMut(&LinearInput<'_>) -> Result<(), E> + Send,
) -> Result<(), E> {
    let mut visitor = Visitor { visit, error: None };
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    match runner.states_observed(program, &texts, &[], Some(&mut visitor)) {
        Ok(_) => Ok(program.verify()?),
        Err(error) => Err(visitor.error.unwrap_or_else(|| error.into())),
    }
}
