//! The byte order within blocks.
//!
//! A block consists of scales and packed bits. In a big-endian file, every part that ggml's decoder
//! reads as one number (a half, a float, a word of packed bits) is big-endian; parts that it reads
//! byte by byte are the same in both byte orders. The table lists the former.

use crate::GgmlType;
use crate::error::{Detail, Error, ErrorKind, Result};

/// `count` numbers of `width` bytes within a block: the first at `start`, then one every `stride`
/// bytes.
#[derive(Clone, Copy)]
struct Numbers {
    start: usize,
    width: usize,
    count: usize,
    stride: usize,
}

/// Contiguous numbers.
const fn row(start: usize, width: usize, count: usize) -> Numbers {
    Numbers { start, width, count, stride: width }
}

/// Numbers with a stride.
const fn every(start: usize, width: usize, count: usize, stride: usize) -> Numbers {
    Numbers { start, width, count, stride }
}

/// Returns the numbers in a block of a type, or `None` if they are unknown.
#[expect(clippy::match_same_arms, reason = "plain numbers are separate from blocks")]
const fn numbers(ggml_type: GgmlType) -> Option<&'static [Numbers]> {
    Some(match ggml_type {
        // Bytes, and blocks whose scales are bytes.
        GgmlType::I8 | GgmlType::MXFP4 | GgmlType::NVFP4 => &[],
        GgmlType::F16 | GgmlType::BF16 | GgmlType::I16 => const { &[row(0, 2, 1)] },
        GgmlType::F32 | GgmlType::I32 => const { &[row(0, 4, 1)] },
        GgmlType::F64 | GgmlType::I64 => const { &[row(0, 8, 1)] },
        // A scale at the beginning.
        GgmlType::Q4_0
        | GgmlType::Q4_2
        | GgmlType::Q8_0
        | GgmlType::IQ4_NL
        | GgmlType::IQ2_S
        | GgmlType::IQ3_S
        | GgmlType::Q1_0
        | GgmlType::Q2_0 => const { &[row(0, 2, 1)] },
        // Two half-words at the beginning: a scale, and a minimum, a sum or packed scales.
        GgmlType::Q4_1
        | GgmlType::Q4_3
        | GgmlType::Q8_1
        | GgmlType::Q4_K
        | GgmlType::Q5_K
        | GgmlType::IQ4_XS => const { &[row(0, 2, 2)] },
        // The high bits of 32 weights are one word.
        GgmlType::Q5_0 => const { &[row(0, 2, 1), row(2, 4, 1)] },
        GgmlType::Q5_1 => const { &[row(0, 2, 2), row(4, 4, 1)] },
        // Scales after the weights.
        GgmlType::Q2_K => const { &[row(80, 2, 2)] },
        GgmlType::Q3_K => const { &[row(108, 2, 1)] },
        GgmlType::Q6_K => const { &[row(208, 2, 1)] },
        GgmlType::TQ1_0 => const { &[row(52, 2, 1)] },
        GgmlType::TQ2_0 => const { &[row(64, 2, 1)] },
        // A float scale, and sums after the weights.
        GgmlType::Q8_K => const { &[row(0, 4, 1), row(260, 2, 16)] },
        // For each 32 weights, four bytes of grid points and a word of signs and scale.
        GgmlType::IQ2_XXS => const { &[row(0, 2, 1), every(6, 4, 8, 8)] },
        // The grid point and the signs of 8 weights are one half-word.
        GgmlType::IQ2_XS => const { &[row(0, 2, 33)] },
        // After the grid points, a word of signs and scale for each 32 weights.
        GgmlType::IQ3_XXS => const { &[row(0, 2, 1), row(66, 4, 8)] },
        GgmlType::IQ1_S => const { &[row(0, 2, 1), row(34, 2, 8)] },
        // The block scale is spread over the four half-words of scales.
        GgmlType::IQ1_M => const { &[row(48, 2, 4)] },
        _ => return None,
    })
}

/// Converts blocks of a type from little-endian to big-endian or back; both are the same operation.
///
/// Fails with [`ErrorKind::Unsupported`] for retired types whose byte order within a block is
/// unknown, and with [`ErrorKind::Misuse`] if the length is not a multiple of the block's bytes.
///
/// ```
/// use ggmill_core::{GgmlType, swap_bytes};
/// let mut block = *b"sS................................";
/// swap_bytes(GgmlType::Q8_0, &mut block)?;
/// assert_eq!(&block, b"Ss................................");
/// # Ok::<(), ggmill_core::Error>(())
/// ```
pub fn swap_bytes(ggml_type: GgmlType, blocks: &mut [u8]) -> Result<()> {
    let unknown = || Error::new(ErrorKind::Unsupported, Detail::ByteOrder { ggml_type });
    let (words, layout) =
        (numbers(ggml_type).ok_or_else(unknown)?, ggml_type.layout().ok_or_else(unknown)?);
    let size = layout.bytes as usize;
    if !blocks.len().is_multiple_of(size) {
        return Err(Error::new(
            ErrorKind::Misuse,
            Detail::NotBlocks { ggml_type, found: blocks.len() as u64, block: layout.bytes },
        ));
    }
    match (words, size) {
        ([], _) => {}
        // The compiler vectorizes plain numbers.
        ([Numbers { width: 2, .. }], 2) => {
            blocks.as_chunks_mut::<2>().0.iter_mut().for_each(|word| word.reverse());
        }
        ([Numbers { width: 4, .. }], 4) => {
            blocks.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
        }
        ([Numbers { width: 8, .. }], 8) => {
            blocks.as_chunks_mut::<8>().0.iter_mut().for_each(|word| word.reverse());
        }
        (words, size) => blocks
            .chunks_exact_mut(size)
            .for_each(|block| words.iter().for_each(|word| word.swap(block))),
    }
    Ok(())
}

impl Numbers {
    fn swap(&self, block: &mut [u8]) {
        let rest = block.get_mut(self.start..).unwrap_or_default();
        for word in rest.chunks_mut(self.stride).take(self.count) {
            if let Some(word) = word.get_mut(..self.width) {
                word.reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString as _};
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn swapping_twice_restores_the_bytes() {
        for ggml_type in GgmlType::all() {
            let size = ggml_type.layout().unwrap().bytes as usize;
            let before: Vec<u8> =
                (0..3 * size).map(|byte| u8::try_from(byte * 7 % 251).unwrap()).collect();
            let mut blocks = before.clone();
            let Ok(()) = swap_bytes(ggml_type, &mut blocks) else { continue };
            assert_eq!(numbers(ggml_type).unwrap().is_empty(), blocks == before, "{ggml_type}");
            swap_bytes(ggml_type, &mut blocks).unwrap();
            assert_eq!(blocks, before, "{ggml_type}");
            assert!(
                swap_bytes(ggml_type, blocks.get_mut(1..).unwrap()).is_err() || size == 1,
                "{ggml_type}"
            );
        }
    }

    #[test]
    fn each_number_is_reversed() {
        for ggml_type in GgmlType::all() {
            let Some(numbers) = numbers(ggml_type) else { continue };
            let size = ggml_type.layout().unwrap().bytes as usize;
            let mut blocks: Vec<u8> =
                (0..2 * size).map(|byte| u8::try_from(byte % 251).unwrap()).collect();
            let mut expected = blocks.clone();
            for block in expected.chunks_exact_mut(size) {
                for run in numbers {
                    for number in 0..run.count {
                        let start = run.start + number * run.stride;
                        block.get_mut(start..start + run.width).unwrap().reverse();
                    }
                }
            }
            swap_bytes(ggml_type, &mut blocks).unwrap();
            assert_eq!(blocks, expected, "{ggml_type}");
        }
    }

    /// Numbers are within the block and do not overlap.
    #[test]
    fn no_byte_is_swapped_twice() {
        for ggml_type in GgmlType::all() {
            let Some(numbers) = numbers(ggml_type) else { continue };
            let mut seen = vec![false; ggml_type.layout().unwrap().bytes as usize];
            for run in numbers {
                for at in (0..run.count).flat_map(|number| {
                    (0..run.width).map(move |byte| run.start + number * run.stride + byte)
                }) {
                    assert!(
                        !core::mem::replace(seen.get_mut(at).unwrap(), true),
                        "{ggml_type}: byte {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_type_in_use_is_known() {
        let unknown: Vec<String> = GgmlType::all()
            .filter(|&ggml_type| numbers(ggml_type).is_none())
            .map(|ggml_type| ggml_type.to_string())
            .collect();
        assert_eq!(
            unknown,
            ["Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8"]
        );
        let error = swap_bytes(GgmlType::Q4_0_4_4, &mut []).unwrap_err();
        assert_eq!(error.to_string(), "the byte order within blocks of Q4_0_4_4 is not known");
    }
}
