//! The quantile function of the standard normal distribution.

/// Returns the quantile of the standard normal distribution at a probability, as PyTorch computes it in
/// single precision: the inverse error function of `2 p - 1`, times √2. Returns negative infinity for
/// 0, infinity for 1, and NaN outside `[0, 1]`.
///
/// The inverse error function is a rational approximation with two steps of Newton's method (with the
/// coefficients of P. Giles and of PyTorch's `calc_erfinv`), here in double precision and rounded once.
pub(super) fn normal_quantile(probability: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the reference computes so")]
    let (argument, root) = (2.0f32 * probability as f32 - 1.0, 2.0f64.sqrt() as f32);
    #[expect(clippy::cast_possible_truncation, reason = "rounded once")]
    let inverse = inverse_erf(f64::from(argument)) as f32;
    inverse * root
}

const CENTER: [f64; 4] = [0.886_226_899, -1.645_349_621, 0.914_624_893, -0.140_543_331];
const CENTER_BELOW: [f64; 4] = [-2.118_377_725, 1.442_710_462, -0.329_097_515, 0.012_229_801];
const TAIL: [f64; 4] = [-1.970_840_454, -1.624_906_493, 3.429_567_803, 1.641_345_311];
const TAIL_BELOW: [f64; 2] = [3.543_889_200, 1.637_067_800];

/// Returns the inverse error function.
fn inverse_erf(y: f64) -> f64 {
    if y.abs() >= 1.0 {
        return if y.abs() > 1.0 || y.is_nan() { f64::NAN } else { y * f64::INFINITY };
    }
    let polynomial =
        |coefficients: &[f64], x: f64| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
    let mut x = if y.abs() <= 0.7 {
        let z = y * y;
        y * polynomial(&CENTER, z) / (1.0 + z * polynomial(&CENTER_BELOW, z))
    } else {
        let z = (-((1.0 - y.abs()) / 2.0).ln()).sqrt();
        y.signum() * polynomial(&TAIL, z) / (1.0 + z * polynomial(&TAIL_BELOW, z))
    };
    for _ in 0..2 {
        x -= (erf(x) - y) / (core::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp());
    }
    x
}

/// Returns the error function, by its series near zero and its continued fraction elsewhere.
fn erf(x: f64) -> f64 {
    let square = x * x;
    if x.abs() < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            let n = f64::from(n);
            term *= -square / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * core::f64::consts::FRAC_2_SQRT_PI;
    }
    let mut fraction = 0.0;
    for n in (1..80).rev() {
        fraction = f64::from(n) / 2.0 / (x.abs() + fraction);
    }
    let tail = (-square).exp() / (x.abs() + fraction) / core::f64::consts::PI.sqrt();
    x.signum() * (1.0 - tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.distributions.Normal(0, 1).icdf` of PyTorch 2.11.0 in single precision.
    #[test]
    fn quantiles_equal_the_reference() {
        for (probability, expected) in REFERENCE {
            let found = normal_quantile(probability);
            assert_eq!(found.to_bits(), expected.to_bits(), "{probability}: {found} {expected}");
        }
        assert!(normal_quantile(0.0).is_infinite() && normal_quantile(2.0).is_nan());
    }

    #[expect(
        clippy::unreadable_literal,
        clippy::excessive_precision,
        reason = "as PyTorch prints them"
    )]
    const REFERENCE: [(f64, f32); 10] = [
        (0.95, 1.6448535919189453),
        (0.9, 1.281551480293274),
        (0.75, 0.6744897365570068),
        (0.5, 0.0),
        (0.3, -0.5244004726409912),
        (0.05, -1.6448535919189453),
        (0.01, -2.326348304748535),
        (0.99, 2.326348304748535),
        (0.999, 3.090236186981201),
        (0.125, -1.1503493785858154),
    ];
}
