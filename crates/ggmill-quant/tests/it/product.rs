//! Matrix products equal sums in order, with every instruction set.

use ggmill_quant::{ErrorKind, Isa, Panels, Rows};
use proptest::prelude::*;

/// Returns random numbers of different magnitudes.
fn numbers(len: usize, mut seed: u64) -> Vec<f32> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let bits = u32::try_from(seed >> 33).unwrap();
        (f32::from(u16::try_from(bits >> 15).unwrap()) - 32_768.0)
            * 2f32.powi((bits % 9) as i32 - 20)
    };
    (0..len).map(|_| next()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_element_is_one_fused_sum_in_order(
        rows in 1usize..20, columns in 1usize..40, others in 1usize..70, extra in 0usize..3,
        deep: bool, seed: u64,
    ) {
        // More columns than one pass multiplies.
        let columns = if deep { columns + 500 } else { columns };
        let stride = columns + extra;
        let (left, right) = (numbers(rows * stride, seed), numbers(others * columns, !seed));
        let expected = |i: usize, j: usize, columns: core::ops::Range<usize>, whole: usize| {
            let row = &right[j * whole..][columns.clone()];
            let products = left[i * stride..][..columns.len()].iter().zip(row);
            products.fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum)).to_bits()
        };
        let (mut panels, mut transposed) = (Panels::default(), Panels::default());
        panels.pack(&right, columns).unwrap();
        let turned: Vec<f32> =
            (0..columns * others).map(|at| right[at % others * columns + at / others]).collect();
        transposed.pack_transposed(&Rows::new(&turned, columns, others, others).unwrap()).unwrap();
        let part = others / 64 * 32..others;
        let some = columns / 3..columns - columns / 4;
        for isa in Isa::available() {
            for panels in [&panels, &transposed] {
                for (part, some) in [(0..others, 0..columns), (part.clone(), some.clone())] {
                    let tile = Rows::new(&left, rows, stride, some.len()).unwrap();
                    let room = part.len() + extra;
                    let mut out = vec![f32::NAN; rows * room];
                    panels
                        .multiply_part(isa, part.clone(), some.clone(), &tile, &mut out, room)
                        .unwrap();
                    for (at, value) in out.iter().enumerate() {
                        let (i, j) = (at / room, at % room);
                        if j < part.len() {
                            let expected = expected(i, part.start + j, some.clone(), columns);
                            prop_assert_eq!(value.to_bits(), expected, "{} at {}, {}", isa, i, j);
                        } else {
                            prop_assert!(value.is_nan(), "elements between rows are not written");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn wrong_sizes_are_errors() {
    let mut panels = Panels::default();
    assert_eq!(panels.pack(&[1.0; 5], 2).unwrap_err().kind(), ErrorKind::Misuse);
    assert!(Rows::new(&[1.0; 7], 3, 3, 1).is_ok());
    assert!(Rows::new(&[1.0; 7], 3, 3, 2).is_err() && Rows::new(&[1.0; 9], 2, 1, 2).is_err());
    let left = [1.0; 16];
    let left = Rows::new(&left, 8, 2, 2).unwrap();
    panels.pack(&[1.0; 6], 3).unwrap();
    let refused = |panels: &Panels, room: usize, stride| {
        panels.multiply(&left, &mut vec![0.0; room], stride).is_err()
    };
    assert!(refused(&panels, 100, 8), "columns");
    panels.pack(&[1.0; 80], 2).unwrap();
    assert!(refused(&panels, 319, 40) && refused(&panels, 1000, 39), "room");
    assert!(!refused(&panels, 320, 40));
    let part = |rows, columns| {
        let mut out = vec![0.0; 1000];
        panels.multiply_part(Isa::best(), rows, columns, &left, &mut out, 40).is_err()
    };
    assert!(part(0..41, 0..2) && part(1..8, 0..2), "rows");
    assert!(part(0..40, 1..3) && part(0..40, 0..1), "columns");
    assert!(!part(32..40, 0..2) && !part(0..0, 0..2));
}
