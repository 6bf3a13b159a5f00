//! Functions of many numbers, for running models.
//!
//! Each is a formula of operations that are rounded alike on every machine, so that its bits depend
//! neither on the machine nor on the instructions; the exponential in them is within two units of
//! the last place. A sum over a row is 32 sums side by side, number *i* in sum *i* mod 32,
//! which are then added in order.

#![allow(
    clippy::inline_always,
    reason = "work has to be inlined into the function that is compiled for its instructions"
)]

use crate::isa::Isa;
use crate::lanes::{Floats, Lanes, Work};

/// Numbers that are worked on together, whatever the machine's vectors.
const LANES: usize = 32;

/// Below this, e to the power of a number is 0: there are no normal numbers for it.
const LEAST: f32 = -87.336_54;
/// Above this, it is infinite.
const GREATEST: f32 = 88.722_83;

/// x / (1 + e⁻ˣ) of each number.
///
/// ```
/// use ggmill_quant::{Isa, functions};
/// let mut values = [-100.0, 0.0, 1.0];
/// functions::silu(Isa::best(), &mut values);
/// assert!(values[0] == 0.0 && values[1] == 0.0 && (values[2] - 0.731_058_6).abs() < 1e-6);
/// ```
pub fn silu(isa: Isa, values: &mut [f32]) {
    isa.run(Each { values, curve: Curve::Silu });
}

/// 1 / (1 + e⁻ˣ) of each number.
pub fn sigmoid(isa: Isa, values: &mut [f32]) {
    isa.run(Each { values, curve: Curve::Sigmoid });
}

/// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) of each number.
pub fn gelu(isa: Isa, values: &mut [f32]) {
    isa.run(Each { values, curve: Curve::Gelu });
}

/// Multiplies the numbers by `scale`, then makes of each its share: e to the power of it, divided by
/// the sum of these. `other` is a number that takes part in the sum and has no place.
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

/// e to the power of each number.
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
    let power = lanes.splat(0.0).or(x.lt(lanes.splat(LEAST)), power);
    lanes.splat(f32::INFINITY).or(x.gt(lanes.splat(GREATEST)), power)
}

#[derive(Clone, Copy)]
enum Curve {
    Silu,
    Sigmoid,
    Gelu,
}

struct Each<'a> {
    values: &'a mut [f32],
    curve: Curve,
}

impl Work for Each<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let mut some = self.values.chunks_exact_mut(L::WIDTH);
        for values in &mut some {
            curve(lanes, self.curve, lanes.load(values)).store(values);
        }
        let rest = some.into_remainder();
        let mut held = [0.0; LANES];
        held[..rest.len()].copy_from_slice(rest);
        curve(lanes, self.curve, lanes.load(&held)).store(&mut held);
        rest.copy_from_slice(&held[..rest.len()]);
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
        // What is not there has no share.
        let mut held = [[f32::NEG_INFINITY; LANES]];
        let held = if rest.is_empty() { &mut held[..0] } else { &mut held[..] };
        for (held, value) in held.as_flattened_mut().iter_mut().zip(&*rest) {
            *held = value * scale;
        }
        let factor = lanes.splat(scale);
        for values in whole.iter_mut() {
            for start in (0..LANES).step_by(L::WIDTH) {
                (lanes.load(&values[start..]) * factor).store(&mut values[start..]);
            }
        }
        // The greatest of each place: which of them is asked first makes no difference.
        let mut most = [other.unwrap_or(f32::NEG_INFINITY); LANES];
        for values in whole.iter().chain(&*held) {
            for start in (0..LANES).step_by(L::WIDTH) {
                let greater = lanes.load(&values[start..]).greater(lanes.load(&most[start..]));
                greater.store(&mut most[start..]);
            }
        }
        let most = most.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
        let (mut sums, greatest) = ([0.0; LANES], lanes.splat(most));
        for values in whole.iter_mut().chain(&mut *held) {
            for start in (0..LANES).step_by(L::WIDTH) {
                let share = exponential(lanes, lanes.load(&values[start..]) - greatest);
                share.store(&mut values[start..]);
                (lanes.load(&sums[start..]) + share).store(&mut sums[start..]);
            }
        }
        let mut sum = 0.0;
        if let Some(other) = other {
            let mut share = [0.0; LANES];
            exponential(lanes, lanes.splat(other - most)).store(&mut share);
            sum += f64::from(share[0]);
        }
        for some in sums {
            sum += f64::from(some);
        }
        let share = (1.0 / sum) as f32;
        let factor = lanes.splat(share);
        for values in whole {
            for start in (0..LANES).step_by(L::WIDTH) {
                (lanes.load(&values[start..]) * factor).store(&mut values[start..]);
            }
        }
        for (value, held) in rest.iter_mut().zip(held.as_flattened()) {
            *value = held * share;
        }
    }
}
