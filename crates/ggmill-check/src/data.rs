//! Properties of tensor data: numbers that are none, nothing but zeros, and numbers that are
//! implausible.
//!
//! The caller reads the file in [pieces](data_pieces), in any order and on as many threads as there
//! are, hands the bytes to [`DataPiece::examine`], gathers the answers in [`DataFacts`], and gives
//! those to [`Input::with_data`](crate::Input::with_data).

use std::borrow::Cow;
use std::ops::BitAnd;

use ggmill_core::{Endian, GgmlType, Part};
use ggmill_quant::{BlockDescription, ScaleFormat};

/// The largest number of half precision: a weight beyond it is infinite as F16, and on many a
/// graphics card.
pub(crate) const LARGEST: f32 = 65_504.0;
/// A scale of a block below this makes no weight beyond [`LARGEST`], in whatever type: none
/// multiplies by more than 4096.
const PLAIN_SCALE: u16 = 0x4800;
/// The same for a power of two: 6 · 2^13 is below.
const PLAIN_EXPONENT: u8 = 140;
/// The longest piece, in bytes: it fits the cache of a core, so what was just read is still there.
const MAX_LEN: u64 = 256 << 10;

/// A stretch of one tensor's data, of whole blocks, to be read and examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPiece {
    tensor: usize,
    offset: u64,
    len: usize,
    ggml_type: GgmlType,
    endian: Endian,
}

/// The properties of the data of one tensor, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Facts {
    /// Numbers or blocks that are not finite.
    bad: u64,
    /// Where the first of them lies in the file.
    first: Option<u64>,
    /// The largest magnitude, exact where it is beyond reason.
    largest: f32,
    is_zero: bool,
}

/// The properties of the data of every tensor.
#[derive(Clone, Debug, Default)]
pub struct DataFacts {
    tensors: Vec<Option<Facts>>,
}

/// Something that was found in the data of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anomaly {
    /// So many numbers, or scales of blocks, are NaN or infinite; the first at this offset of the
    /// file.
    NotFinite { count: u64, first: u64, in_blocks: bool },
    /// The largest magnitude is beyond what half precision holds.
    TooLarge(f32),
    /// There is nothing but zeros.
    Zero,
}

/// The data to be examined: those of types with anything to examine, as far as they lie within the
/// file.
///
/// ```
/// use ggmill_check::{DataFacts, Input, Options, check, data_pieces};
/// # use ggmill_core::{Builder, GgmlType, Model, Shape};
/// # let plan = Builder::new().tensor("w", GgmlType::F32, Shape::new(&[8])?).plan()?;
/// # let file = [plan.header(), &[0xff; 32]].concat();
/// let model = Model::salvage(file)?;
/// let part = &model.parts()[0];
/// let mut facts = DataFacts::default();
/// for piece in data_pieces(part) {
///     let mut bytes = vec![0; piece.len()];
///     part.read_at(piece.offset(), &mut bytes)?;
///     facts.add(piece.examine(&bytes));
/// }
/// let report = check(&Input::new(part).with_data(&facts), &Options::default());
/// assert!(report.counts().iter().any(|(rule, _)| rule.code == "GG2101"));
/// # Ok::<(), ggmill_core::Error>(())
/// ```
pub fn data_pieces(part: &Part) -> impl Iterator<Item = DataPiece> + '_ {
    let (end, endian) = (part.file_len().unwrap_or(u64::MAX), part.endian());
    part.tensors().iter().enumerate().flat_map(move |(number, tensor)| {
        let ggml_type = tensor.ggml_type();
        let unit = ggml_type.layout().map_or(1, |layout| u64::from(layout.bytes));
        let room = end.saturating_sub(tensor.offset());
        let known = is_float(ggml_type) || BlockDescription::of(ggml_type).is_some();
        let size = tensor.size().filter(|&size| known && size <= room).unwrap_or(0);
        let step = MAX_LEN / unit * unit;
        (0..size.div_ceil(step)).map(move |count| {
            let start = count * step;
            let len = usize::try_from(step.min(size - start)).unwrap_or(0);
            DataPiece { tensor: number, offset: tensor.offset() + start, len, ggml_type, endian }
        })
    })
}

fn is_float(ggml_type: GgmlType) -> bool {
    matches!(ggml_type, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 | GgmlType::F64)
}

/// The properties of one piece, for [`DataFacts::add`].
#[derive(Clone, Copy, Debug)]
pub struct PieceFacts {
    tensor: usize,
    facts: Option<Facts>,
}

#[expect(clippy::len_without_is_empty, reason = "there are no empty pieces")]
impl DataPiece {
    /// Where it begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of its tensor, in the order of the file.
    pub fn tensor(&self) -> usize {
        self.tensor
    }

    /// Looks at the bytes of the piece.
    pub fn examine(&self, bytes: &[u8]) -> PieceFacts {
        let mut bytes = Cow::Borrowed(bytes);
        if self.endian == Endian::Big
            && ggmill_core::swap_bytes(self.ggml_type, bytes.to_mut()).is_err()
        {
            return PieceFacts { tensor: self.tensor, facts: None };
        }
        let mut facts = match self.ggml_type {
            GgmlType::F32 => {
                floats(&bytes, 0x7f80_0000, |bits: i32| f32::from_bits(bits.cast_unsigned()))
            }
            GgmlType::F16 => floats(&bytes, 0x7c00, |bits: i16| half(bits.cast_unsigned())),
            GgmlType::BF16 => floats(&bytes, 0x7f80, |bits: i16| {
                f32::from_bits(u32::from(bits.cast_unsigned()) << 16)
            }),
            #[expect(clippy::cast_possible_truncation, reason = "only the magnitude counts")]
            GgmlType::F64 => floats(&bytes, 0x7ff0_0000_0000_0000, |bits: i64| {
                (f64::from_bits(bits.cast_unsigned()) as f32).min(f32::MAX)
            }),
            other => match (BlockDescription::of(other), other.layout()) {
                (Some(block), Some(layout)) => blocks(&bytes, other, block, layout.bytes as usize),
                _ => return PieceFacts { tensor: self.tensor, facts: None },
            },
        };
        facts.first = facts.first.map(|place| self.offset + place);
        PieceFacts { tensor: self.tensor, facts: Some(facts) }
    }
}

impl DataFacts {
    /// Adds what a piece holds; the order does not matter.
    pub fn add(&mut self, piece: PieceFacts) {
        let Some(new) = piece.facts else { return };
        if self.tensors.len() <= piece.tensor {
            self.tensors.resize(piece.tensor + 1, None);
        }
        if let Some(place) = self.tensors.get_mut(piece.tensor) {
            *place = Some(place.map_or(new, |old| Facts {
                bad: old.bad + new.bad,
                first: old.first.into_iter().chain(new.first).min(),
                largest: old.largest.max(new.largest),
                is_zero: old.is_zero && new.is_zero,
            }));
        }
    }

    /// Adds what was gathered elsewhere, on another thread.
    pub fn merge(&mut self, other: Self) {
        for (tensor, facts) in other.tensors.into_iter().enumerate() {
            self.add(PieceFacts { tensor, facts });
        }
    }

    /// The anomalies in the data of a tensor.
    pub(crate) fn anomalies(
        &self,
        tensor: usize,
        ggml_type: GgmlType,
    ) -> impl Iterator<Item = Anomaly> {
        let facts = self.tensors.get(tensor).copied().flatten();
        let of = move |found: fn(Facts, bool) -> Option<Anomaly>| {
            facts.and_then(|facts| found(facts, !is_float(ggml_type)))
        };
        let not_finite = of(|facts, in_blocks| {
            Some(Anomaly::NotFinite { count: facts.bad, first: facts.first?, in_blocks })
        });
        let large =
            of(|facts, _| (facts.largest > LARGEST).then_some(Anomaly::TooLarge(facts.largest)));
        let zero = of(|facts, _| facts.is_zero.then_some(Anomaly::Zero));
        [not_finite, large, zero].into_iter().flatten()
    }
}

/// A half as a float.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) =
        (u32::from(bits >> 15) << 31, u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    match exponent {
        // Subnormals are fractions of 2^-24.
        0 => f32::from_bits(sign | (f32::from(bits & 0x3ff) * 2f32.powi(-24)).to_bits()),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Numbers of one width as the bits of their magnitudes, which order as the magnitudes do, with
/// infinity and NaN above all others. Signed, since that is what every processor compares many of
/// at a time.
trait Magnitude: Copy + Ord + Default {
    /// The greatest of many.
    fn greatest(bytes: &[u8]) -> Self;

    /// The greatest below a limit, 0 where there is none, and how many are not below it.
    fn greatest_below(bytes: &[u8], limit: Self) -> (Self, u64);

    /// The place of the first that is not below a limit, in bytes.
    fn first_from(bytes: &[u8], limit: Self) -> Option<u64>;
}

macro_rules! impl_magnitude {
    ($($bits:ident)*) => {$(
        impl Magnitude for $bits {
            fn greatest(bytes: &[u8]) -> Self {
                magnitudes(bytes, $bits::from_le_bytes, $bits::MAX).fold(0, Ord::max)
            }

            fn greatest_below(bytes: &[u8], limit: Self) -> (Self, u64) {
                /// Few enough to be counted in as many bits as a number has, so that numbers are
                /// counted as they are compared.
                const COUNTED: usize = 8192 * size_of::<$bits>();
                let (mut greatest, mut others) = (0, 0);
                for bytes in bytes.chunks(COUNTED) {
                    let mut count = 0;
                    for bits in magnitudes(bytes, $bits::from_le_bytes, $bits::MAX) {
                        greatest = greatest.max(if bits < limit { bits } else { 0 });
                        count += $bits::from(bits >= limit);
                    }
                    others += u64::from(count.unsigned_abs());
                }
                (greatest, others)
            }

            fn first_from(bytes: &[u8], limit: Self) -> Option<u64> {
                (0u64..)
                    .step_by(size_of::<$bits>())
                    .zip(magnitudes(bytes, $bits::from_le_bytes, $bits::MAX))
                    .find_map(|(place, bits)| (bits >= limit).then_some(place))
            }
        }
    )*};
}

impl_magnitude!(i16 i32 i64);

/// Numbers without their signs.
fn magnitudes<const W: usize, N: Copy + BitAnd<Output = N>>(
    bytes: &[u8],
    number: impl Fn([u8; W]) -> N,
    all_but_sign: N,
) -> impl Iterator<Item = N> {
    bytes.as_chunks::<W>().0.iter().map(move |&bytes| number(bytes) & all_but_sign)
}

/// One pass tells all there is to tell of good numbers; only where some are bad they are looked
/// for.
fn floats<N: Magnitude>(bytes: &[u8], infinite: N, value: fn(N) -> f32) -> Facts {
    let greatest = N::greatest(bytes);
    let facts =
        Facts { bad: 0, first: None, largest: value(greatest), is_zero: greatest == N::default() };
    if greatest < infinite {
        return facts;
    }
    let (greatest, bad) = N::greatest_below(bytes, infinite);
    Facts { bad, first: N::first_from(bytes, infinite), largest: value(greatest), ..facts }
}

/// How odd a scale can be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ScaleClass {
    Zero,
    Plain,
    Large,
    NotFinite,
}

/// How odd a scale of this magnitude is.
fn scale_class(scale: ScaleFormat, magnitude: u32) -> ScaleClass {
    // The least that is not a number, and the least that makes weights large.
    let (not_finite, large) = match scale {
        ScaleFormat::F16 | ScaleFormat::Spread => (0x7c00, PLAIN_SCALE.into()),
        ScaleFormat::F32 => (0x7f80_0000, 0x4100_0000),
        ScaleFormat::E8M0 => (0xff, PLAIN_EXPONENT.into()),
        // None is large.
        ScaleFormat::UE4M3 => (0x7f, 0x7f),
    };
    match magnitude {
        _ if magnitude >= not_finite => ScaleClass::NotFinite,
        _ if magnitude >= large => ScaleClass::Large,
        // Whatever a power of two is, the weights decide what is zero.
        0 if scale != ScaleFormat::E8M0 => ScaleClass::Zero,
        _ => ScaleClass::Plain,
    }
}

/// The highest magnitude, as bits, among the scales at one place of each block. A loop for each
/// kind: this is all that is done with most blocks.
fn peak(scale: ScaleFormat, bytes: &[u8], size: usize, at: usize) -> u32 {
    match scale {
        ScaleFormat::F16 => {
            peak_of(bytes, size, at, |half| u32::from(u16::from_le_bytes(half) & 0x7fff))
        }
        ScaleFormat::Spread => peak_of(bytes, size, at, |quarters: [u8; 8]| {
            let words = u64::from_le_bytes(quarters);
            let bits =
                words >> 12 & 0xf | words >> 24 & 0xf0 | words >> 36 & 0xf00 | words >> 48 & 0x7000;
            // Fifteen bits.
            u32::try_from(bits).unwrap_or(u32::MAX)
        }),
        ScaleFormat::F32 => {
            peak_of(bytes, size, at, |number| u32::from_le_bytes(number) & 0x7fff_ffff)
        }
        ScaleFormat::E8M0 => peak_of(bytes, size, at, |[exponent]| u32::from(exponent)),
        ScaleFormat::UE4M3 => peak_of(bytes, size, at, |scales: [u8; 4]| {
            scales.iter().fold(0, |peak, byte| peak.max(u32::from(byte & 0x7f)))
        }),
    }
}

fn peak_of<const N: usize>(
    bytes: &[u8],
    size: usize,
    at: usize,
    magnitude: impl Fn([u8; N]) -> u32,
) -> u32 {
    bytes.chunks_exact(size).fold(0, |peak, block| {
        let field = block.get(at..).and_then(|field| field.first_chunk::<N>());
        peak.max(field.map_or(0, |field| magnitude(*field)))
    })
}

fn blocks(bytes: &[u8], ggml_type: GgmlType, layout: BlockDescription, size: usize) -> Facts {
    let scales =
        || layout.fields.iter().filter_map(|field| Some((field.start as usize, field.scale?)));
    // Magnitudes order as the standings do, so the highest of all blocks has the worst of them.
    let worst_of = |blocks: &[u8]| {
        let worst = scales()
            .map(|(start, scale)| scale_class(scale, peak(scale, blocks, size, start)))
            .max();
        worst.unwrap_or(ScaleClass::Plain)
    };
    let worst = worst_of(bytes);
    let exponents = scales().any(|(.., scale)| scale == ScaleFormat::E8M0);
    // Two weights of four bits in a byte, whose sign bits do not count.
    let no_weights =
        || bytes.chunks_exact(size).all(|block| block.iter().skip(1).all(|byte| byte & 0x77 == 0));
    let mut facts = Facts {
        bad: 0,
        first: None,
        largest: 0.0,
        is_zero: worst == ScaleClass::Zero || exponents && no_weights(),
    };
    if worst <= ScaleClass::Plain {
        return facts;
    }
    let mut weights = vec![0.0; ggml_type.layout().map_or(0, |layout| layout.elements as usize)];
    for (block, place) in bytes.chunks_exact(size).zip((0u64..).step_by(size)) {
        match worst_of(block) {
            ScaleClass::NotFinite => {
                facts.bad += 1;
                facts.first = facts.first.or(Some(place));
            }
            ScaleClass::Large
                if ggmill_quant::dequantize(ggml_type, block, &mut weights).is_ok() =>
            {
                let largest = weights
                    .iter()
                    .filter(|weight| weight.is_finite())
                    .fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
                facts.largest = facts.largest.max(largest);
            }
            _ => {}
        }
    }
    facts
}

#[cfg(test)]
mod tests;
