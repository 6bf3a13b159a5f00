//! The inputs of the matrices of a model on a text, and of a copy whose matrices are replaced one after the
//! other.

use core::ops::Range;
use std::fmt;
use std::sync::Arc;

use ggmill_arch::graph::{Arithmetic, Graph, Operation};
use ggmill_core::GgmlType;

use crate::error::{Error, Result};
use crate::measure::ChunkInputs;
use crate::program::Program;
use crate::run::{Run, Runner};
use crate::weights::Encoded;

/// A matrix of a model, or one matrix for each expert or head, and its inputs on the same texts in the
/// original model and in a copy whose earlier matrices were replaced.
pub struct LinearInputs<'r> {
    program: &'r Program<'r>,
    weight: usize,
    operand: usize,
    texts: usize,
    original: Arc<Vec<f32>>,
    replaced: Arc<Vec<f32>>,
    residuals: Option<[Arc<Vec<f32>>; 2]>,
    /// The matrix for each row of a result, of a tensor with several matrices.
    choices: Option<Arc<Vec<u32>>>,
}

/// An encoded tensor that replaces the one of the model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replacement {
    /// The type of the blocks.
    pub ggml_type: GgmlType,
    /// The blocks of the whole tensor, row by row.
    pub blocks: Arc<[u8]>,
}

impl Replacement {
    /// Creates a replacement: the blocks of a whole tensor, row by row.
    pub fn new(ggml_type: GgmlType, blocks: Arc<[u8]>) -> Self {
        Self { ggml_type, blocks }
    }
}

impl fmt::Debug for LinearInputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinearInputs").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl<'r> LinearInputs<'r> {
    /// Returns the name of the tensor.
    pub fn name(&self) -> &'r str {
        &self.program.graph().weights()[self.weight].name
    }

    /// Returns the number of elements of an input, which is the row length of the matrix.
    pub fn columns(&self) -> usize {
        self.program.row_len(self.weight)
    }

    /// Returns the number of matrices in the tensor: 1, or one for each expert or head.
    pub fn matrices(&self) -> usize {
        if self.choices.is_some() { self.program.dimension(self.weight, 2) } else { 1 }
    }

    /// Returns the inputs in the original model: those of all tokens, in the order of the texts.
    pub fn original(&self) -> &[f32] {
        &self.original
    }

    /// Returns the inputs in the copy, like [`original`](Self::original).
    pub fn replaced(&self) -> &[f32] {
        &self.replaced
    }

    /// Returns the residual streams to which the product is added, in the original model and in the copy:
    /// a row per input. `None` if the product is not added to a residual stream directly.
    pub fn residuals(&self) -> Option<[&[f32]; 2]> {
        let [original, replaced] = self.residuals.as_ref()?;
        Some([original, replaced])
    }

    /// Returns the inputs in the copy that matrix `number` is multiplied with, of a range of texts: of a
    /// tensor with several matrices those of the tokens that are routed to an expert, or of a head.
    pub fn of_matrix(&self, number: usize, texts: Range<usize>) -> Vec<f32> {
        let columns = self.columns().max(1);
        let Some(choices) = &self.choices else {
            let [start, end] = [texts.start, texts.end].map(|text| self.first_row(text) * columns);
            return self.replaced[start..end].to_vec();
        };
        let per_row = choices.len().checked_div(self.replaced.len() / columns).unwrap_or(1).max(1);
        let [start, end] = [texts.start, texts.end].map(|text| self.first_row(text) * per_row);
        let chosen = (start..end).filter(|&choice| choices[choice] as usize == number);
        let rows = chosen.map(|choice| &self.replaced[choice / per_row * columns..][..columns]);
        rows.flatten().copied().collect()
    }

    /// Returns the row of inputs that text `number` begins with. All texts have the same length.
    pub fn first_row(&self, number: usize) -> usize {
        self.replaced.len() / self.columns().max(1) / self.texts.max(1) * number
    }

    /// Returns the number of the operation whose result the inputs are. Matrices with the same number have
    /// the same inputs.
    pub fn operand(&self) -> usize {
        self.operand
    }

    /// Decodes the tensor of the original model. Fails for elements that are not finite.
    pub fn weights(&self) -> Result<Vec<f32>> {
        self.program.decode_weight(self.weight)
    }
}

/// Runs a model and a copy of it over texts, node by node, and calls `visit` with the inputs of each matrix
/// when it is reached, in the order of the graph, the output matrix last. Texts have the same length. If `visit` returns a replacement,
/// the copy computes with it, so that later inputs of the copy have the effect of all replacements.
///
/// `reserved` is memory that `visit` needs, in bytes. An error of `visit` ends the run.
///
/// Fails if both runs and `reserved` together need more memory than the runner allows, for a file that
/// changed while it was read, and as [`Runner::states`] does.
pub fn linear_inputs<E: From<Error>>(
    runner: &Runner,
    program: &Program<'_>,
    texts: &[Vec<u32>],
    reserved: u64,
    mut visit: impl FnMut(&LinearInputs<'_>) -> Result<Option<Replacement>, E>,
) -> Result<(), E> {
    let nodes = program.graph().nodes();
    let is_linear = |number: &usize| matrix_of(&nodes[*number].operation).is_some();
    let Some(last) = (0..nodes.len()).rev().find(is_linear) else { return Ok(()) };
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let of_run = program.memory_of_states(texts.len() as u64, longest, runner.threads());
    runner.check_memory(of_run.saturating_mul(2).saturating_add(reserved))?;
    let divided = ChunkInputs::of(program, texts)?;
    let (texts, sources) = (divided.texts(), divided.sources());
    let mut original = runner.start(program, &texts, sources, None)?;
    let mut replaced = runner.start(program, &texts, sources, None)?;
    for (number, node) in nodes.iter().enumerate().take(last + 1) {
        let mut variant = None;
        if let Some(weight) = matrix_of(&node.operation) {
            let inputs = inputs_of(program, [&original, &replaced], number, weight)?;
            if let Some(found) = visit(&inputs)? {
                let Replacement { ggml_type, blocks } = found;
                variant = Some(program.with_encoded(Encoded { weight, ggml_type, blocks })?);
            }
        }
        // The result of the output matrix, which has a row of the vocabulary for each token, has no use.
        if number < last {
            runner.install(|| original.step(program, number))?;
            let program = variant.as_ref().unwrap_or(program);
            runner.install(|| replaced.step(program, number))?;
        }
    }
    Ok(program.verify()?)
}

/// Returns the inputs of node `number`, which multiplies them with a weight.
fn inputs_of<'r>(
    program: &'r Program<'r>,
    [original, replaced]: [&Run<'_, '_>; 2],
    number: usize,
    weight: usize,
) -> Result<LinearInputs<'r>> {
    let node = &program.graph().nodes()[number];
    let (original_inputs, replaced_inputs) =
        (original.numbers(node, 0)?, replaced.numbers(node, 0)?);
    let choices = match node.operation {
        Operation::ExpertLinear { .. } => Some(replaced.indices(node, 1)?),
        Operation::HeadLinear { .. } => {
            let rows = replaced_inputs.len() / program.row_len(weight).max(1);
            let heads = program.dimension(weight, 2).max(1);
            Some(Arc::new((0..rows).map(|row| (row % heads) as u32).collect()))
        }
        _ => None,
    };
    let residual = residual_of(program.graph(), number).filter(|_| choices.is_none());
    let residuals = match residual {
        Some(residual) => Some([original.result(residual)?, replaced.result(residual)?]),
        None => None,
    };
    Ok(LinearInputs {
        program,
        weight,
        operand: node.inputs[0],
        texts: original.texts(),
        original: original_inputs,
        replaced: replaced_inputs,
        residuals,
        choices,
    })
}

/// Returns the matrix that an operation multiplies its first operand with.
fn matrix_of(operation: &Operation) -> Option<usize> {
    match *operation {
        Operation::Linear { matrix, .. }
        | Operation::ExpertLinear { matrix, .. }
        | Operation::HeadLinear { matrix } => Some(matrix),
        _ => None,
    }
}

/// Returns the earlier node to whose result the product of node `number` is added, if nothing else uses the
/// product.
fn residual_of(graph: &Graph, number: usize) -> Option<usize> {
    let nodes = graph.nodes();
    if !matches!(nodes[number].operation, Operation::Linear { scale: None, .. }) {
        return None;
    }
    let mut users = (number + 1..nodes.len()).filter(|&user| nodes[user].inputs.contains(&number));
    let (user, None) = (&nodes[users.next()?], users.next()) else { return None };
    let Operation::Arithmetic(Arithmetic::Add) = user.operation else { return None };
    let other = *user.inputs.iter().find(|&&input| input != number)?;
    let elements = |node: usize| nodes[node].extent.elements();
    (other < number && elements(other) == elements(number)).then_some(other)
}
