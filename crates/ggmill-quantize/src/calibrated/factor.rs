//! The factor of the inverse of a Hessian, in double precision and in a fixed order.

use ggmill_pipeline::{Error, ErrorKind, Result, Workers, zeroed};
use ggmill_quant::{Panels, Rows};

use super::hessian::{Hessian, of_quant};

/// The share of the off-diagonal sums that is removed. It keeps the rounding from following the text too
/// closely: at 0.2 other texts gain most.
const SHRINKAGE: f64 = 0.2;
/// The share of the mean diagonal that is added to the diagonal, so that the factor exists.
const DAMPING: f64 = 1e-6;
/// The number of columns of the factor that are computed before other rows use them.
const COLUMNS_AT_ONCE: usize = 64;

/// The number of columns of a tile. The blocks of all types are within tiles.
pub(super) const TILE: usize = 256;

/// A Hessian, shrunk towards its diagonal and divided by its mean diagonal, and what rounding needs of its
/// inverse.
pub(super) struct Factor {
    pub(super) columns: usize,
    /// The Hessian.
    pub(super) hessian: Panels,
    /// The upper triangular factor *U* of the inverse, *H⁻¹ = UᵀU*: its columns, for products with *U*.
    pub(super) upper: Panels,
    /// The rows of *U*, for products with *Uᵀ*.
    pub(super) upper_rows: Panels,
    /// The mean of the diagonal of the sums, by which the Hessian is divided.
    pub(super) mean: f64,
    /// The tiles of both on the diagonal, by rows: for each column, [`TILE`] columns.
    pub(super) tiles: [Vec<f32>; 2],
    pub(super) diagonal: Vec<f32>,
}

impl Factor {
    pub(super) fn of(hessian: &Hessian, workers: &Workers) -> Result<Self> {
        let n = hessian.columns;
        let diagonal = |i: usize| hessian.sums[i * n + i];
        let live: Vec<f64> = (0..n).map(diagonal).filter(|&sum| sum > 0.0).collect();
        let mean = live.iter().sum::<f64>() / live.len().max(1) as f64;
        // Without inputs all columns are alike.
        let mean = if mean > 0.0 { mean } else { 1.0 };
        let shrunk = |i: usize, j: usize| match hessian.sums[i * n + j] {
            // A column that is always zero has the mean, so that it is rounded to the nearest value.
            sum if i == j => {
                if sum > 0.0 {
                    sum + DAMPING * mean
                } else {
                    mean
                }
            }
            sum => (1.0 - SHRINKAGE) * sum,
        };
        // The factor of the inverse is the inverse of the factor from the last column to the first.
        let mut lower: Vec<f64> = zeroed(n * n)?;
        for i in 0..n {
            for j in 0..=i {
                lower[i * n + j] = shrunk(n - 1 - i, n - 1 - j);
            }
        }
        cholesky(&mut lower, n, workers)?;
        let rows: Vec<usize> = (0..n).collect();
        let inverse = workers.map(&rows, |&j| inverse_column(&lower, n, j));
        let mut transposed: Vec<f32> = zeroed(n * n)?;
        let root = mean.sqrt();
        for (j, column) in inverse.iter().enumerate() {
            let row = n - 1 - j;
            for (i, &value) in column.iter().enumerate() {
                transposed[row * n + row - i] = (value * root) as f32;
            }
        }
        let mut small: Vec<f32> = zeroed(n * n)?;
        for i in 0..n {
            for j in 0..n {
                small[i * n + j] = (shrunk(i, j) / mean) as f32;
            }
        }
        let (mut hessian, mut upper) = (Panels::default(), Panels::default());
        hessian.pack(&small, n).map_err(of_quant)?;
        upper.pack(&transposed, n).map_err(of_quant)?;
        let mut upper_rows = Panels::default();
        let columns = Rows::new(&transposed, n, n, n).map_err(of_quant)?;
        upper_rows.pack_transposed(&columns).map_err(of_quant)?;
        let tile = |value: &dyn Fn(usize, usize) -> f32| -> Result<Vec<f32>> {
            let mut tiles: Vec<f32> = zeroed(n * TILE)?;
            for (row, tile) in tiles.chunks_exact_mut(TILE).enumerate() {
                let first = row / TILE * TILE;
                for (column, place) in (first..n).zip(tile) {
                    *place = value(row, column);
                }
            }
            Ok(tiles)
        };
        let tiles = [tile(&|i, j| small[i * n + j])?, tile(&|i, j| transposed[j * n + i])?];
        let diagonal = (0..n).map(|i| small[i * n + i]).collect();
        Ok(Self { columns: n, hessian, upper, upper_rows, mean, tiles, diagonal })
    }

    /// Returns the part of a tile for `len` columns from `start` on, by rows.
    pub(super) fn part(&self, tile: usize, start: usize, len: usize) -> Vec<f32> {
        let rows = self.tiles[tile].chunks_exact(TILE).skip(start).take(len);
        rows.flat_map(|row| &row[start % TILE..start % TILE + len]).copied().collect()
    }
}

/// Returns the upper triangular factor *U* of the inverse of a small matrix, *H⁻¹ = UᵀU*.
pub(super) fn small_factor(hessian: &[f32], n: usize) -> Result<Vec<f32>> {
    let mut lower = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let value = f64::from(hessian[(n - 1 - i) * n + n - 1 - j]);
            let rest = value - dot(&lower[i * n..i * n + j], &lower[j * n..j * n + j]);
            lower[i * n + j] = if i == j { root(rest)? } else { rest / lower[j * n + j] };
        }
    }
    let mut upper = vec![0.0; n * n];
    for j in 0..n {
        for (i, value) in inverse_column(&lower, n, j).into_iter().enumerate() {
            upper[(n - 1 - j - i) * n + n - 1 - j] = value as f32;
        }
    }
    Ok(upper)
}

/// Replaces the lower triangle of a matrix by its factor *L*, *A = LLᵀ*.
fn cholesky(a: &mut [f64], n: usize, workers: &Workers) -> Result<()> {
    for start in (0..n).step_by(COLUMNS_AT_ONCE) {
        let end = (start + COLUMNS_AT_ONCE).min(n);
        for i in start..end {
            for j in start..=i {
                let (row_i, row_j) = (&a[i * n..i * n + j], &a[j * n..j * n + j]);
                let rest = a[i * n + j] - dot(row_i, row_j);
                a[i * n + j] = if i == j { root(rest)? } else { rest / a[j * n + j] };
            }
        }
        let below: Vec<usize> = (end..n).collect();
        let columns = {
            let a: &[f64] = a;
            workers.map(&below, |&i| {
                let mut row = a[i * n..i * n + end].to_vec();
                for j in start..end {
                    let rest = row[j] - dot(&row[..j], &a[j * n..j * n + j]);
                    row[j] = rest / a[j * n + j];
                }
                row.split_off(start)
            })
        };
        for (i, columns) in below.into_iter().zip(columns) {
            a[i * n + start..i * n + end].copy_from_slice(&columns);
        }
    }
    Ok(())
}

fn root(square: f64) -> Result<f64> {
    if square > 0.0 && square.is_finite() {
        return Ok(square.sqrt());
    }
    let message = "the sums of products of the inputs are not positive definite";
    Err(Error::new(ErrorKind::NonFinite, message))
}

/// Returns column `j` of the inverse of a lower triangular matrix, from the diagonal on.
fn inverse_column(lower: &[f64], n: usize, j: usize) -> Vec<f64> {
    let mut column = vec![1.0 / lower[j * n + j]];
    for i in j + 1..n {
        let value = -dot(&lower[i * n + j..i * n + i], &column) / lower[i * n + i];
        column.push(value);
    }
    column
}

/// Returns the sum of products, in an order that is the same on every machine.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_parts, a_rest) = a.as_chunks::<8>();
    let (b_parts, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a_parts.iter().zip(b_parts) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use ggmill_pipeline::RunOptions;

    use super::*;

    #[test]
    fn the_factor_is_that_of_the_inverse() {
        let workers = RunOptions::with_threads(2).workers().unwrap();
        for n in [1, 5, 64, 97] {
            let inputs: Vec<f32> = (0..3 * n * n)
                .map(|i| ((i * 7919 + i * i % 31) % 2003) as f32 / 1000.0 - 1.0)
                .collect();
            let mut hessian = Hessian::new(n).unwrap();
            hessian.add(&inputs, &workers).unwrap();
            let factor = Factor::of(&hessian, &workers).unwrap();
            let [h, u] = &factor.tiles;
            // U H Uᵀ is the unit matrix.
            for i in 0..n {
                for j in 0..n {
                    let row = |k: usize| -> f64 {
                        let products = h[k * TILE..][..n].iter().zip(&u[j * TILE..][..n]);
                        products.map(|(&h, &u)| f64::from(h) * f64::from(u)).sum()
                    };
                    let found: f64 = (0..n).map(|k| f64::from(u[i * TILE + k]) * row(k)).sum();
                    let expected = f64::from(u8::from(i == j));
                    assert!((found - expected).abs() < 1e-3, "{n}: {i}, {j}: {found}");
                }
                assert!(u[i * TILE..i * TILE + i].iter().all(|&below| below == 0.0));
            }
            let own = small_factor(&factor.part(0, 0, n), n).unwrap();
            let all = factor.part(1, 0, n);
            assert!(own.iter().zip(all).all(|(a, b)| (a - b).abs() < 1e-3 * (1.0 + b.abs())));
        }
    }
}
