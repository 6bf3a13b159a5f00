//! The loss of a quantization, tensor by tensor.

pub mod html;
pub mod json;
pub mod text;

use ggmill_core::{GgmlType, RawStr, Shape};

/// A tensor before and after.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the columns of a table, filled in by a program that measured"
)]
pub struct Row<'a> {
    /// Its name in the output.
    pub name: RawStr<'a>,
    /// The type it had.
    pub from: GgmlType,
    /// The type it has.
    pub to: GgmlType,
    /// Its shape.
    pub shape: &'a Shape,
    /// Bytes of its data now.
    pub size: u64,
    /// The root mean square error (RMSE) between what its numbers were and what they are.
    pub rmse: f64,
    /// The same with each column weighted by its importance.
    pub weighted_rmse: Option<f64>,
    /// Noise to signal: the squared distances over the squared numbers, both weighted where there
    /// is importance.
    pub relative: f64,
}

/// The loss of a whole model.
#[derive(Clone, Debug)]
pub struct LossReport<'a> {
    output: &'a str,
    input: Option<&'a str>,
    imatrix: Option<&'a str>,
    program: Option<&'a str>,
    rows: Vec<Row<'a>>,
}

impl<'a> LossReport<'a> {
    /// A report on the tensors of a file of this name, in its order.
    pub fn new(output: &'a str, rows: Vec<Row<'a>>) -> Self {
        Self { output, input: None, imatrix: None, program: None, rows }
    }

    /// With the name of the file that was quantized.
    #[must_use]
    pub fn with_input(mut self, name: &'a str) -> Self {
        self.input = Some(name);
        self
    }

    /// With the name of the importance matrix that was used.
    #[must_use]
    pub fn with_imatrix(mut self, name: &'a str) -> Self {
        self.imatrix = Some(name);
        self
    }

    /// With the name and version of the program that measured.
    #[must_use]
    pub fn with_program(mut self, name: &'a str) -> Self {
        self.program = Some(name);
        self
    }

    /// The tensors.
    pub fn rows(&self) -> &[Row<'a>] {
        &self.rows
    }

    /// Weights in all tensors.
    pub fn weights(&self) -> u64 {
        self.rows.iter().map(|row| row.shape.elements()).fold(0, u64::saturating_add)
    }

    /// Bytes of all tensors, without padding.
    pub fn size(&self) -> u64 {
        self.rows.iter().map(|row| row.size).fold(0, u64::saturating_add)
    }

    /// Bits for each weight.
    pub fn bits_per_weight(&self) -> f64 {
        bits(self.size(), self.weights())
    }

    /// The mean noise to signal over all weights: that of each tensor counts by its elements.
    pub fn relative(&self) -> f64 {
        let lost: f64 = self.rows.iter().map(Row::lost).sum();
        lost / as_f64(self.weights().max(1))
    }

    /// Whether any error is weighted by importance.
    pub fn is_weighted(&self) -> bool {
        self.rows.iter().any(|row| row.weighted_rmse.is_some())
    }

    /// The part of all that was lost that a tensor lost, from 0 to 1.
    pub fn share(&self, row: &Row<'_>) -> f64 {
        let all = self.relative() * as_f64(self.weights().max(1));
        if all > 0.0 { row.lost() / all } else { 0.0 }
    }

    /// The largest noise to signal of a tensor, as a root.
    fn largest_error(&self) -> f64 {
        self.rows.iter().map(Row::error).fold(0.0, f64::max)
    }

    /// For each type its weights and bytes, that with the most bytes first.
    fn types(&self) -> Vec<(GgmlType, u64, u64)> {
        let mut types: Vec<(GgmlType, u64, u64)> = Vec::new();
        for row in &self.rows {
            match types.iter_mut().find(|(ggml_type, ..)| *ggml_type == row.to) {
                Some((_, weights, size)) => {
                    (*weights, *size) = (
                        weights.saturating_add(row.shape.elements()),
                        size.saturating_add(row.size),
                    );
                }
                None => types.push((row.to, row.shape.elements(), row.size)),
            }
        }
        types.sort_by_key(|&(ggml_type, _, size)| (std::cmp::Reverse(size), ggml_type));
        types
    }
}

impl Row<'_> {
    /// Bits for each weight.
    pub fn bits(&self) -> f64 {
        bits(self.size, self.shape.elements())
    }

    /// The root of noise to signal: by which part of themselves the numbers are off.
    fn error(&self) -> f64 {
        self.relative.sqrt()
    }

    fn lost(&self) -> f64 {
        self.relative * as_f64(self.shape.elements())
    }
}

fn bits(bytes: u64, weights: u64) -> f64 {
    as_f64(bytes) * 8.0 / as_f64(weights.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio to be shown")]
fn as_f64(number: u64) -> f64 {
    number as f64
}
