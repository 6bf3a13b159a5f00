//! Products of matrices: the same as one sum after the other, with every instruction set.

use ggmill_quant::{ErrorKind, Isa, Panels, Tiles};
use proptest::prelude::*;

/// Numbers of any size, by chance.
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
    fn each_element_is_one_sum_in_order(
        rows in 1usize..20, columns in 0usize..40, others in 1usize..70, extra in 0usize..3, seed: u64,
    ) {
        let (left, right) = (numbers(rows * columns.max(1), seed), numbers(others * columns.max(1), !seed));
        let columns = columns.max(1);
        let expected = |i: usize, j: usize| {
            let products = left[i * columns..][..columns].iter().zip(&right[j * columns..][..columns]);
            products.fold(0.0f32, |sum, (a, b)| sum + a * b).to_bits()
        };
        let (mut tiles, mut panels, mut transposed) = (Tiles::default(), Panels::default(), Panels::default());
        tiles.pack(&left, columns).unwrap();
        panels.pack(&right, columns).unwrap();
        let turned: Vec<f32> = (0..columns * others).map(|at| right[at % others * columns + at / others]).collect();
        transposed.pack_transposed(&turned, others).unwrap();
        let stride = others + extra;
        for isa in Isa::available() {
            for panels in [&panels, &transposed] {
                let mut out = vec![f32::NAN; rows * stride];
                panels.multiply_with(isa, &tiles, 0..rows, &mut out, stride).unwrap();
                for (at, value) in out.iter().enumerate() {
                    let (i, j) = (at / stride, at % stride);
                    if j < others {
                        prop_assert_eq!(value.to_bits(), expected(i, j), "{} at {}, {}", isa, i, j);
                    } else {
                        prop_assert!(value.is_nan(), "what is between rows stays");
                    }
                }
                let from = Tiles::HEIGHT.min(rows / Tiles::HEIGHT * Tiles::HEIGHT);
                let mut some = vec![0.0; (rows - from) * stride];
                panels.multiply_with(isa, &tiles, from..rows, &mut some, stride).unwrap();
                for (i, row) in some.chunks(stride).enumerate() {
                    for (j, value) in row[..others].iter().enumerate() {
                        prop_assert_eq!(value.to_bits(), expected(from + i, j));
                    }
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (mut tiles, mut panels) = (Tiles::default(), Panels::default());
    assert_eq!(tiles.pack(&[1.0; 5], 2).unwrap_err().kind(), ErrorKind::Misuse);
    tiles.pack(&[1.0; 16], 2).unwrap();
    panels.pack(&[1.0; 6], 3).unwrap();
    let refused = |panels: &Panels, rows, room: usize, stride| {
        panels.multiply(&tiles, rows, &mut vec![0.0; room], stride).is_err()
    };
    assert!(refused(&panels, 0..8, 100, 8), "columns");
    panels.pack(&[1.0; 6], 2).unwrap();
    assert!(refused(&panels, 0..9, 100, 8), "rows");
    assert!(refused(&panels, 1..8, 100, 8), "a beginning within a tile");
    assert!(refused(&panels, 0..8, 23, 3) && refused(&panels, 0..8, 100, 2), "room");
    assert!(!refused(&panels, 0..8, 24, 3) && !refused(&panels, 6..8, 6, 3));
}
