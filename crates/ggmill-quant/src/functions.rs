//! Activation functions and softmax, for running models.
//!
//! Each consists of operations that every CPU rounds alike, so the result does not depend on the
//! CPU or the instruction set. Their exponential is accurate to two units in the last place. A sum
//! over a row is 32 partial sums, element *i* in sum *i* mod 32, which are then added in order.

#![allow(
    clippy::inline_always,
    reason = "vector code is fast only when inlined into the function compiled for its instructions"
)]

use crate::isa::Isa;
use crate::lanes::{Floats, Lanes, Work};

/// Elements per step, independent of the vector width of the CPU.
const LANES: usize = 32;

/// The least argument whose exponential is a normal number. Below it the result is 0.
const EXP_UNDERFLOW: f32 = -87.336_54;
/// The greatest argument whose exponential is finite. Above it the result is infinite.
const EXP_OVERFLOW: f32 = 88.722_83;

/// Replaces each element x by x / (1 + e⁻ˣ).
///
/// ```
/// use ggmill_quant::{Isa, functions};
/// let mut values = [-100.0, 0.0, 1.0];
/// functions::silu(Isa::best(), &mut values);
/// assert!(values[0] == 0.0 && values[1] == 0.0 && (values[2] - 0.731_058_6).abs() < 1e-6);
/// ```
pub fn silu(isa: Isa, values: &mut [f32]) {
    isa.run(Elementwise { values, curve: Curve::Silu });
}

/// Replaces each element x by 1 / (1 + e⁻ˣ).
pub fn sigmoid(isa: Isa, values: &mut [f32]) {
    isa.run(Elementwise { values, curve: Curve::Sigmoid });
}

/// Replaces each element x by x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), the tanh form of GELU.
pub fn gelu(isa: Isa, values: &mut [f32]) {
    isa.run(Elementwise { values, curve: Curve::Gelu });
}

/// Multiplies the elements by `scale`, then replaces them by their softmax. `other` is an extra
/// logit that is included in the sum but has no element, such as an attention sink.
///
/// ```
/// use ggmill_quant::{Isa, functions};
/// let mut shares = [1.0, 3.0];
/// functions::softmax(Isa::best(), &mut shares, 0.5, None);
/// assert!((shares[0] - 0.268_941_4).abs() < 1e-6 && (shares[1] - 0.731_058_6).abs() < 1e-6);
/// ```
pub fn softmax(isa: Isa, values: &mut [f32], scale: f32, other: Option<f32>) {
    isa.run(Softmax { values, scale, other });
}

/// Returns e to the power of each lane.
#[inline(always)]
fn exponential<L: Lanes>(lanes: L, x: L::F) -> L::F {
    // x = n · ln 2 + r, with ln 2 in two parts.
    let n = (x * lanes.splat(core::f32::consts::LOG2_E)).nearest(-126, 127);
    let r = n.fused(lanes.splat(-0.693_359_4), x);
    let r = n.fused(lanes.splat(2.121_944_4e-4), r);
    // The polynomial of the Cephes library for e^r - 1 - r, divided by r².
    let mut sum = lanes.splat(1.987_569_1e-4);
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        sum = sum.fused(r, lanes.splat(factor));
    }
    let power = sum.fused(r * r, r) + lanes.splat(1.0);
    let power = power * n.power_of_two();
    let power = lanes.splat(0.0).select(x.lt(lanes.splat(EXP_UNDERFLOW)), power);
    lanes.splat(f32::INFINITY).select(x.gt(lanes.splat(EXP_OVERFLOW)), power)
}

#[derive(Clone, Copy)]
enum Curve {
    Silu,
    Sigmoid,
    Gelu,
}

struct Elementwise<'a> {
    values: &'a mut [f32],
    curve: Curve,
}

impl Work for Elementwise<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let mut chunks = self.values.chunks_exact_mut(L::WIDTH);
        for values in &mut chunks {
            curve(lanes, self.curve, lanes.load(values)).store(values);
        }
        let rest = chunks.into_remainder();
        let mut tail = [0.0; LANES];
        tail[..rest.len()].copy_from_slice(rest);
        curve(lanes, self.curve, lanes.load(&tail)).store(&mut tail);
        rest.copy_from_slice(&tail[..rest.len()]);
    }
}

#[inline(always)]
fn curve<L: Lanes>(lanes: L, curve: Curve, x: L::F) -> L::F {
    const TWICE_SQRT_2_OVER_PI: f32 = 1.595_769;
    let one = lanes.splat(1.0);
    match curve {
        Curve::Silu => x / (one + exponential(lanes, -x)),
        Curve::Sigmoid => one / (one + exponential(lanes, -x)),
        // (1 + tanh y) / 2 is 1 / (1 + e⁻²ʸ).
        Curve::Gelu => {
            let cubic = (lanes.splat(0.044_715) * x * x).fused(x, x);
            x / (one + exponential(lanes, -(lanes.splat(TWICE_SQRT_2_OVER_PI) * cubic)))
        }
    }
}

struct Softmax<'a> {
    values: &'a mut [f32],
    scale: f32,
    other: Option<f32>,
}

impl Work for Softmax<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { values, scale, other } = self;
        let (whole, rest) = values.as_chunks_mut::<LANES>();
        // Padding has the logit -∞, so it adds 0 to the sum.
        let mut tail = [[f32::NEG_INFINITY; LANES]];
        let tail = if rest.is_empty() { &mut tail[..0] } else { &mut tail[..] };
        for (tail, value) in tail.as_flattened_mut().iter_mut().zip(&*rest) {
            *tail = value * scale;
        }
        let factor = lanes.splat(scale);
        for values in whole.iter_mut() {
            for start in (0..LANES).step_by(L::WIDTH) {
                (lanes.load(&values[start..]) * factor).store(&mut values[start..]);
            }
        }
        // The maximum of each of the 32 columns. A maximum does not depend on the order.
        let mut maxima = [other.unwrap_or(f32::NEG_INFINITY); LANES];
        for values in whole.iter().chain(&*tail) {
            for start in (0..LANES).step_by(L::WIDTH) {
                let greater = lanes.load(&values[start..]).max(lanes.load(&maxima[start..]));
                greater.store(&mut maxima[start..]);
            }
        }
        let max = maxima.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
        let (mut sums, max_lanes) = ([0.0; LANES], lanes.splat(max));
        for values in whole.iter_mut().chain(&mut *tail) {
            for start in (0..LANES).step_by(L::WIDTH) {
                let share = exponential(lanes, lanes.load(&values[start..]) - max_lanes);
                share.store(&mut values[start..]);
                (lanes.load(&sums[start..]) + share).store(&mut sums[start..]);
            }
        }
        let mut sum = 0.0;
        if let Some(other) = other {
            let mut share = [0.0; LANES];
            exponential(lanes, lanes.splat(other - max)).store(&mut share);
            sum += f64::from(share[0]);
        }
        for partial in sums {
            sum += f64::from(partial);
        }
        let share = (1.0 / sum) as f32;
        let factor = lanes.splat(share);
        for values in whole {
            for start in (0..LANES).step_by(L::WIDTH) {
                (lanes.load(&values[start..]) * factor).store(&mut values[start..]);
            }
        }
        for (value, tail) in rest.iter_mut().zip(tail.as_flattened()) {
            *value = tail * share;
        }
    }
}
