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
}

impl Hessian {
    /// Returns sums of zero for inputs of `columns` elements. Fails if there is not enough memory.
    pub fn new(columns: usize) -> Result<Self> {
        let count = columns.saturating_mul(columns);
        Ok(Self { columns, sums: zeroed(count)? })
    }

    /// Adds inputs, one row of elements after the other. Fails for elements that are not finite.
    pub fn add(&mut self, inputs: &[f32], workers: &Workers) -> Result<()> {
        for inputs in inputs.chunks(INPUTS_AT_ONCE * self.columns) {
            self.add_some(inputs, workers)?;
        }
        if self.sums.iter().all(|sum| sum.is_finite()) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NonFinite, "the inputs are not finite"))
    }

    fn add_some(&mut self, inputs: &[f32], workers: &Workers) -> Result<()> {
        let columns = self.columns;
        let count = inputs.len() / columns;
        let mut transposed: Vec<f32> = zeroed(inputs.len())?;
        for (number, input) in inputs.chunks_exact(columns).enumerate() {
            for (column, &value) in input.iter().enumerate() {
                transposed[column * count + number] = value;
            }
        }
        let mut panels = Panels::default();
        panels.pack(&transposed, count).map_err(of_quant)?;
        let tasks: Vec<usize> = (0..columns).step_by(ROWS_PER_TASK).collect();
        let products = workers.map(&tasks, |&first| {
            let height = ROWS_PER_TASK.min(columns - first);
            let left = Rows::new(&transposed[first * count..], height, count, count)?;
            let mut out = vec![0.0; height * columns];
            panels.multiply_part(Isa::best(), 0..columns, 0..count, &left, &mut out, columns)?;
            Ok::<_, ggmill_quant::Error>(out)
        });
        for (first, products) in tasks.into_iter().zip(products) {
            let products = products.map_err(of_quant)?;
            for (sum, product) in self.sums[first * columns..].iter_mut().zip(products) {
                *sum += f64::from(product);
            }
        }
        Ok(())
    }
}

pub(super) fn of_quant(error: ggmill_quant::Error) -> Error {
    Error::caused(ErrorKind::Misuse, error)
}
