//! The loss of a quantization, tensor by tensor.

pub mod html;
pub mod json;
pub mod text;

use ggmill_core::{GgmlType, RawStr, Shape};

/// The loss of a tensor.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the columns of a table, filled in by a program that measured"
)]
pub struct Row<'a> {
    /// The name in the output.
    pub name: RawStr<'a>,
    /// The type before.
    pub from: GgmlType,
    /// The type after.
    pub to: GgmlType,
    /// The shape.
    pub shape: &'a Shape,
    /// The size of the data after, in bytes.
    pub size: u64,
    /// The root mean square error (RMSE) of the elements.
    pub rmse: f64,
    /// The RMSE with each column weighted by its importance.
    pub weighted_rmse: Option<f64>,
    /// The noise-to-signal ratio: the sum of squared errors over the sum of squares, weighted if there are
    /// importance weights.
    pub relative: f64,
    /// The noise-to-signal ratio of the results of a matrix that was rounded on a text: if it were rounded
    /// weight by weight, and as it is.
    pub results: Option<[f64; 2]>,
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
    /// Creates a report on the tensors of a file named `output`, in its order.
    pub fn new(output: &'a str, rows: Vec<Row<'a>>) -> Self {
        Self { output, input: None, imatrix: None, program: None, rows }
    }

    /// Sets the name of the file that was quantized.
    #[must_use]
    pub fn with_input(mut self, name: &'a str) -> Self {
        self.input = Some(name);
        self
    }

    /// Sets the name of the importance matrix.
    #[must_use]
    pub fn with_imatrix(mut self, name: &'a str) -> Self {
        self.imatrix = Some(name);
        self
    }

    /// Sets the name and version of the program that measured.
    #[must_use]
    pub fn with_program(mut self, name: &'a str) -> Self {
        self.program = Some(name);
        self
    }

    /// Returns the tensors.
    pub fn rows(&self) -> &[Row<'a>] {
        &self.rows
    }

    /// Returns the number of weights in all tensors.
    pub fn weights(&self) -> u64 {
        self.rows.iter().map(|row| row.shape.elements()).fold(0, u64::saturating_add)
    }

    /// Returns the size of all tensors without padding, in bytes.
    pub fn size(&self) -> u64 {
        self.rows.iter().map(|row| row.size).fold(0, u64::saturating_add)
    }

    /// Returns the bits per weight.
    pub fn bits_per_weight(&self) -> f64 {
        bits(self.size(), self.weights())
    }

    /// Returns the mean noise-to-signal ratio, weighted by the elements of each tensor.
    pub fn relative(&self) -> f64 {
        let lost: f64 = self.rows.iter().map(Row::lost).sum();
        lost / as_f64(self.weights().max(1))
    }

    /// Returns `true` if any error is weighted by importance.
    pub fn is_weighted(&self) -> bool {
        self.rows.iter().any(|row| row.weighted_rmse.is_some())
    }

    /// Returns `true` if a matrix was rounded on a text.
    pub fn has_results(&self) -> bool {
        self.rows.iter().any(|row| row.results.is_some())
    }

    /// Returns the share of a tensor in the total loss, from 0 to 1.
    pub fn share(&self, row: &Row<'_>) -> f64 {
        let all = self.relative() * as_f64(self.weights().max(1));
        if all > 0.0 { row.lost() / all } else { 0.0 }
    }

    /// Returns the largest error of a tensor.
    fn largest_error(&self) -> f64 {
        self.rows.iter().map(Row::error).fold(0.0, f64::max)
    }

    /// Returns the weights and bytes of each type, ordered by bytes, largest first.
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
    /// Returns the bits per weight.
    pub fn bits(&self) -> f64 {
        bits(self.size, self.shape.elements())
    }

    /// Returns the square root of the noise-to-signal ratio: the relative error.
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
