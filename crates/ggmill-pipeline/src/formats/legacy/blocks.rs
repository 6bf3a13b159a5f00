//! The block layouts of legacy files, and their conversion to the current ones.

use ggmill_core::GgmlType;
use ggmill_io::RandomAccess;

use crate::{Error, ErrorKind, Result};

/// The block size of every type whose layout has changed.
const ELEMENTS: usize = 32;
/// Blocks converted at once.
const BATCH: u64 = 4096;

/// The block layouts of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// Before May 2023 (GGMF, GGJT 1): adjacent elements share a byte; scales are F32, except F16
    /// in Q5.
    Shuffled,
    /// GGJT 2: elements `i` and `i + 16` share a byte, as today; the scales of Q4 and Q8 are F32.
    LongScales,
    /// Since GGJT 3.
    Current,
    /// GGML without a version first stored all scales of a row before its quants, and later used
    /// [`Era::Shuffled`]. The file does not state which.
    Unknown,
}

/// The block layout of a tensor in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Elements per block.
    elements: u64,
    /// Bytes per block in the file.
    old: u64,
    /// Bytes per block in the current layout.
    new: u64,
    change: Option<Change>,
}

/// The difference to the current layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    /// Number of scales and minima at the beginning of a block.
    scales: usize,
    /// If true, they are F32.
    is_long: bool,
    /// If true, adjacent elements share a byte.
    is_shuffled: bool,
    /// Bytes of the fifth bits after the scales.
    fifth_bits: usize,
}

impl Blocks {
    pub(super) fn new(ggml_type: GgmlType, era: Era) -> Result<Self> {
        let refused = |message: String| Err(Error::new(ErrorKind::Unsupported, message));
        if matches!(ggml_type.0, 4 | 5) {
            return refused(format!(
                "Q4_{}, which was removed in May 2023, is not supported",
                ggml_type.0 - 2
            ));
        }
        let Some(layout) = ggml_type.layout() else {
            return refused(format!("type {} is unknown", ggml_type.0));
        };
        let (elements, new) = (u64::from(layout.elements), u64::from(layout.bytes));
        let unchanged = Self { elements, old: new, new, change: None };
        let change = |scales, is_long, is_shuffled, fifth_bits| {
            let old = new + if is_long { 2 * scales as u64 } else { 0 };
            Ok(Self {
                elements,
                old,
                new,
                change: Some(Change { scales, is_long, is_shuffled, fifth_bits }),
            })
        };
        match (ggml_type, era) {
            (GgmlType::F32 | GgmlType::F16, _) | (_, Era::Current) => Ok(unchanged),
            (_, Era::Unknown) => refused(format!(
                "{ggml_type} had two layouts in GGML files without a version, and the file does \
                 not specify its layout"
            )),
            (GgmlType::Q4_0, era) => change(1, true, era == Era::Shuffled, 0),
            (GgmlType::Q4_1, era) => change(2, true, era == Era::Shuffled, 0),
            (GgmlType::Q8_0, _) => change(1, true, false, 0),
            (GgmlType::Q5_0, Era::Shuffled) => change(1, false, true, 4),
            (GgmlType::Q5_1, Era::Shuffled) => change(2, false, true, 4),
            (GgmlType::Q5_0 | GgmlType::Q5_1, _) => Ok(unchanged),
            (other, _) => refused(format!("{other} is not supported in files of this version")),
        }
    }

    pub(super) fn elements(&self) -> u64 {
        self.elements
    }

    /// Returns the size of elements in the file in bytes.
    pub(super) fn stored_size(&self, elements: u64) -> Option<u64> {
        elements.checked_div(self.elements)?.checked_mul(self.old)
    }

    /// Returns a description of the difference; `None` if there is none.
    pub(super) fn note(&self) -> Option<&'static str> {
        Some(match self.change? {
            Change { is_long: true, is_shuffled: true, .. } => {
                "nibbles in a different order, scales of f32"
            }
            Change { is_long: true, .. } => "scales of f32",
            Change { .. } => "nibbles in a different order",
        })
    }

    /// Fills `out` with data in the current layout, from byte `offset` on.
    pub(super) fn read(
        &self,
        file: &RandomAccess,
        start: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let Some(change) = self.change else {
            return Ok(file.read_at(start.saturating_add(offset), out)?);
        };
        let end = offset.saturating_add(out.len() as u64);
        let (mut block, last) = (offset / self.new, end.div_ceil(self.new));
        while block < last {
            let count = (last - block).min(BATCH);
            // Both buffers have at most a few hundred kilobytes.
            let bytes = |size: u64| usize::try_from(size).unwrap_or(1);
            let (mut old, mut new) =
                (vec![0; bytes(count * self.old)], vec![0; bytes(count * self.new)]);
            file.read_at(start.saturating_add(block * self.old), &mut old)?;
            for (old, new) in
                old.chunks_exact(bytes(self.old)).zip(new.chunks_exact_mut(bytes(self.new)))
            {
                change.apply(old, new)?;
            }
            // The requested range of these blocks.
            let (from, to) =
                ((block * self.new).max(offset), ((block + count) * self.new).min(end));
            let relative = |at: u64, base: u64| usize::try_from(at - base).unwrap_or(usize::MAX);
            let requested =
                new.get(relative(from, block * self.new)..relative(to, block * self.new));
            if let Some((target, requested)) =
                out.get_mut(relative(from, offset)..relative(to, offset)).zip(requested)
            {
                target.copy_from_slice(requested);
            }
            block += count;
        }
        Ok(())
    }
}

impl Change {
    /// Converts one block. `old` and `new` have the lengths of the layouts.
    fn apply(self, old: &[u8], new: &mut [u8]) -> Result<()> {
        let Self { scales, is_long, is_shuffled, fifth_bits } = self;
        let (old_scales, old_rest) = old.split_at(scales * if is_long { 4 } else { 2 });
        let (new_scales, new_rest) = new.split_at_mut(scales * 2);
        if is_long {
            for (old, new) in old_scales.chunks_exact(4).zip(new_scales.chunks_exact_mut(2)) {
                let scale = old.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
                ggmill_quant::quantize(GgmlType::F16, &[scale], 1, None, new)
                    .map_err(|error| Error::caused(ErrorKind::NonFinite, error))?;
                if scale.is_finite() && scale.abs() >= 65_520.0 {
                    return Err(Error::new(
                        ErrorKind::NonFinite,
                        format!(
                            "a block has the scale {scale}, which exceeds the F16 maximum of 65504"
                        ),
                    ));
                }
            }
        } else {
            new_scales.copy_from_slice(old_scales);
        }
        let (old_bits, old_quants) = old_rest.split_at(fifth_bits);
        let (new_bits, new_quants) = new_rest.split_at_mut(fifth_bits);
        new_bits.copy_from_slice(old_bits);
        if is_shuffled {
            // Elements 2i and 2i + 1 shared byte i; now i and i + 16 do.
            let quant = |element: usize| {
                old_quants.get(element / 2).map_or(0, |byte| (byte >> (4 * (element % 2))) & 0xf)
            };
            for (element, new) in new_quants.iter_mut().enumerate() {
                *new = quant(element) | quant(element + ELEMENTS / 2) << 4;
            }
        } else {
            new_quants.copy_from_slice(old_quants);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converted blocks decode to the values of the old layout's formula.
    #[test]
    fn values_are_preserved() {
        let noise =
            |seed: usize| (0..64).map(move |i| ((i + seed) * 2_654_435_761_usize).to_le_bytes()[1]);
        for (ggml_type, era) in [
            (GgmlType::Q4_0, Era::Shuffled),
            (GgmlType::Q4_1, Era::Shuffled),
            (GgmlType::Q5_0, Era::Shuffled),
            (GgmlType::Q5_1, Era::Shuffled),
            (GgmlType::Q8_0, Era::Shuffled),
            (GgmlType::Q4_0, Era::LongScales),
            (GgmlType::Q4_1, Era::LongScales),
            (GgmlType::Q8_0, Era::LongScales),
        ] {
            let blocks = Blocks::new(ggml_type, era).unwrap();
            let change = blocks.change.unwrap();
            let (d, m) = (0.375f32, -1.25f32);
            let mut old: Vec<u8> = Vec::new();
            for scale in [d, m].into_iter().take(change.scales) {
                if change.is_long {
                    old.extend(scale.to_le_bytes());
                } else {
                    let mut half = [0; 2];
                    ggmill_quant::quantize(GgmlType::F16, &[scale], 1, None, &mut half).unwrap();
                    old.extend(half);
                }
            }
            let quants = usize::try_from(blocks.old).unwrap() - old.len();
            old.extend(noise(ggml_type.0 as usize).take(quants));
            let body = &old[old.len() - quants..];
            let expected: Vec<f32> = (0..ELEMENTS)
                .map(|element| {
                    let packed = &body[change.fifth_bits..];
                    let nibble = match () {
                        () if change.is_shuffled => packed[element / 2] >> (4 * (element % 2)),
                        () => packed[element % 16] >> (4 * (element / 16)),
                    } & 0xf;
                    let fifth = |base: u8| base | (body[element / 8] >> (element % 8) & 1) << 4;
                    match ggml_type {
                        GgmlType::Q4_0 => d * (f32::from(nibble) - 8.0),
                        GgmlType::Q4_1 => d * f32::from(nibble) + m,
                        GgmlType::Q5_0 => d * (f32::from(fifth(nibble)) - 16.0),
                        GgmlType::Q5_1 => d * f32::from(fifth(nibble)) + m,
                        _ => d * f32::from(body[element].cast_signed()),
                    }
                })
                .collect();
            let mut new = vec![0; usize::try_from(blocks.new).unwrap()];
            change.apply(&old, &mut new).unwrap();
            let mut values = vec![0.0; ELEMENTS];
            ggmill_quant::dequantize(ggml_type, &new, &mut values).unwrap();
            assert_eq!(values, expected, "{ggml_type} {era:?}");
        }
    }

    #[test]
    fn removed_and_unknown_types_are_refused() {
        for (ggml_type, era, words) in [
            (GgmlType(4), Era::Shuffled, "Q4_2, which was removed"),
            (GgmlType(5), Era::Shuffled, "Q4_3, which was removed"),
            (GgmlType::Q4_0, Era::Unknown, "had two layouts"),
            (GgmlType::Q8_1, Era::Shuffled, "is not supported in files of this version"),
            (GgmlType(77), Era::Current, "type 77 is unknown"),
        ] {
            let error = Blocks::new(ggml_type, era).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
        let too_long = [&1.0e6f32.to_le_bytes()[..], &[0; 16]].concat();
        let change = Blocks::new(GgmlType::Q4_0, Era::LongScales).unwrap().change.unwrap();
        assert!(
            change
                .apply(&too_long, &mut [0; 18])
                .unwrap_err()
                .to_string()
                .contains("exceeds the F16 maximum of 65504")
        );
    }
}
