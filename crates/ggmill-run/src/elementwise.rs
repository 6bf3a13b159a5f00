//! Operations on the numbers of each token by itself.

use ggmill_arch::graph::{Arithmetic, Extent, Function};
use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefMutIterator as _, ParallelIterator as _,
};
use rayon::slice::{ParallelSlice as _, ParallelSliceMut as _};

use crate::error::{Result, room};

/// Numbers that one task works on.
const PIECE: usize = 1 << 14;

/// A function of each number.
pub(crate) fn apply(function: Function, values: &mut [f32]) {
    let each: fn(f32) -> f32 = match function {
        Function::Silu => |x| x / (1.0 + libm::expf(-x)),
        Function::Gelu => gelu,
        Function::GeluErf => |x| 0.5 * x * (1.0 + libm::erff(x * core::f32::consts::FRAC_1_SQRT_2)),
        Function::Relu => |x| x.max(0.0),
        Function::Tanh => libm::tanhf,
        Function::Sigmoid => |x| 1.0 / (1.0 + libm::expf(-x)),
        // A function of a later operation set, which no description read by this library has.
        _ => |_| f32::NAN,
    };
    values.par_iter_mut().with_min_len(PIECE).for_each(|value| *value = each(*value));
}

fn gelu(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    0.5 * x * (1.0 + libm::tanhf(SQRT_2_OVER_PI * x * (1.0 + 0.044_715 * x * x)))
}

/// The gated unit of gpt-oss.
pub(crate) fn swiglu_oai(gate: &mut [f32], values: &[f32]) {
    const ALPHA: f32 = 1.702;
    const LIMIT: f32 = 7.0;
    gate.par_chunks_mut(PIECE).zip(values.par_chunks(PIECE)).for_each(|(gate, values)| {
        for (x, &y) in gate.iter_mut().zip(values) {
            let (bounded, y) = (x.min(LIMIT), y.clamp(-LIMIT, LIMIT));
            *x = bounded / (1.0 + libm::expf(ALPHA * -bounded)) * (y + 1.0);
        }
    });
}

fn operator(with: Arithmetic) -> fn(f32, f32) -> f32 {
    match with {
        Arithmetic::Subtract => |a, b| a - b,
        Arithmetic::Multiply => |a, b| a * b,
        Arithmetic::Divide => |a, b| a / b,
        _ => |a, b| a + b,
    }
}

/// Two operands; one with a single number in each part is repeated.
pub(crate) fn arithmetic(
    operation: Arithmetic,
    (left, a): (&[f32], Extent),
    (right, b): (&[f32], Extent),
    extent: Extent,
) -> Result<Vec<f32>> {
    let combine = operator(operation);
    let width = extent.elements() as usize;
    let tokens = left.len() / (a.elements() as usize).max(1);
    let mut out = room(tokens * width)?;
    // How many numbers of the result share one of an operand.
    let (repeat_a, repeat_b) = (width / a.elements() as usize, width / b.elements() as usize);
    out.par_chunks_mut(PIECE).enumerate().for_each(|(piece, out)| {
        let start = piece * PIECE;
        if repeat_a == 1 && repeat_b == 1 {
            let operands = left[start..].iter().zip(&right[start..]);
            for (out, (&a, &b)) in out.iter_mut().zip(operands) {
                *out = combine(a, b);
            }
        } else {
            for (at, out) in out.iter_mut().enumerate() {
                *out = combine(left[(start + at) / repeat_a], right[(start + at) / repeat_b]);
            }
        }
    });
    Ok(out)
}

/// An operand and a number.
pub(crate) fn with_number(with: Arithmetic, values: &mut [f32], number: f32, left: bool) {
    let with = operator(with);
    values.par_chunks_mut(PIECE).for_each(|values| {
        for value in values {
            *value = if left { with(number, *value) } else { with(*value, number) };
        }
    });
}

/// An operand and a weight: as long as all parts, as a part, or with a number for each part.
pub(crate) fn with_weight(
    operation: Arithmetic,
    values: &mut [f32],
    extent: Extent,
    weight: &[f32],
    left: bool,
) {
    let combine = operator(operation);
    let (width, length) = (extent.elements() as usize, extent.length as usize);
    let is_of_parts = weight.len() != width && weight.len() != length;
    values.par_chunks_mut(width.max(1)).for_each(|row| {
        for (at, value) in row.iter_mut().enumerate() {
            let weight = weight[if is_of_parts { at / length } else { at % weight.len() }];
            *value = if left { combine(weight, *value) } else { combine(*value, weight) };
        }
    });
}

/// Division by the root mean square of each part, then the product with a weight.
pub(crate) fn rms_norm(values: &mut [f32], extent: Extent, weight: Option<&[f32]>, epsilon: f32) {
    each_part(values, extent, |part, number| {
        let sum: f64 = part.iter().map(|&x| f64::from(x * x)).sum();
        let scale = 1.0 / ((sum / part.len() as f64) as f32 + epsilon).sqrt();
        scaled(part, number, scale, weight, None);
    });
}

/// Subtraction of the mean of each part, division by its deviation, a weight and a bias.
pub(crate) fn layer_norm(
    values: &mut [f32],
    extent: Extent,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    epsilon: f32,
) {
    each_part(values, extent, |part, number| {
        let sum: f64 = part.iter().map(|&x| f64::from(x)).sum();
        let mean = (sum / part.len() as f64) as f32;
        for x in part.iter_mut() {
            *x -= mean;
        }
        let squares: f64 = part.iter().map(|&x| f64::from(x * x)).sum();
        let variance = (squares / part.len() as f64) as f32;
        scaled(part, number, 1.0 / (variance + epsilon).sqrt(), weight, bias);
    });
}

/// Multiplies a part of this number by a scale and by the weight of the part, and adds the bias.
fn scaled(
    part: &mut [f32],
    number: usize,
    scale: f32,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
) {
    let len = part.len();
    // One for each part, or one for all.
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

/// Passes each part with its number.
fn each_part(values: &mut [f32], extent: Extent, work: impl Fn(&mut [f32], usize) + Sync) {
    let length = (extent.length as usize).max(1);
    let width = (extent.elements() as usize).max(1);
    values.par_chunks_mut(width).for_each(|row| {
        for (number, part) in row.chunks_exact_mut(length).enumerate() {
            work(part, number);
        }
    });
}

/// `exp(x - greatest)` divided by its sum, part by part.
pub(crate) fn softmax(values: &mut [f32], extent: Extent) {
    each_part(values, extent, |part, _| {
        let most = part.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0f64;
        for x in part.iter_mut() {
            *x = libm::expf(*x - most);
            sum += f64::from(*x);
        }
        let scale = (1.0 / sum) as f32;
        for x in part.iter_mut() {
            *x *= scale;
        }
    });
}

/// Division by the sum, which is at least 2⁻¹⁴.
pub(crate) fn normalize(values: &mut [f32], extent: Extent) {
    const LEAST: f32 = 6.103_515_6e-5;
    each_part(values, extent, |part, _| {
        let sum = (part.iter().map(|&x| f64::from(x)).sum::<f64>() as f32).max(LEAST);
        for x in part.iter_mut() {
            *x /= sum;
        }
    });
}

/// The places of the greatest numbers of each token, the greatest first.
pub(crate) fn top(values: &[f32], width: usize, count: usize) -> Vec<u32> {
    let mut places = Vec::with_capacity(values.len() / width.max(1) * count);
    let mut order: Vec<u32> = Vec::with_capacity(width);
    for row in values.chunks_exact(width.max(1)) {
        order.clear();
        order.extend((0u32..).take(width));
        // Of equal numbers the first; NaN is the least.
        order.sort_by(|&a, &b| {
            let (a, b) = (row[a as usize], row[b as usize]);
            b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        });
        places.extend_from_slice(&order[..count.min(width)]);
    }
    places
}

/// The numbers of each token at its places.
pub(crate) fn take(values: &[f32], width: usize, places: &[u32], count: usize) -> Vec<f32> {
    let rows = values.chunks_exact(width.max(1)).zip(places.chunks_exact(count.max(1)));
    rows.flat_map(|(row, places)| places.iter().map(|&place| row[place as usize])).collect()
}

/// The sum of the parts of each token, each multiplied by its share.
pub(crate) fn mix(values: &[f32], extent: Extent, shares: &[f32]) -> Result<Vec<f32>> {
    let (length, parts) = (extent.length as usize, extent.parts.unwrap_or(1) as usize);
    let mut out = room(shares.len() / parts.max(1) * length)?;
    let rows = values.par_chunks(length * parts).zip(shares.par_chunks(parts));
    out.par_chunks_mut(length).zip(rows).for_each(|(out, (row, shares))| {
        for (part, share) in row.chunks_exact(length).zip(shares) {
            for (out, value) in out.iter_mut().zip(part) {
                *out += value * share;
            }
        }
    });
    Ok(out)
}

/// A run of each part.
pub(crate) fn part(values: &[f32], from: Extent, start: usize, to: Extent) -> Result<Vec<f32>> {
    let (whole, length) = (from.length as usize, to.length as usize);
    let mut out = room(values.len() / whole * length)?;
    out.par_chunks_mut(length).zip(values.par_chunks(whole)).for_each(|(out, part)| {
        out.copy_from_slice(&part[start..start + length]);
    });
    Ok(out)
}

/// The parts of one operand, each followed by that of the other.
pub(crate) fn concat(left: &[f32], a: Extent, right: &[f32], b: Extent) -> Result<Vec<f32>> {
    let (first, second) = (a.length as usize, b.length as usize);
    let mut out = room(left.len() + right.len())?;
    let parts = left.par_chunks(first).zip(right.par_chunks(second));
    out.par_chunks_mut(first + second).zip(parts).for_each(|(out, (left, right))| {
        out[..first].copy_from_slice(left);
        out[first..].copy_from_slice(right);
    });
    Ok(out)
}
