//! Elementwise operations, normalizations and selections: each token is computed independently.

use ggmill_arch::graph::{Arithmetic, Extent, Function, Groups};
use ggmill_quant::{Isa, functions};
use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefMutIterator as _, ParallelIterator as _,
};
use rayon::slice::{ParallelSlice as _, ParallelSliceMut as _};

use crate::error::{Error, ErrorKind, Result};

/// The number of elements per task.
const ELEMENTS_PER_TASK: usize = 1 << 14;

/// Applies a function to each element.
pub(crate) fn apply(isa: Isa, function: Function, values: &mut [f32]) {
    fn each(values: &mut [f32], function: impl Fn(f32) -> f32) {
        for value in values {
            *value = function(*value);
        }
    }
    values.par_chunks_mut(ELEMENTS_PER_TASK).for_each(|values| match function {
        Function::Silu => functions::silu(isa, values),
        Function::Gelu => functions::gelu(isa, values),
        Function::Sigmoid => functions::sigmoid(isa, values),
        Function::GeluErf => {
            each(values, |x| 0.5 * x * (1.0 + libm::erff(x * core::f32::consts::FRAC_1_SQRT_2)));
        }
        Function::Relu => each(values, |x| x.max(0.0)),
        Function::Tanh => each(values, libm::tanhf),
        Function::Exp => each(values, libm::expf),
        Function::Root => each(values, f32::sqrt),
        Function::Nearest => each(values, f32::round),
        Function::Softplus => {
            each(values, |x| if x > 20.0 { x } else { libm::log1pf(libm::expf(x)) });
        }
        // A function of a later operation set, which this library does not read.
        _ => values.fill(f32::NAN),
    });
}

/// Clamps each element to `[low, high]`.
pub(crate) fn clamp(values: &mut [f32], low: f32, high: f32) {
    for value in values {
        *value = value.clamp(low, high);
    }
}

/// The gated activation of gpt-oss (SwiGLU with clamping).
pub(crate) fn swiglu_oai(gate: &mut [f32], values: &[f32]) {
    const ALPHA: f32 = 1.702;
    const LIMIT: f32 = 7.0;
    gate.par_chunks_mut(ELEMENTS_PER_TASK).zip(values.par_chunks(ELEMENTS_PER_TASK)).for_each(
        |(gate, values)| {
            for (x, &y) in gate.iter_mut().zip(values) {
                let (bounded, y) = (x.min(LIMIT), y.clamp(-LIMIT, LIMIT));
                *x = bounded / (1.0 + libm::expf(ALPHA * -bounded)) * (y + 1.0);
            }
        },
    );
}

/// Applies an operator in place; with `left`, `others` are the left operands. Each operator has a
/// separate loop, so that the compiler vectorizes it.
fn combine(with: Arithmetic, values: &mut [f32], others: impl Iterator<Item = f32>, left: bool) {
    fn each(
        values: &mut [f32],
        others: impl Iterator<Item = f32>,
        left: bool,
        operator: impl Fn(f32, f32) -> f32,
    ) {
        let pairs = values.iter_mut().zip(others);
        if left {
            pairs.for_each(|(value, other)| *value = operator(other, *value));
        } else {
            pairs.for_each(|(value, other)| *value = operator(*value, other));
        }
    }
    match with {
        Arithmetic::Subtract => each(values, others, left, |a, b| a - b),
        Arithmetic::Multiply => each(values, others, left, |a, b| a * b),
        Arithmetic::Divide => each(values, others, left, |a, b| a / b),
        _ => each(values, others, left, |a, b| a + b),
    }
}

/// Combines two operands in place. Each element of `others` applies to `repeat` elements of `values`. With
/// `left`, `others` is the left operand.
pub(crate) fn arithmetic(
    with: Arithmetic,
    values: &mut [f32],
    others: &[f32],
    repeat: usize,
    left: bool,
) {
    if repeat == 1 {
        let pieces =
            values.par_chunks_mut(ELEMENTS_PER_TASK).zip(others.par_chunks(ELEMENTS_PER_TASK));
        pieces.for_each(|(values, others)| combine(with, values, others.iter().copied(), left));
    } else {
        let runs = values.par_chunks_mut(repeat.max(1)).zip(others);
        runs.for_each(|(values, &other)| combine(with, values, core::iter::repeat(other), left));
    }
}

/// Combines each element with a number, which is the left operand if `left`.
pub(crate) fn with_number(with: Arithmetic, values: &mut [f32], number: f32, left: bool) {
    let pieces = values.par_chunks_mut(ELEMENTS_PER_TASK);
    pieces.for_each(|values| combine(with, values, core::iter::repeat(number), left));
}

/// Broadcasts a weight over an operand. The weight has one number per element of a token, per element of a
/// part, or per part. If the number of parts equals the length of a part, a weight whose first dimension is
/// 1 has one number per part.
pub(crate) fn with_weight(
    with: Arithmetic,
    values: &mut [f32],
    extent: Extent,
    (weight, dimensions): (&[f32], &[u64]),
    left: bool,
) {
    let (elements_per_token, length) = (extent.elements() as usize, extent.length as usize);
    let is_per_part = weight.len() != elements_per_token
        && (weight.len() != length || dimensions.len() > 1 && dimensions[0] == 1);
    values.par_chunks_mut(elements_per_token.max(1)).for_each(|row| {
        if is_per_part {
            for (part, &weight) in row.chunks_mut(length.max(1)).zip(weight) {
                combine(with, part, core::iter::repeat(weight), left);
            }
        } else {
            for part in row.chunks_mut(weight.len().max(1)) {
                combine(with, part, weight.iter().copied(), left);
            }
        }
    });
}

/// Returns the sum of `function` over the elements: element *i* is added to partial sum *i* mod 8, and the
/// eight partial sums are added in order. The fixed order makes results independent of the machine.
fn sum_of(values: &[f32], function: impl Fn(f32) -> f32) -> f64 {
    let mut sums = [0.0f64; 8];
    let (whole, rest) = values.as_chunks::<8>();
    for values in whole {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum += f64::from(function(value));
        }
    }
    for (sum, &value) in sums.iter_mut().zip(rest) {
        *sum += f64::from(function(value));
    }
    sums.iter().sum()
}

/// Divides each part by its root mean square, then multiplies by a weight.
pub(crate) fn rms_norm(values: &mut [f32], extent: Extent, weight: Option<&[f32]>, epsilon: f32) {
    each_part(values, extent, |part, number| {
        let sum = sum_of(part, |x| x * x);
        let scale = 1.0 / ((sum / part.len() as f64) as f32 + epsilon).sqrt();
        scaled(part, number, scale, weight, None);
    });
}

/// Normalizes each part to mean 0 and variance 1, then multiplies by a weight and adds a bias.
pub(crate) fn layer_norm(
    values: &mut [f32],
    extent: Extent,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    epsilon: f32,
) {
    each_part(values, extent, |part, number| {
        let sum = sum_of(part, |x| x);
        let mean = (sum / part.len() as f64) as f32;
        for x in part.iter_mut() {
            *x -= mean;
        }
        let squares = sum_of(part, |x| x * x);
        let variance = (squares / part.len() as f64) as f32;
        scaled(part, number, 1.0 / (variance + epsilon).sqrt(), weight, bias);
    });
}

/// Multiplies part `number` by a scale and a weight, and adds a bias.
fn scaled(
    part: &mut [f32],
    number: usize,
    scale: f32,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
) {
    let len = part.len();
    // A weight has a row per part, or one row shared by all parts.
    let of_part = |values: &'_ [f32]| if values.len() > len { number * len } else { 0 };
    for x in part.iter_mut() {
        *x *= scale;
    }
    if let Some(weight) = weight {
        for (x, weight) in part.iter_mut().zip(&weight[of_part(weight)..]) {
            *x *= weight;
        }
    }
    if let Some(bias) = bias {
        for (x, bias) in part.iter_mut().zip(&bias[of_part(bias)..]) {
            *x += bias;
        }
    }
}

/// Calls `work` for each part with its number.
fn each_part(values: &mut [f32], extent: Extent, work: impl Fn(&mut [f32], usize) + Sync) {
    let length = (extent.length as usize).max(1);
    let width = (extent.elements() as usize).max(1);
    values.par_chunks_mut(width).for_each(|row| {
        for (number, part) in row.chunks_exact_mut(length).enumerate() {
            work(part, number);
        }
    });
}

/// Replaces each part by its softmax.
pub(crate) fn softmax(isa: Isa, values: &mut [f32], extent: Extent) {
    each_part(values, extent, |part, _| functions::softmax(isa, part, 1.0, None));
}

/// Divides each part by its sum, which is clamped to at least 2⁻¹⁴.
pub(crate) fn normalize(values: &mut [f32], extent: Extent) {
    const MIN_SUM: f32 = 6.103_515_6e-5;
    each_part(values, extent, |part, _| {
        let sum = (sum_of(part, |x| x) as f32).max(MIN_SUM);
        for x in part.iter_mut() {
            *x /= sum;
        }
    });
}

/// Divides each part by its Euclidean norm, which is clamped to at least `min_norm`.
pub(crate) fn l2_norm(values: &mut [f32], extent: Extent, min_norm: f32) {
    each_part(values, extent, |part, _| {
        let scale = 1.0 / (sum_of(part, |x| x * x) as f32).sqrt().max(min_norm);
        for x in part.iter_mut() {
            *x *= scale;
        }
    });
}

/// Writes the sum of each part.
pub(crate) fn total(values: &[f32], extent: Extent, out: &mut [f32]) {
    let parts = values.par_chunks((extent.length as usize).max(1));
    out.par_iter_mut().zip(parts).for_each(|(out, part)| *out = sum_of(part, |x| x) as f32);
}

/// Applies Sinkhorn normalization to the matrix of parts (rows): divides each column by its sum; then,
/// `count - 1` times, each row by its sum and each column by its sum. `epsilon` is added to each sum.
pub(crate) fn sinkhorn(values: &mut [f32], extent: Extent, count: u64, epsilon: f32) {
    let (width, length) = ((extent.elements() as usize).max(1), (extent.length as usize).max(1));
    values.par_chunks_mut(width).for_each(|row| {
        for iteration in 0..count {
            if iteration > 0 {
                for part in row.chunks_exact_mut(length) {
                    let sum = part.iter().fold(0.0, |sum, value| sum + value) + epsilon;
                    for value in part {
                        *value /= sum;
                    }
                }
            }
            for index in 0..length {
                let column = row.iter().skip(index).step_by(length);
                let sum = column.fold(0.0, |sum, value| sum + value) + epsilon;
                for value in row.iter_mut().skip(index).step_by(length) {
                    *value /= sum;
                }
            }
        }
    });
}

/// Repeats each run of `run` elements `count` times.
pub(crate) fn repeat(values: &[f32], run: usize, count: usize, out: &mut [f32]) {
    let runs = values.par_chunks(run.max(1));
    out.par_chunks_mut((run * count).max(1)).zip(runs).for_each(|(out, values)| {
        for out in out.chunks_exact_mut(run.max(1)) {
            out.copy_from_slice(values);
        }
    });
}

/// Returns the indices of the `count` greatest elements of each token in descending order; with groups,
/// only from the best groups.
pub(crate) fn top(values: &[f32], width: usize, count: usize, groups: Option<Groups>) -> Vec<u32> {
    let mut indices = Vec::with_capacity(values.len() / width.max(1) * count);
    let mut order: Vec<u32> = Vec::with_capacity(width);
    for row in values.chunks_exact(width.max(1)) {
        order.clear();
        match groups {
            None => order.extend((0u32..).take(width)),
            Some(groups) => order.extend(indices_in_best_groups(row, groups)),
        }
        sort_descending(&mut order, row);
        indices.extend_from_slice(&order[..count.min(width)]);
    }
    indices
}

/// Converts elements to expert indices. Fails for a number that is not an integer in `0..range`.
pub(crate) fn expert_indices(values: &[f32], range: u64) -> Result<Vec<u32>> {
    let mut indices = Vec::new();
    indices.try_reserve_exact(values.len()).map_err(|_| Error::memory(values.len()))?;
    for &value in values {
        let is_index = value >= 0.0 && value.fract() == 0.0 && f64::from(value) < range as f64;
        if !is_index {
            let most = range.saturating_sub(1);
            let message = format_args!("a choice of {value}, expected an integer from 0 to {most}");
            return Err(Error::new(ErrorKind::Graph, message));
        }
        indices.push(value as u32);
    }
    Ok(indices)
}

/// Sorts indices by their elements in descending order; ties keep their order, and NaN comes last.
fn sort_descending(order: &mut [u32], row: &[f32]) {
    order.sort_by(|&a, &b| {
        let (a, b) = (row[a as usize], row[b as usize]);
        b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    });
}

/// Returns the indices in the best groups: a group's score is the sum of its two greatest elements.
fn indices_in_best_groups(row: &[f32], groups: Groups) -> Vec<u32> {
    let size = row.len() / (groups.count as usize).max(1);
    let sums: Vec<f32> = row
        .chunks_exact(size.max(1))
        .map(|group| {
            let mut order: Vec<u32> = (0u32..).take(size).collect();
            sort_descending(&mut order, group);
            order.iter().take(2).map(|&index| group[index as usize]).sum()
        })
        .collect();
    let mut best: Vec<u32> = (0u32..).take(sums.len()).collect();
    sort_descending(&mut best, &sums);
    best.truncate(groups.used as usize);
    best.sort_unstable();
    let indices = best.into_iter().flat_map(|group| {
        let start = group * size as u32;
        start..start + size as u32
    });
    indices.collect()
}

/// Gathers the elements of each token at its `count` indices.
pub(crate) fn gather(values: &[f32], width: usize, indices: &[u32], count: usize, out: &mut [f32]) {
    let rows = values.chunks_exact(width.max(1)).zip(indices.chunks_exact(count.max(1)));
    let taken = rows.flat_map(|(row, indices)| indices.iter().map(|&index| row[index as usize]));
    out.iter_mut().zip(taken).for_each(|(out, value)| *out = value);
}

/// Writes the sum of the parts of each token, weighted by `shares`.
pub(crate) fn weighted_sum(values: &[f32], extent: Extent, shares: &[f32], out: &mut [f32]) {
    let (length, parts) = (extent.length as usize, extent.parts.unwrap_or(1) as usize);
    let rows = values.par_chunks(length * parts).zip(shares.par_chunks(parts));
    out.par_chunks_mut(length).zip(rows).for_each(|(out, (row, shares))| {
        out.fill(0.0);
        for (part, share) in row.chunks_exact(length).zip(shares) {
            for (out, value) in out.iter_mut().zip(part) {
                *out += value * share;
            }
        }
    });
}

/// Copies the elements from `start` on of each part, as many as a part of `to` has.
pub(crate) fn slice_parts(values: &[f32], from: Extent, start: usize, to: Extent, out: &mut [f32]) {
    let (whole, length) = (from.length as usize, to.length as usize);
    out.par_chunks_mut(length).zip(values.par_chunks(whole)).for_each(|(out, part)| {
        out.copy_from_slice(&part[start..start + length]);
    });
}

/// Concatenates the corresponding parts of two operands.
pub(crate) fn concat_parts(left: &[f32], a: Extent, right: &[f32], b: Extent, out: &mut [f32]) {
    let (first, second) = (a.length as usize, b.length as usize);
    let parts = left.par_chunks(first).zip(right.par_chunks(second));
    out.par_chunks_mut(first + second).zip(parts).for_each(|(out, (left, right))| {
        out[..first].copy_from_slice(left);
        out[first..].copy_from_slice(right);
    });
}
