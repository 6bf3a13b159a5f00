//! Rounds a matrix with feedback of the errors, then by coordinate descent.

use ggmill_core::GgmlType;
use ggmill_pipeline::{Result, Workers};
use ggmill_quant::{BlockCodec, Codes, codec};

use super::factor::Factor;
use super::hessian::{Hessian, of_quant};

/// The number of passes over the codes of a row.
const PASSES: usize = 3;
/// The number of rows that one task rounds.
const ROWS_PER_TASK: usize = 8;

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
    /// The importance of each column for the search of scales: as it is when a column is reached, and on its
    /// own.
    importance: [Vec<f32>; 2],
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
        let n = factor.columns;
        let diagonal = |values: &[f32]| -> Vec<f32> { (0..n).map(|i| values[i * n + i]).collect() };
        let reached: Vec<f32> = diagonal(&factor.upper).iter().map(|u| 1.0 / (u * u)).collect();
        let greatest = reached.iter().copied().fold(0.0, f32::max).max(f32::MIN_POSITIVE);
        let reached = reached.iter().map(|weight| weight / greatest).collect();
        let own = diagonal(&factor.hessian);
        Ok(Self { factor, importance: [reached, own] })
    }

    /// Returns `true` if matrices can be rounded to a type: see [`Codes::of`].
    pub fn supports(ggml_type: GgmlType) -> bool {
        Codes::of(ggml_type).is_some()
    }

    /// Returns the factor *U* of the inverse of the shrunk Hessian, *H⁻¹ = UᵀU*, by rows.
    pub(super) fn upper(&self) -> &[f32] {
        &self.factor.upper
    }

    /// Encodes a matrix weight by weight, with the diagonal of the Hessian as importance.
    pub fn plain(&self, ggml_type: GgmlType, values: &[f32], workers: &Workers) -> Result<Vec<u8>> {
        let n = self.factor.columns;
        let encoder = codec(ggml_type).map_err(of_quant)?;
        let size = ggml_type.layout().and_then(|layout| layout.bytes_for(n as u64)).unwrap_or(0);
        let rows: Vec<&[f32]> = values.chunks(ROWS_PER_TASK * n).collect();
        let [_, own] = &self.importance;
        let encoded = workers.map(&rows, |rows| {
            let mut blocks = vec![0; rows.len() / n * size as usize];
            encoder.quantize(rows, n, Some(own), &mut blocks)?;
            Ok::<_, ggmill_quant::Error>(blocks)
        });
        let mut blocks = Vec::new();
        for encoded in encoded {
            blocks.extend(encoded.map_err(of_quant)?);
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
        let Some(codes) = Codes::of(ggml_type).filter(|codes| n.is_multiple_of(codes.elements()))
        else {
            return Ok(None);
        };
        let encoder = codec(ggml_type).map_err(of_quant)?;
        let rows: Vec<&[f32]> = values.chunks(ROWS_PER_TASK * n).collect();
        let rounded: Vec<Result<(Rounded, f64)>> = workers.map(&rows, |rows| {
            let mut row = Row::new(self, codes, encoder);
            let mut found = Rounded { blocks: Vec::new(), loss: 0.0, plain_loss: 0.0 };
            let mut all = 0.0;
            for values in rows.chunks_exact(n) {
                let (plain, plain_loss) = row.plain(values)?;
                let (mut best, mut loss) = (plain, plain_loss);
                for importance in &self.importance {
                    let (blocks, its_loss) = row.round(values, importance)?;
                    if its_loss < loss {
                        (best, loss) = (blocks, its_loss);
                    }
                }
                found.blocks.extend_from_slice(&best);
                found.loss += loss;
                found.plain_loss += plain_loss;
                all += self.loss(values);
            }
            Ok((found, all))
        });
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

    /// Returns the loss *rᵀHr* of the errors of a row.
    fn loss(&self, errors: &[f32]) -> f64 {
        let n = self.factor.columns;
        let rows = self.factor.hessian.chunks_exact(n).zip(errors);
        rows.map(|(row, &error)| f64::from(dot(row, errors)) * f64::from(error)).sum()
    }
}

/// The buffers for rounding a row.
struct Row<'r> {
    rounding: &'r Rounding,
    codes: Codes,
    encoder: &'static dyn BlockCodec,
    /// The weights, which make up for the errors so far.
    updated: Vec<f32>,
    /// The rounded weights.
    rounded: Vec<f32>,
    /// The values of each code in each block.
    values: Vec<f32>,
    errors: Vec<f32>,
    gradient: Vec<f32>,
}

impl<'r> Row<'r> {
    fn new(rounding: &'r Rounding, codes: Codes, encoder: &'static dyn BlockCodec) -> Self {
        let n = rounding.factor.columns;
        let zeros = || vec![0.0; n];
        Self {
            rounding,
            codes,
            encoder,
            updated: zeros(),
            rounded: zeros(),
            values: vec![0.0; n * codes.count()],
            errors: zeros(),
            gradient: zeros(),
        }
    }

    /// Encodes a row weight by weight. Returns its blocks and their loss.
    fn plain(&mut self, values: &[f32]) -> Result<(Vec<u8>, f64)> {
        let n = values.len();
        let mut blocks = vec![0; n / self.codes.elements() * self.codes.bytes()];
        let [_, own] = &self.rounding.importance;
        self.encoder.quantize(values, n, Some(own), &mut blocks).map_err(of_quant)?;
        self.encoder.dequantize(&blocks, &mut self.rounded).map_err(of_quant)?;
        Ok((blocks, self.loss(values)))
    }

    /// Returns the loss of the rounded weights.
    fn loss(&mut self, values: &[f32]) -> f64 {
        for ((error, value), rounded) in self.errors.iter_mut().zip(values).zip(&self.rounded) {
            *error = value - rounded;
        }
        self.rounding.loss(&self.errors)
    }

    /// Rounds a row, with scales that are found by this importance. Returns its blocks and their loss.
    fn round(&mut self, values: &[f32], importance: &[f32]) -> Result<(Vec<u8>, f64)> {
        let (elements, bytes) = (self.codes.elements(), self.codes.bytes());
        let mut blocks = vec![0; values.len() / elements * bytes];
        self.updated.copy_from_slice(values);
        for (number, block) in blocks.chunks_exact_mut(bytes).enumerate() {
            self.round_block(number * elements, block, importance)?;
        }
        self.descend(values, &mut blocks);
        let loss = self.loss(values);
        Ok((blocks, loss))
    }

    /// Rounds the block of columns from `start` on, and passes its errors to later columns.
    fn round_block(&mut self, start: usize, block: &mut [u8], importance: &[f32]) -> Result<()> {
        let (n, elements) = (self.rounding.factor.columns, self.codes.elements());
        let end = start + elements;
        let columns = start..end;
        self.encoder
            .quantize(&self.updated[columns.clone()], elements, Some(&importance[columns]), block)
            .map_err(of_quant)?;
        let values = &mut self.values[start * self.codes.count()..end * self.codes.count()];
        self.codes.values(block, values).map_err(of_quant)?;
        for column in start..end {
            let (code, value) = nearest(values, elements, column - start, self.updated[column]);
            self.codes.set(block, column - start, code);
            self.rounded[column] = value;
            let upper = &self.rounding.factor.upper[column * n..(column + 1) * n];
            let error = (self.updated[column] - value) / upper[column];
            self.errors[column] = error;
            subtract(&mut self.updated[column + 1..end], error, &upper[column + 1..end]);
        }
        for column in start..end {
            let upper = &self.rounding.factor.upper[column * n..(column + 1) * n];
            subtract(&mut self.updated[end..], self.errors[column], &upper[end..]);
        }
        Ok(())
    }

    /// Changes single codes where that lowers the loss.
    fn descend(&mut self, values: &[f32], blocks: &mut [u8]) {
        let (elements, bytes, n) = (self.codes.elements(), self.codes.bytes(), values.len());
        let hessian = &self.rounding.factor.hessian;
        for ((error, value), rounded) in self.errors.iter_mut().zip(values).zip(&self.rounded) {
            *error = value - rounded;
        }
        for (gradient, row) in self.gradient.iter_mut().zip(hessian.chunks_exact(n)) {
            *gradient = dot(row, &self.errors);
        }
        for _ in 0..PASSES {
            let mut is_changed = false;
            for column in 0..n {
                let (number, place) = (column / elements, column % elements);
                let row = &hessian[column * n..(column + 1) * n];
                let block = number * elements * self.codes.count();
                let block = &self.values[block..block + elements * self.codes.count()];
                let wanted = self.rounded[column] + self.gradient[column] / row[column];
                let (code, value) = nearest(block, elements, place, wanted);
                let change = value - self.rounded[column];
                // The change of the loss, halved.
                let gain = change * (0.5 * change * row[column] - self.gradient[column]);
                if change == 0.0 || gain >= 0.0 {
                    continue;
                }
                self.codes.set(&mut blocks[number * bytes..(number + 1) * bytes], place, code);
                self.rounded[column] = value;
                subtract(&mut self.gradient, change, row);
                is_changed = true;
            }
            if !is_changed {
                break;
            }
        }
    }
}

/// Returns the code whose value is nearest, and the value. `values` has a row per code.
fn nearest(values: &[f32], elements: usize, column: usize, wanted: f32) -> (u8, f32) {
    let mut best = (0, values[column]);
    for (code, row) in values.chunks_exact(elements).enumerate().skip(1) {
        if (row[column] - wanted).abs() < (best.1 - wanted).abs() {
            best = (code as u8, row[column]);
        }
    }
    best
}

/// Subtracts a multiple of a row.
fn subtract(from: &mut [f32], factor: f32, row: &[f32]) {
    for (from, value) in from.iter_mut().zip(row) {
        *from -= factor * value;
    }
}

/// Returns the sum of products, in an order that is the same on every machine.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_parts, a_rest) = a.as_chunks::<16>();
    let (b_parts, b_rest) = b.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for (a, b) in a_parts.iter().zip(b_parts) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use ggmill_pipeline::RunOptions;

    use super::*;

    const COLUMNS: usize = 256;
    const ROWS: usize = 20;

    fn workers(threads: usize) -> Workers {
        RunOptions::with_threads(threads).workers().unwrap()
    }

    /// Returns numbers between -1 and 1.
    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(next).collect()
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
            assert!(found.loss < 0.8 * found.plain_loss, "{ggml_type}: {found:?}");
            // The loss is that of the decoded blocks.
            let mut decoded = vec![0.0; weights.len()];
            codec(ggml_type).unwrap().dequantize(&found.blocks, &mut decoded).unwrap();
            let losses = decoded.iter().zip(&weights).map(|(a, b)| b - a).collect::<Vec<f32>>();
            let of = |rows: &[f32]| {
                rows.chunks_exact(COLUMNS).map(|row| rounding.loss(row)).sum::<f64>()
            };
            let expected = of(&losses) / of(&weights);
            assert!((found.loss / expected - 1.0).abs() < 1e-6, "{ggml_type}: {expected}");
        }
        assert_eq!(types, 12);
    }

    #[test]
    fn the_blocks_do_not_depend_on_the_number_of_threads() {
        let weights = numbers(ROWS * COLUMNS, 3);
        for ggml_type in [GgmlType::IQ4_NL, GgmlType::Q4_K] {
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
            let found = rounding.round(GgmlType::Q4_0, &weights, &workers(2)).unwrap().unwrap();
            let mut decoded = vec![0.0; weights.len()];
            codec(GgmlType::Q4_0).unwrap().dequantize(&found.blocks, &mut decoded).unwrap();
            assert!(decoded.iter().all(|value| value.is_finite()));
            assert!(found.loss <= found.plain_loss);
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
            rounding.round(GgmlType::IQ2_S, &numbers(COLUMNS, 6), &workers(2)).unwrap().is_none()
        );
    }
}
