//! The deviation of the inputs of a matrix through the rounding of earlier matrices, and weights that make
//! up for a part of it.

use ggmill_pipeline::{Result, Workers, zeroed};
use ggmill_quant::{Isa, Panels, Rows};

use super::hessian::{add_products, of_quant};
use super::rounding::Rounding;

/// The share of the deviation that the weights make up for. More follows the text too closely.
const SHARE: f32 = 0.5;
/// The number of rows of weights that are multiplied at once.
const ROWS_PER_TASK: usize = 48;

/// The inputs of a matrix in the original model and in the rounded one, and the residual streams to which
/// the product is added, each with a row per token. Rounded inputs are in the rounded model.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "callers make it")]
pub struct Inputs<'a> {
    /// The number of elements of an input.
    pub columns: usize,
    /// The inputs in the original model.
    pub original: &'a [f32],
    /// The inputs in the rounded model.
    pub rounded: &'a [f32],
    /// The residual streams in the original and in the rounded model, with an element per row of the matrix.
    pub residuals: Option<[&'a [f32]; 2]>,
}

impl<'a> Inputs<'a> {
    /// Divides the inputs into the first `count` and the others.
    pub fn split(&self, count: usize) -> [Self; 2] {
        let tokens = (self.rounded.len() / self.columns.max(1)).max(1);
        let part = |values: &'a [f32]| values.split_at(values.len() / tokens * count.min(tokens));
        let (original, rounded) = (part(self.original), part(self.rounded));
        let residuals = self.residuals.map(|residuals| residuals.map(part));
        let columns = self.columns;
        [
            Self {
                columns,
                original: original.0,
                rounded: rounded.0,
                residuals: residuals.map(|parts| parts.map(|part| part.0)),
            },
            Self {
                columns,
                original: original.1,
                rounded: rounded.1,
                residuals: residuals.map(|parts| parts.map(|part| part.1)),
            },
        ]
    }

    /// Returns the sum of squares of the errors that rounded weights cause in the results of a matrix,
    /// relative to that of the correct products. The result in the original model, with `weights`, is
    /// correct; it includes the residual stream.
    pub fn error(&self, weights: &[f32], rounded: &[f32], workers: &Workers) -> Result<f64> {
        let n = self.columns;
        let tokens = self.rounded.len() / n.max(1);
        let height = weights.len() / n.max(1);
        let rows: Vec<usize> = (0..height).step_by(ROWS_PER_TASK).collect();
        let errors = workers.map(&rows, |&first| {
            let count = ROWS_PER_TASK.min(height - first);
            let of_rows = first * n..(first + count) * n;
            let product = |weights: &[f32], inputs: &[f32]| {
                let mut panels = Panels::default();
                panels.pack(weights, n)?;
                let mut out = vec![0.0f32; tokens * count];
                panels.multiply(&Rows::new(inputs, tokens, n, n)?, &mut out, count)?;
                Ok::<_, ggmill_quant::Error>(out)
            };
            let correct = product(&weights[of_rows.clone()], self.original)?;
            let found = product(&rounded[of_rows], self.rounded)?;
            let mut sums = [0.0; 2];
            for (token, (correct, found)) in
                correct.chunks_exact(count).zip(found.chunks_exact(count)).enumerate()
            {
                for (row, (correct, found)) in correct.iter().zip(found).enumerate() {
                    let place = token * height + first + row;
                    let deviation = self
                        .residuals
                        .map_or(0.0, |[original, rounded]| original[place] - rounded[place]);
                    let error = f64::from(correct - found + deviation);
                    sums[0] += error * error;
                    sums[1] += f64::from(*correct) * f64::from(*correct);
                }
            }
            Ok::<_, ggmill_quant::Error>(sums)
        });
        let mut all = [0.0; 2];
        for sums in errors {
            let sums = sums.map_err(of_quant)?;
            all = [all[0] + sums[0], all[1] + sums[1]];
        }
        Ok(if all[1] > 0.0 { all[0] / all[1] } else { all[0] })
    }
}

impl Rounding {
    /// Returns weights that make up for half of the deviation of the inputs: `weights` plus the least-squares
    /// solution, for the rounded inputs, of half the deviation of the results.
    pub fn aim(&self, weights: &[f32], inputs: &Inputs<'_>, workers: &Workers) -> Result<Vec<f32>> {
        let n = inputs.columns;
        let mut aim = weights.to_vec();
        let deviation = |[original, rounded]: [&[f32]; 2]| -> Vec<f32> {
            original.iter().zip(rounded).map(|(original, rounded)| original - rounded).collect()
        };
        let of_inputs = deviation([inputs.original, inputs.rounded]);
        let of_residuals = inputs.residuals.map(deviation);
        let deviates = |values: &[f32]| values.iter().any(|&value| value != 0.0);
        if !deviates(&of_inputs) && !of_residuals.as_deref().is_some_and(deviates) {
            return Ok(aim);
        }
        // The products of deviations of results with inputs, a row per row of the matrix.
        let mut products: Vec<f64> = zeroed(n * n)?;
        add_products([inputs.rounded, &of_inputs], [n, n], false, &mut products, workers)?;
        let products: Vec<f32> = products.iter().map(|&sum| sum as f32).collect();
        let mut panels = Panels::default();
        panels.pack(&products, n).map_err(of_quant)?;
        let mut wanted = product(weights, &panels, workers)?;
        if let Some(of_residuals) = of_residuals {
            let height = weights.len() / n;
            let mut products: Vec<f64> = zeroed(weights.len())?;
            add_products(
                [&of_residuals, inputs.rounded],
                [height, n],
                false,
                &mut products,
                workers,
            )?;
            for (wanted, product) in wanted.iter_mut().zip(&products) {
                *wanted += *product as f32;
            }
        }
        // The product with the inverse of the shrunk Hessian, by its factors.
        let factor = self.factor();
        let change = product(&wanted, &factor.upper_rows, workers)?;
        let change = product(&change, &factor.upper, workers)?;
        let scale = (f64::from(SHARE) * INVERSE_SCALE / factor.mean) as f32;
        for (aim, change) in aim.iter_mut().zip(&change) {
            *aim += scale * change;
        }
        Ok(aim)
    }
}

/// The factor from the inverse of the shrunk Hessian to that of *H + c·diag(H)*, for which *c* is a quarter.
const INVERSE_SCALE: f64 = 0.8;

/// Returns the product of rows with the transpose of a matrix.
fn product(left: &[f32], right: &Panels, workers: &Workers) -> Result<Vec<f32>> {
    let (n, width) = (right.columns(), right.rows());
    let rows: Vec<&[f32]> = left.chunks(ROWS_PER_TASK * n).collect();
    let products = workers.map(&rows, |rows| {
        let count = rows.len() / n;
        let mut out = vec![0.0; count * width];
        let left = Rows::new(rows, count, n, n)?;
        right.multiply_part(Isa::best(), 0..width, 0..n, &left, &mut out, width)?;
        Ok::<_, ggmill_quant::Error>(out)
    });
    let mut all = Vec::new();
    for product in products {
        all.extend(product.map_err(of_quant)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use ggmill_core::GgmlType;
    use ggmill_pipeline::RunOptions;

    use super::super::{Hessian, numbers};
    use super::*;

    const COLUMNS: usize = 64;
    const ROWS: usize = 50;
    const TOKENS: usize = 600;

    /// Returns `values` with errors that depend on them, as those of rounded matrices do.
    fn rounded(values: &[f32], row_len: usize) -> Vec<f32> {
        let mut rounded = values.to_vec();
        for (row, values) in rounded.chunks_exact_mut(row_len).zip(values.chunks_exact(row_len)) {
            for (place, value) in row.iter_mut().enumerate() {
                *value += 0.2 * values[(place * 7 + 3) % row_len];
            }
        }
        rounded
    }

    fn rounding(inputs: &[f32], workers: &Workers) -> Rounding {
        let mut hessian = Hessian::new(COLUMNS).unwrap();
        hessian.add(inputs, workers).unwrap();
        Rounding::new(&hessian, workers).unwrap()
    }

    #[test]
    fn the_aim_makes_up_for_deviations() {
        let workers = RunOptions::with_threads(2).workers().unwrap();
        let weights = numbers(ROWS * COLUMNS, 1);
        let original = numbers(TOKENS * COLUMNS, 2);
        let rounded_inputs = rounded(&original, COLUMNS);
        let streams = numbers(TOKENS * ROWS, 3);
        // The deviation of the residual stream depends on the inputs too.
        let mut rounded_streams = streams.clone();
        let pairs =
            rounded_streams.chunks_exact_mut(ROWS).zip(rounded_inputs.chunks_exact(COLUMNS));
        for (stream, inputs) in pairs {
            stream.iter_mut().zip(inputs).for_each(|(value, input)| *value += 0.3 * input);
        }
        for residuals in [None, Some([&streams[..], &rounded_streams[..]])] {
            let inputs = Inputs {
                columns: COLUMNS,
                original: &original,
                rounded: &rounded_inputs,
                residuals,
            };
            let [fit, test] = inputs.split(TOKENS * 3 / 4);
            let rounding = rounding(fit.rounded, &workers);
            let aim = rounding.aim(&weights, &fit, &workers).unwrap();
            let before = test.error(&weights, &weights, &workers).unwrap();
            let after = test.error(&weights, &aim, &workers).unwrap();
            // Half of the deviation is a quarter of its square.
            assert!(after < 0.5 * before && after > 0.2 * before, "{before}: {after}");
        }
    }

    #[test]
    fn without_deviation_the_aim_is_the_weights() {
        let workers = RunOptions::with_threads(1).workers().unwrap();
        let weights = numbers(ROWS * COLUMNS, 4);
        let values = numbers(TOKENS * COLUMNS, 5);
        let inputs =
            Inputs { columns: COLUMNS, original: &values, rounded: &values, residuals: None };
        let rounding = rounding(&values, &workers);
        assert_eq!(rounding.aim(&weights, &inputs, &workers).unwrap(), weights);
        assert!(inputs.error(&weights, &weights, &workers).unwrap() < 1e-12);
        // The error is that of the results, relative to them: here of zero weights.
        let zeros = vec![0.0; weights.len()];
        assert!((inputs.error(&weights, &zeros, &workers).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let weights = numbers(ROWS * COLUMNS, 6);
        let original = numbers(TOKENS * COLUMNS, 7);
        let rounded = rounded(&original, COLUMNS);
        let found = [1, 2, 5].map(|threads| {
            let workers = RunOptions::with_threads(threads).workers().unwrap();
            let inputs = Inputs {
                columns: COLUMNS,
                original: &original,
                rounded: &rounded,
                residuals: None,
            };
            let rounding = rounding(&rounded, &workers);
            let aim = rounding.aim(&weights, &inputs, &workers).unwrap();
            let blocks = rounding.plain(GgmlType::Q4_0, &aim, &workers).unwrap();
            (aim, blocks, inputs.error(&weights, &weights, &workers).unwrap().to_bits())
        });
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0], found[2]);
    }
}
