//! The sums of products of the inputs of a matrix.

use ggmill_pipeline::{Error, ErrorKind, Result, Workers, zeroed};
use ggmill_quant::{Isa, Panels, Rows};

/// The number of inputs whose products are summed in single precision.
const INPUTS_AT_ONCE: usize = 512;
/// The number of rows that one task computes.
const ROWS_PER_TASK: usize = 32;

/// The sums of products of the inputs of a matrix: one row and one column for each element of an input.
///
/// Products are summed in single precision over 512 inputs, and in double precision over these, in the order
/// of the inputs: the sums do not depend on the number of threads or on the processor.
#[derive(Clone, Debug)]
pub struct Hessian {
    pub(super) columns: usize,
    pub(super) sums: Vec<f64>,
    /// The number of inputs.
    inputs: usize,
}

impl Hessian {
    /// Returns sums of zero for inputs of `columns` elements. Fails if there is not enough memory.
    pub fn new(columns: usize) -> Result<Self> {
        let count = columns.saturating_mul(columns);
        Ok(Self { columns, sums: zeroed(count)?, inputs: 0 })
    }

    /// Adds inputs, one row of elements after the other. Fails for elements that are not finite.
    pub fn add(&mut self, inputs: &[f32], workers: &Workers) -> Result<()> {
        let n = self.columns;
        self.inputs += inputs.len() / n.max(1);
        add_products([inputs, inputs], [n, n], true, &mut self.sums, workers)?;
        if self.sums.iter().all(|sum| sum.is_finite()) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NonFinite, "the inputs are not finite"))
    }

    /// Adds the mean of other sums, as if it were that of `inputs` more inputs: the inputs of all experts
    /// to those of an expert that few tokens are routed to.
    pub fn blend(&mut self, other: &Self, inputs: usize) {
        let factor = inputs as f64 / other.inputs.max(1) as f64;
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum += factor * other;
        }
    }
}

/// Adds the sums of products of each column of `left` and each column of `right` to `sums`, a row per
/// column of `left`. If `is_symmetric`, both are the same.
pub(super) fn add_products(
    [left, right]: [&[f32]; 2],
    [height, width]: [usize; 2],
    is_symmetric: bool,
    sums: &mut [f64],
    workers: &Workers,
) -> Result<()> {
    let inputs = left.chunks(INPUTS_AT_ONCE * height).zip(right.chunks(INPUTS_AT_ONCE * width));
    let mut panels = Panels::default();
    for (left, right) in inputs {
        let count = right.len() / width;
        let left = transposed(left, height)?;
        panels
            .pack_transposed(&Rows::new(right, count, width, width).map_err(of_quant)?)
            .map_err(of_quant)?;
        let tasks: Vec<usize> = (0..height).step_by(ROWS_PER_TASK).collect();
        let products = workers.map(&tasks, |&first| {
            let rows = ROWS_PER_TASK.min(height - first);
            // The part above the diagonal is copied afterwards.
            let width = if is_symmetric { first + rows } else { width };
            let left = Rows::new(&left[first * count..], rows, count, count)?;
            let mut out = vec![0.0; rows * width];
            panels.multiply_part(Isa::best(), 0..width, 0..count, &left, &mut out, width)?;
            Ok::<_, ggmill_quant::Error>(out)
        });
        for (first, products) in tasks.into_iter().zip(products) {
            let products = products.map_err(of_quant)?;
            let rows = ROWS_PER_TASK.min(height - first);
            let all = sums[first * width..].chunks_mut(width);
            for (sums, products) in all.zip(products.chunks_exact(products.len() / rows)) {
                for (sum, product) in sums.iter_mut().zip(products) {
                    *sum += f64::from(*product);
                }
            }
        }
    }
    if is_symmetric {
        for row in 0..height {
            for column in row + 1..height {
                sums[row * height + column] = sums[column * height + row];
            }
        }
    }
    Ok(())
}

/// Returns the transpose of rows of `columns` elements.
fn transposed(values: &[f32], columns: usize) -> Result<Vec<f32>> {
    let count = values.len() / columns;
    let mut transposed: Vec<f32> = zeroed(values.len())?;
    for (number, row) in values.chunks_exact(columns).enumerate() {
        for (column, &value) in row.iter().enumerate() {
            transposed[column * count + number] = value;
        }
    }
    Ok(transposed)
}

pub(super) fn of_quant(error: ggmill_quant::Error) -> Error {
    Error::caused(ErrorKind::Misuse, error)
}
