//! Rounds a matrix with feedback of the errors, then by coordinate descent.

use ggmill_core::GgmlType;
use ggmill_pipeline::{Result, Workers};
use ggmill_quant::{Codes, Isa, Rows, codec};

use super::factor::{Factor, TILE};
use super::hessian::{Hessian, of_quant};
use super::rows::{Method, ROWS_PER_TASK};

/// A rounded matrix.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rounded {
    /// The blocks, row by row.
    pub blocks: Vec<u8>,
    /// The loss of the matrix on the text, relative to that without any weights.
    pub loss: f64,
    /// The loss of rounding weight by weight, with the diagonal of the Hessian as importance.
    pub plain_loss: f64,
}

/// The inputs of a matrix, prepared for rounding the matrices that share them.
pub struct Rounding {
    factor: Factor,
    /// The importance of each column when it is reached, for the search of scales.
    importance: Vec<f32>,
}

impl std::fmt::Debug for Rounding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rounding").field("columns", &self.factor.columns).finish_non_exhaustive()
    }
}

impl Rounding {
    /// Prepares for rounding matrices with these inputs. Fails for inputs that are not finite.
    pub fn new(hessian: &Hessian, workers: &Workers) -> Result<Self> {
        let factor = Factor::of(hessian, workers)?;
        let upper = factor.tiles[1].chunks_exact(TILE).enumerate();
        let reached = upper.map(|(column, row)| 1.0 / row[column % TILE].powi(2));
        let reached: Vec<f32> = reached.collect();
        let greatest = reached.iter().copied().fold(0.0, f32::max).max(f32::MIN_POSITIVE);
        let importance = reached.iter().map(|weight| weight / greatest).collect();
        Ok(Self { factor, importance })
    }

    /// Returns `true` if matrices can be rounded to a type: see [`Codes::exist_for`].
    pub fn supports(ggml_type: GgmlType) -> bool {
        Codes::exist_for(ggml_type)
    }

    pub(super) fn factor(&self) -> &Factor {
        &self.factor
    }

    /// Encodes a matrix weight by weight, with the diagonal of the Hessian as importance.
    pub fn plain(&self, ggml_type: GgmlType, values: &[f32], workers: &Workers) -> Result<Vec<u8>> {
        let n = self.factor.columns;
        let encoder = codec(ggml_type).map_err(of_quant)?;
        let size = ggml_type.layout().and_then(|layout| layout.bytes_for(n as u64)).unwrap_or(0);
        let rows: Vec<&[f32]> = values.chunks(ROWS_PER_TASK * n).collect();
        let own = &self.factor.diagonal;
        let pieces = workers.map(&rows, |rows| {
            let mut blocks = vec![0; rows.len() / n * size as usize];
            encoder.quantize(rows, n, Some(own), &mut blocks)?;
            Ok::<_, ggmill_quant::Error>(blocks)
        });
        let mut blocks = Vec::new();
        for piece in pieces {
            blocks.extend(piece.map_err(of_quant)?);
        }
        Ok(blocks)
    }

    /// Rounds a matrix, row by row. A row keeps the plain encoding if it has the smaller loss. Returns `None`
    /// for a type that cannot be rounded so, or whose blocks do not divide the rows.
    pub fn round(
        &self,
        ggml_type: GgmlType,
        values: &[f32],
        workers: &Workers,
    ) -> Result<Option<Rounded>> {
        let n = self.factor.columns;
        let Some(codes) = Codes::of(ggml_type).map_err(of_quant)? else { return Ok(None) };
        if !n.is_multiple_of(codes.elements()) {
            return Ok(None);
        }
        let encoder = codec(ggml_type).map_err(of_quant)?;
        let method = Method::new(&self.factor, &self.importance, codes, encoder)?;
        let rows: Vec<&[f32]> = values.chunks(ROWS_PER_TASK * n).collect();
        let rounded = workers.map(&rows, |rows| self.round_rows(&method, rows));
        let mut found = Rounded { blocks: Vec::new(), loss: 0.0, plain_loss: 0.0 };
        let mut all = 0.0;
        for rounded in rounded {
            let (rounded, of_rows) = rounded?;
            found.blocks.extend_from_slice(&rounded.blocks);
            found.loss += rounded.loss;
            found.plain_loss += rounded.plain_loss;
            all += of_rows;
        }
        let all = if all > 0.0 { all } else { 1.0 };
        found.loss /= all;
        found.plain_loss /= all;
        Ok(Some(found))
    }

    /// Rounds some rows. Returns the sums of the losses, and the loss without any weights.
    fn round_rows(&self, method: &Method<'_>, values: &[f32]) -> Result<(Rounded, f64)> {
        let n = self.factor.columns;
        let mut errors = vec![0.0; values.len()];
        let mut losses = |blocks: &[u8]| {
            method.encoder.dequantize(blocks, &mut errors).map_err(of_quant)?;
            for (error, value) in errors.iter_mut().zip(values) {
                *error = value - *error;
            }
            self.losses(&errors)
        };
        let row_bytes = n / method.codes.elements() * method.codes.bytes();
        let mut blocks = vec![0; values.len() / n * row_bytes];
        let own = Some(self.factor.diagonal.as_slice());
        method.encoder.quantize(values, n, own, &mut blocks).map_err(of_quant)?;
        let plain = losses(&blocks)?;
        let rounded = method.round(values)?;
        let mut found = Rounded { blocks, loss: 0.0, plain_loss: 0.0 };
        let better = losses(&rounded)?;
        let rows = found.blocks.chunks_exact_mut(row_bytes).zip(rounded.chunks_exact(row_bytes));
        for ((plain, loss), (blocks, rounded)) in plain.into_iter().zip(better).zip(rows) {
            found.plain_loss += plain;
            found.loss += if loss < plain { loss } else { plain };
            if loss < plain {
                blocks.copy_from_slice(rounded);
            }
        }
        Ok((found, self.losses(values)?.iter().sum()))
    }

    /// Returns the loss *rᵀHr* of the errors of each row.
    fn losses(&self, errors: &[f32]) -> Result<Vec<f64>> {
        let n = self.factor.columns;
        let mut products = vec![0.0; errors.len()];
        let left = Rows::new(errors, errors.len() / n, n, n).map_err(of_quant)?;
        let hessian = &self.factor.hessian;
        hessian
            .multiply_part(Isa::best(), 0..n, 0..n, &left, &mut products, n)
            .map_err(of_quant)?;
        let rows = errors.chunks_exact(n).zip(products.chunks_exact(n));
        let loss = |(errors, products): (&[f32], &[f32])| -> f64 {
            errors.iter().zip(products).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        Ok(rows.map(loss).collect())
    }
}

#[cfg(test)]
mod tests {
    use ggmill_pipeline::RunOptions;

    use super::super::numbers;
    use super::*;

    const COLUMNS: usize = 256;
    const ROWS: usize = 20;

    fn workers(threads: usize) -> Workers {
        RunOptions::with_threads(threads).workers().unwrap()
    }

    /// Returns inputs whose neighbouring columns are alike, as those of models are.
    fn inputs() -> Vec<f32> {
        let mut inputs = numbers(600 * COLUMNS, 1);
        for row in inputs.chunks_exact_mut(COLUMNS) {
            for column in 1..COLUMNS {
                row[column] = 0.7 * row[column - 1] + 0.3 * row[column];
            }
        }
        inputs
    }

    fn rounding(inputs: &[f32], threads: usize) -> Result<Rounding> {
        let workers = workers(threads);
        let mut hessian = Hessian::new(COLUMNS)?;
        hessian.add(inputs, &workers)?;
        Rounding::new(&hessian, &workers)
    }

    #[test]
    fn every_type_loses_less_on_the_text() {
        let (rounding, weights) = (rounding(&inputs(), 2).unwrap(), numbers(ROWS * COLUMNS, 2));
        let mut types = 0;
        for ggml_type in GgmlType::all().filter(|&ggml_type| Rounding::supports(ggml_type)) {
            types += 1;
            let found = rounding.round(ggml_type, &weights, &workers(2)).unwrap().unwrap();
            let Rounded { loss, plain_loss, .. } = found;
            assert!(loss < 0.8 * plain_loss, "{ggml_type}: {loss}, {plain_loss}");
            // The loss is that of the decoded blocks.
            let mut decoded = vec![0.0; weights.len()];
            codec(ggml_type).unwrap().dequantize(&found.blocks, &mut decoded).unwrap();
            let losses = decoded.iter().zip(&weights).map(|(a, b)| b - a).collect::<Vec<f32>>();
            let of = |rows: &[f32]| rounding.losses(rows).unwrap().iter().sum::<f64>();
            let expected = of(&losses) / of(&weights);
            assert!((found.loss / expected - 1.0).abs() < 1e-6, "{ggml_type}: {expected}");
        }
        assert_eq!(types, 25);
    }

    #[test]
    fn the_blocks_do_not_depend_on_the_number_of_threads() {
        // Several tasks.
        let weights = numbers(5 * ROWS * COLUMNS, 3);
        for ggml_type in [GgmlType::IQ4_NL, GgmlType::Q4_K, GgmlType::IQ2_XS] {
            let blocks = |threads: usize| {
                let rounding = rounding(&inputs(), threads).unwrap();
                rounding.round(ggml_type, &weights, &workers(threads)).unwrap().unwrap().blocks
            };
            let first = blocks(1);
            assert_eq!(blocks(2), first);
            assert_eq!(blocks(5), first);
        }
    }

    #[test]
    fn hostile_inputs_are_refused_or_rounded_as_usual() {
        let weights = numbers(ROWS * COLUMNS, 4);
        // No input, one input, one column that is zero, and huge inputs.
        let mut with_zeros = inputs();
        for row in with_zeros.chunks_exact_mut(COLUMNS) {
            row[17] = 0.0;
        }
        let huge: Vec<f32> = inputs().iter().map(|value| value * 1e15).collect();
        for inputs in [Vec::new(), numbers(COLUMNS, 5), vec![0.0; 4 * COLUMNS], with_zeros, huge] {
            let rounding = rounding(&inputs, 2).unwrap();
            for ggml_type in GgmlType::all().filter(|&ggml_type| Rounding::supports(ggml_type)) {
                let found = rounding.round(ggml_type, &weights, &workers(2)).unwrap().unwrap();
                let mut decoded = vec![0.0; weights.len()];
                codec(ggml_type).unwrap().dequantize(&found.blocks, &mut decoded).unwrap();
                assert!(decoded.iter().all(|value| value.is_finite()), "{ggml_type}");
                assert!(found.loss <= found.plain_loss, "{ggml_type}");
            }
        }
        // Weights that are zero, tiny, huge, or alike.
        let rounding_of_all = rounding(&inputs(), 2).unwrap();
        for weights in [vec![0.0; COLUMNS], vec![1e-38; COLUMNS], vec![0.5; COLUMNS], {
            let mut weights = weights.clone();
            weights[3] = 60000.0;
            weights
        }] {
            for ggml_type in GgmlType::all().filter(|&ggml_type| Rounding::supports(ggml_type)) {
                let found =
                    rounding_of_all.round(ggml_type, &weights, &workers(2)).unwrap().unwrap();
                assert!(found.loss <= found.plain_loss, "{ggml_type}");
                let mut decoded = vec![0.0; weights.len()];
                codec(ggml_type).unwrap().dequantize(&found.blocks, &mut decoded).unwrap();
                assert!(decoded.iter().all(|value| value.is_finite()), "{ggml_type}");
            }
        }
        for number in [f32::NAN, f32::INFINITY, 1e30] {
            let mut inputs = inputs();
            inputs[300] = number;
            assert!(rounding(&inputs, 2).is_err(), "{number}");
        }
        let mut infinite = weights;
        infinite[5] = f32::INFINITY;
        let rounding = rounding(&inputs(), 2).unwrap();
        assert!(rounding.round(GgmlType::Q4_0, &infinite, &workers(2)).is_err());
        assert!(
            rounding.round(GgmlType::F16, &numbers(COLUMNS, 6), &workers(2)).unwrap().is_none()
        );
    }

    /// Prints the time of one thread for a billion weights: `cargo test --release -p ggmill-quantize speed --
    /// --ignored --nocapture`.
    #[test]
    #[ignore = "measures time"]
    fn speed() {
        for columns in [512, 2048] {
            let mut hessian = Hessian::new(columns).unwrap();
            hessian.add(&numbers(2 * columns * columns, 1), &workers(1)).unwrap();
            let rounding = Rounding::new(&hessian, &workers(1)).unwrap();
            let weights = numbers(192 * columns, 2);
            for ggml_type in GgmlType::all().filter(|&ggml_type| Rounding::supports(ggml_type)) {
                let start = std::time::Instant::now();
                rounding.round(ggml_type, &weights, &workers(1)).unwrap().unwrap();
                let seconds = start.elapsed().as_secs_f64() / weights.len() as f64 * 1e9;
                println!("{columns} columns, {ggml_type}: {seconds:.0} s");
            }
        }
    }
}
