//! Activation functions: accurate, and equal with every instruction set.

use ggmill_quant::Isa;
use ggmill_quant::functions::{gelu, sigmoid, silu, softmax};

/// Returns numbers over the whole range, denser near 0, and edge cases.
fn numbers() -> Vec<f32> {
    let grid = (0..4001u16).map(|place| (f32::from(place) - 2000.0) / 2000.0);
    let edges = [0.0, -0.0, 87.3, 88.0, 88.8, -87.3, -87.4, -103.0, 1e-30, -1e-30, 3e38, -3e38];
    grid.map(|x| x.powi(3) * 110.0).chain(edges).collect()
}

fn close(found: f32, expected: f64, ulps: f64, what: &str) {
    let most = ulps * expected.abs() * 2f64.powi(-24) + 1.2e-38;
    assert!((f64::from(found) - expected).abs() <= most, "{what}: {found:e}, {expected:e}");
}

#[test]
fn functions_are_accurate() {
    let mut found = [numbers(), numbers(), numbers()];
    silu(Isa::best(), &mut found[0]);
    sigmoid(Isa::best(), &mut found[1]);
    gelu(Isa::best(), &mut found[2]);
    for (place, x) in numbers().into_iter().enumerate() {
        let x = f64::from(x);
        // The exponential is flushed to 0 below the least normal number.
        let share = |x: f64| if x < -87.3 { 0.0 } else { 1.0 / (1.0 + (-x).exp()) };
        if x.abs() < 80.0 {
            close(found[0][place], x * share(x), 8.0, "silu");
            close(found[1][place], share(x), 8.0, "sigmoid");
        }
        let y = 2.0 * (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        if y.abs() < 80.0 {
            // The argument of the exponential is rounded, which adds a relative error.
            close(found[2][place], x * share(y), 8.0 + 4.0 * y.abs(), "gelu");
        }
    }
}

#[test]
fn softmax_is_accurate() {
    for (count, scale, other) in [(1, 1.0, None), (31, 0.125, Some(2.0)), (200, -0.3, None)] {
        let mut shares: Vec<f32> = numbers().into_iter().step_by(19).take(count).collect();
        let scores: Vec<f64> = shares.iter().map(|x| f64::from(x * scale)).collect();
        let most = scores.iter().copied().chain(other.map(f64::from)).fold(f64::MIN, f64::max);
        let power = |x: f64| if x - most < -87.3 { 0.0 } else { (x - most).exp() };
        let sum: f64 = scores.iter().copied().chain(other.map(f64::from)).map(power).sum();
        softmax(Isa::best(), &mut shares, scale, other);
        for (share, score) in shares.iter().zip(&scores) {
            close(*share, power(*score) / sum, 16.0 + 4.0 * (score - most).abs(), "share");
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let bits = |isa| {
        let mut values = numbers();
        values.extend([f32::INFINITY, f32::NEG_INFINITY]);
        let mut all = Vec::new();
        for function in [silu, sigmoid, gelu] {
            let mut values = values.clone();
            function(isa, &mut values);
            all.extend(values);
        }
        for count in [1, 7, 16, 32, 33, 1000] {
            let mut values: Vec<f32> = values.iter().copied().step_by(4).take(count).collect();
            softmax(isa, &mut values, 0.37, (count % 2 == 0).then_some(1.5));
            all.extend(values);
        }
        all.into_iter()
            .map(|value| if value.is_nan() { u32::MAX } else { value.to_bits() })
            .collect::<Vec<u32>>()
    };
    for isa in Isa::available() {
        assert!(bits(isa) == bits(Isa::SCALAR), "{isa}");
    }
}

#[test]
fn nan_propagates() {
    let mut values = [1.0, f32::NAN, 2.0];
    silu(Isa::best(), &mut values);
    assert!(values[1].is_nan() && !values[0].is_nan());
    softmax(Isa::best(), &mut values, 1.0, None);
    assert!(values[0].is_nan());
}
