//! Examination of tensor data for values that are not finite, implausibly large, or all zero.
//!
//! The caller reads the file in [pieces](data_pieces), in any order and on any number of threads, passes
//! the bytes to [`DataPiece::examine`], merges the results in [`DataFacts`], and passes those to
//! [`Input::with_data`](crate::Input::with_data).

use std::borrow::Cow;
use std::ops::BitAnd;

#[cfg(feature = "examine")]
use ggmill_core::ReadAt as _;
use ggmill_core::{Endian, GgmlType, Header};
#[cfg(feature = "examine")]
use ggmill_pipeline::{Error, ErrorKind, Progress, Report, Result, RunOptions};
use ggmill_quant::{BlockDescription, ScaleFormat};

/// The largest finite F16. A larger weight cannot be represented in F16, which many GPUs compute with: it
/// is rounded to this value, or becomes infinite from 65,520 on.
pub(crate) const MAX_F16: f32 = 65_504.0;
/// Magnitude bits of an F16 scale below which no weight of any type exceeds [`MAX_F16`], as no type
/// multiplies a scale by more than 4096.
const PLAIN_SCALE: u16 = 0x4800;
/// The exponent of an E8M0 scale below which no weight exceeds [`MAX_F16`]: the largest weight with the
/// exponent 139 is 6 · 2^12.
const PLAIN_EXPONENT: u8 = 140;
/// The maximum length of a piece in bytes. It fits into the cache of a core, so a piece is examined while
/// it is still cached.
const MAX_PIECE_LEN: u64 = 256 << 10;

/// A range of whole blocks of a tensor to be examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPiece {
    tensor: usize,
    offset: u64,
    len: usize,
    ggml_type: GgmlType,
    endian: Endian,
}

/// The properties of the data of a tensor or a part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Facts {
    /// The number of elements or blocks that are not finite.
    bad: u64,
    /// The file offset of the first one.
    first: Option<u64>,
    /// The largest magnitude; of blocks with ordinary scales it is not computed.
    largest: f32,
    is_zero: bool,
}

/// The properties of the data of every tensor.
#[derive(Clone, Debug, Default)]
pub struct DataFacts {
    tensors: Vec<Option<Facts>>,
}

/// An anomaly in the data of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anomaly {
    /// `count` elements, or scales of blocks, are NaN or infinite; the first at this file offset.
    NotFinite { count: u64, first: u64, in_blocks: bool },
    /// The largest magnitude exceeds [`MAX_F16`].
    TooLarge(f32),
    /// All elements are zero.
    Zero,
}

/// Returns the pieces to be examined: tensors of floats or of blocks with scales that lie within the
/// file.
///
/// ```
/// use ggmill_check::{DataFacts, Input, Options, check, data_pieces};
/// # use ggmill_core::{Builder, GgmlType, Model, Shape};
/// # let plan = Builder::new().tensor("w", GgmlType::F32, Shape::new(&[8])?).plan()?;
/// # let file = [plan.header(), &[0xff; 32]].concat();
/// let model = Model::open_damaged(file)?;
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
pub fn data_pieces(part: &Header<'_>) -> impl Iterator<Item = DataPiece> {
    let (end, endian) = (part.file_len().unwrap_or(u64::MAX), part.endian());
    part.tensors().iter().enumerate().flat_map(move |(number, tensor)| {
        let ggml_type = tensor.ggml_type();
        let unit = ggml_type.layout().map_or(1, |layout| u64::from(layout.bytes));
        let room = end.saturating_sub(tensor.offset());
        let known = is_float(ggml_type) || BlockDescription::of(ggml_type).is_some();
        let size = tensor.size().filter(|&size| known && size <= room).unwrap_or(0);
        let step = MAX_PIECE_LEN / unit * unit;
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

/// The properties of a piece, for [`DataFacts::add`].
#[derive(Clone, Copy, Debug)]
pub struct PieceFacts {
    tensor: usize,
    facts: Option<Facts>,
}

#[expect(clippy::len_without_is_empty, reason = "there are no empty pieces")]
impl DataPiece {
    /// Returns the file offset.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of the tensor, in the order of the file.
    pub fn tensor(&self) -> usize {
        self.tensor
    }

    /// Examines the bytes of the piece.
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
    /// Adds the properties of a piece, in any order.
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

    /// Adds the properties that were collected on another thread.
    pub fn merge(&mut self, other: Self) {
        for (tensor, facts) in other.tensors.into_iter().enumerate() {
            self.add(PieceFacts { tensor, facts });
        }
    }

    /// Returns the anomalies in the data of a tensor.
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
            of(|facts, _| (facts.largest > MAX_F16).then_some(Anomaly::TooLarge(facts.largest)));
        let zero = of(|facts, _| facts.is_zero.then_some(Anomaly::Zero));
        [not_finite, large, zero].into_iter().flatten()
    }
}

/// Converts F16 to F32.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) =
        (u32::from(bits >> 15) << 31, u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    match exponent {
        // Subnormals are multiples of 2^-24.
        0 => f32::from_bits(sign | (f32::from(bits & 0x3ff) * 2f32.powi(-24)).to_bits()),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// The bits of the magnitudes of floats of one width. They order like the magnitudes, with infinity and
/// NaN above all others. Signed, because every instruction set compares vectors of signed integers.
trait Magnitude: Copy + Ord + Default {
    /// Returns the greatest magnitude.
    fn greatest(bytes: &[u8]) -> Self;

    /// Returns the greatest magnitude below a limit, or 0, and the number of those not below it.
    fn greatest_below(bytes: &[u8], limit: Self) -> (Self, u64);

    /// Returns the byte offset of the first magnitude that is not below a limit.
    fn first_from(bytes: &[u8], limit: Self) -> Option<u64>;
}

macro_rules! impl_magnitude {
    ($($bits:ident)*) => {$(
        impl Magnitude for $bits {
            fn greatest(bytes: &[u8]) -> Self {
                magnitudes(bytes, $bits::from_le_bytes, $bits::MAX).fold(0, Ord::max)
            }

            fn greatest_below(bytes: &[u8], limit: Self) -> (Self, u64) {
                /// Bytes whose elements can be counted in an integer of the same width, so that
                /// counting vectorizes like comparing.
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

/// Returns the bits of numbers without their signs.
fn magnitudes<const W: usize, N: Copy + BitAnd<Output = N>>(
    bytes: &[u8],
    number: impl Fn([u8; W]) -> N,
    all_but_sign: N,
) -> impl Iterator<Item = N> {
    bytes.as_chunks::<W>().0.iter().map(move |&bytes| number(bytes) & all_but_sign)
}

/// Examines floats. One pass suffices for finite data; only if something is not finite, a second one
/// counts.
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

/// The class of a scale, in ascending order of its effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ScaleClass {
    Zero,
    Plain,
    Large,
    NotFinite,
}

/// Returns the class of a scale with these magnitude bits.
fn scale_class(scale: ScaleFormat, magnitude: u32) -> ScaleClass {
    // The smallest magnitude that is not finite, and the smallest that can make weights large.
    let (not_finite, large) = match scale {
        ScaleFormat::F16 | ScaleFormat::Spread => (0x7c00, PLAIN_SCALE.into()),
        ScaleFormat::F32 => (0x7f80_0000, 0x4100_0000),
        ScaleFormat::E8M0 => (0xff, PLAIN_EXPONENT.into()),
        // No finite scale is large.
        ScaleFormat::UE4M3 => (0x7f, 0x7f),
    };
    match magnitude {
        _ if magnitude >= not_finite => ScaleClass::NotFinite,
        _ if magnitude >= large => ScaleClass::Large,
        // A power of two is never zero; the weights decide.
        0 if scale != ScaleFormat::E8M0 => ScaleClass::Zero,
        _ => ScaleClass::Plain,
    }
}

/// Returns the greatest magnitude bits of the scales at one offset of each block. There is a loop for
/// each format, as most blocks need no more work than this.
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
    // Classes ascend with magnitudes, so the peak of all blocks has the worst class.
    let worst_of = |blocks: &[u8]| {
        let worst = scales()
            .map(|(start, scale)| scale_class(scale, peak(scale, blocks, size, start)))
            .max();
        worst.unwrap_or(ScaleClass::Plain)
    };
    let worst = worst_of(bytes);
    let exponents = scales().any(|(.., scale)| scale == ScaleFormat::E8M0);
    // Bytes of two 4-bit weights, without their sign bits.
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

/// Pieces that a thread examines in one batch.
#[cfg(feature = "examine")]
const BATCH: usize = 16;
/// Batches per thread between two reports of progress, at which threads wait for the slowest: about 0.1
/// seconds.
#[cfg(feature = "examine")]
const BATCHES_PER_REPORT: usize = 16;

/// Reads and examines the data of every tensor of a file, for
/// [`Input::with_data`](crate::Input::with_data).
///
/// `options` has the number of threads, which does not affect the result; memory is bounded. `progress`
/// receives the number of bytes read. Fails if reading fails, if the file changes meanwhile or an edit of
/// it was interrupted ([`ErrorKind::Changed`]), and if `progress` stops it.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, Model, Shape};
/// # let plan = Builder::new().tensor("w", GgmlType::F32, Shape::new(&[8])?).plan()?;
/// # let file = [plan.header(), &[0xff; 32]].concat();
/// use std::ops::ControlFlow;
/// use ggmill_check::{Input, Options, check, examine};
/// use ggmill_pipeline::RunOptions;
/// let model = Model::open_damaged(file)?;
/// let part = &model.parts()[0];
/// let facts = examine(part, &RunOptions::default(), &mut |_| ControlFlow::Continue(()))?;
/// let report = check(&Input::new(part).with_data(&facts), &Options::default());
/// assert!(report.counts().iter().any(|(rule, _)| rule.code == "GG2101"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "examine")]
pub fn examine(
    part: &Header<'_>,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<DataFacts> {
    part.verify()?;
    let pieces: Vec<DataPiece> = data_pieces(part).collect();
    if let Some(source) = part.source() {
        let ends = |piece: &DataPiece| piece.offset()..piece.offset() + piece.len() as u64;
        source.prefetch(&pieces.iter().map(ends).collect::<Vec<_>>());
    }
    let batches: Vec<&[DataPiece]> = pieces.chunks(BATCH).collect();
    let bytes = |pieces: &[DataPiece]| pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    let (mut done, total) = (0, bytes(&pieces));
    let workers = options.workers()?;
    let mut all = DataFacts::default();
    for window in batches.chunks(BATCHES_PER_REPORT * workers.threads()) {
        for facts in workers.map(window, |pieces| examine_pieces(part, pieces)) {
            all.merge(facts?);
        }
        done += window.iter().map(|pieces| bytes(pieces)).sum::<u64>();
        let last = window.last().and_then(|pieces| pieces.last());
        let name = last
            .and_then(|piece| part.tensors().nth(piece.tensor()))
            .map(|tensor| tensor.name().to_string())
            .unwrap_or_default();
        if progress(Progress::new(&name, done, total)).is_break() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
    }
    // If the file changed, the data may be a mixture of both versions.
    part.verify()?;
    Ok(all)
}

/// Reads and examines pieces one by one.
#[cfg(feature = "examine")]
fn examine_pieces(part: &Header<'_>, pieces: &[DataPiece]) -> Result<DataFacts> {
    let (mut facts, mut buffer) = (DataFacts::default(), Vec::new());
    for piece in pieces {
        buffer.resize(piece.len(), 0);
        part.read_at(piece.offset(), &mut buffer)?;
        facts.add(piece.examine(&buffer));
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers of all magnitudes up to the given one.
    fn waves(count: usize, magnitude: f32) -> Vec<f32> {
        (0..count)
            .map(|number| (f32::from(u16::try_from(number).unwrap()) * 0.7).sin() * magnitude)
            .collect()
    }

    fn piece(ggml_type: GgmlType, len: usize) -> DataPiece {
        DataPiece { tensor: 0, offset: 0, len, ggml_type, endian: Endian::Little }
    }

    fn facts(ggml_type: GgmlType, bytes: &[u8]) -> Facts {
        piece(ggml_type, bytes.len()).examine(bytes).facts.unwrap()
    }

    /// Returns encoded blocks of ordinary weights.
    fn good(ggml_type: GgmlType, blocks: usize) -> Vec<u8> {
        let layout = ggml_type.layout().unwrap();
        let elements = layout.elements as usize * blocks;
        let values = waves(elements, 0.0625);
        let mut bytes = vec![0; layout.bytes as usize * blocks];
        let weights = vec![1.0; elements];
        ggmill_quant::quantize(ggml_type, &values, elements, Some(&weights), &mut bytes).unwrap();
        bytes
    }

    fn decoded(ggml_type: GgmlType, bytes: &[u8]) -> Vec<f32> {
        let layout = ggml_type.layout().unwrap();
        let mut values = vec![0.0; bytes.len() / layout.bytes as usize * layout.elements as usize];
        ggmill_quant::dequantize(ggml_type, bytes, &mut values).unwrap();
        values
    }

    fn block_types() -> impl Iterator<Item = GgmlType> {
        GgmlType::all().filter(|&ggml_type| BlockDescription::of(ggml_type).is_some())
    }

    /// Returns scales that are NaN or infinite, as bytes of the field.
    fn bad_scales(scale: ScaleFormat) -> Vec<Vec<u8>> {
        match scale {
            ScaleFormat::F16 => vec![vec![0, 0x7e], vec![0, 0x7c], vec![0, 0xfc]],
            ScaleFormat::F32 => {
                vec![f32::NAN.to_le_bytes().to_vec(), f32::NEG_INFINITY.to_le_bytes().to_vec()]
            }
            ScaleFormat::E8M0 => vec![vec![255]],
            ScaleFormat::UE4M3 => vec![vec![0x38, 0x7f, 0x38, 0x38]],
            ScaleFormat::Spread => vec![vec![0, 0, 0, 0, 0, 0xe0, 0, 0x70]],
        }
    }

    #[test]
    fn every_bad_number_of_a_long_piece_is_counted() {
        let count = 100_000;
        for (ggml_type, bad, greatest) in [
            (GgmlType::F16, &[0, 0xfe][..], &[0xff, 0x7b][..]),
            (GgmlType::BF16, &[0x80, 0x7f], &[0x7f, 0xff]),
            (GgmlType::F32, &[0, 0, 0x80, 0xff], &[0xff, 0xff, 0x7f, 0x7f]),
            (
                GgmlType::F64,
                &[1, 0, 0, 0, 0, 0, 0xf0, 0x7f],
                &[0, 0, 0, 0xe0, 0xff, 0xff, 0xef, 0x47],
            ),
        ] {
            let width = bad.len();
            let mut bytes = vec![0; count * width];
            bytes[12 * width..13 * width].copy_from_slice(greatest);
            for number in bytes.chunks_exact_mut(width).skip(100) {
                number.copy_from_slice(bad);
            }
            let found = facts(ggml_type, &bytes);
            assert_eq!(found.bad, (count - 100) as u64, "{ggml_type}");
            assert_eq!(found.first, Some((100 * width) as u64), "{ggml_type}");
            let largest = if ggml_type == GgmlType::F16 { 65_504.0 } else { f32::MAX };
            assert!(found.largest >= largest * 0.99 && found.largest.is_finite(), "{ggml_type}");
            assert!(!found.is_zero, "{ggml_type}");
        }
    }

    #[test]
    fn good_blocks_of_every_type_are_good() {
        for ggml_type in block_types() {
            let found = facts(ggml_type, &good(ggml_type, 5));
            assert_eq!((found.bad, found.first, found.is_zero), (0, None, false), "{ggml_type}");
            assert!(found.largest < 1.0, "{ggml_type}");
        }
    }

    #[test]
    fn a_bad_scale_of_every_type_is_located() {
        for ggml_type in block_types() {
            let size = ggml_type.layout().unwrap().bytes as usize;
            for field in BlockDescription::of(ggml_type).unwrap().fields {
                for bad in field.scale.map(bad_scales).unwrap_or_default() {
                    let mut bytes = good(ggml_type, 5);
                    let at = 3 * size + field.start as usize;
                    bytes[at..at + bad.len()].copy_from_slice(&bad);
                    let found = facts(ggml_type, &bytes);
                    assert_eq!(
                        (found.bad, found.first),
                        (1, Some(3 * size as u64)),
                        "{ggml_type}: {}",
                        field.name
                    );
                    // The sum in Q8_1 is not used in decoding; the reference decodes the two others as
                    // numbers.
                    let silent = field.name == "s"
                        || matches!(field.scale, Some(ScaleFormat::E8M0 | ScaleFormat::UE4M3));
                    assert!(
                        silent
                            || decoded(ggml_type, &bytes).iter().any(|weight| !weight.is_finite()),
                        "{ggml_type}: {}",
                        field.name
                    );
                }
            }
        }
    }

    #[test]
    fn all_zeros_are_found_in_every_type() {
        for ggml_type in block_types() {
            let mut bytes = good(ggml_type, 5);
            let size = ggml_type.layout().unwrap().bytes as usize;
            for block_of in bytes.chunks_exact_mut(size) {
                for field in BlockDescription::of(ggml_type).unwrap().fields {
                    let scale_bytes =
                        &mut block_of[field.start as usize..(field.start + field.bytes) as usize];
                    match field.scale {
                        Some(ScaleFormat::Spread) => {
                            scale_bytes
                                .iter_mut()
                                .skip(1)
                                .step_by(2)
                                .for_each(|byte| *byte &= 0x0f);
                        }
                        Some(ScaleFormat::E8M0) => {}
                        Some(_) => scale_bytes.fill(0),
                        None if ggml_type == GgmlType::MXFP4 => scale_bytes.fill(0x80),
                        None => {}
                    }
                }
            }
            assert!(facts(ggml_type, &bytes).is_zero, "{ggml_type}");
            assert!(
                decoded(ggml_type, &bytes).iter().all(|weight| weight.abs() == 0.0),
                "{ggml_type}"
            );
            // One nonzero block is enough.
            let last = bytes.len() - size;
            bytes[last..].copy_from_slice(&good(ggml_type, 1));
            assert!(!facts(ggml_type, &bytes).is_zero, "{ggml_type}");
        }
    }

    #[test]
    fn only_weights_beyond_f16_are_reported() {
        for ggml_type in block_types().filter(|&ggml_type| ggml_type != GgmlType::NVFP4) {
            let elements = ggml_type.layout().unwrap().elements as usize;
            for (magnitude, beyond) in [(1e3, false), (3e5, true)] {
                let values = waves(elements, magnitude);
                let mut bytes = vec![0; ggml_type.layout().unwrap().bytes as usize];
                ggmill_quant::quantize(
                    ggml_type,
                    &values,
                    elements,
                    Some(&vec![1.0; elements]),
                    &mut bytes,
                )
                .unwrap();
                let truth = decoded(ggml_type, &bytes)
                    .into_iter()
                    .fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
                // Types with an F16 scale and no multiplier cannot exceed it.
                if truth.is_finite() && beyond == (truth > MAX_F16) {
                    // The sum in Q8_1 is infinite then.
                    let found = facts(ggml_type, &bytes);
                    assert_eq!(
                        found.largest > MAX_F16 || found.bad > 0,
                        beyond,
                        "{ggml_type}: {truth}"
                    );
                }
            }
        }
    }

    #[test]
    fn floats_of_every_width() {
        let halves =
            |values: &[u16]| values.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<u8>>();
        let found = facts(GgmlType::F16, &halves(&[0x3c00, 0x7c00, 0xfbff, 0xfe01]));
        assert_eq!((found.bad, found.first, found.largest), (2, Some(2), MAX_F16));
        let found = facts(GgmlType::BF16, &halves(&[0x3f80, 0x7f7f, 0xff80]));
        assert_eq!((found.bad, found.first), (1, Some(4)));
        assert!(found.largest > 1e38);
        let found = facts(GgmlType::F32, &[1.0f32, -7e4, 3.0].map(f32::to_le_bytes).concat());
        assert_eq!((found.bad, found.largest, found.is_zero), (0, 7e4, false));
        let found = facts(GgmlType::F64, &[1.0f64, f64::NAN, -3.5].map(f64::to_le_bytes).concat());
        assert_eq!((found.bad, found.first, found.largest), (1, Some(8), 3.5));
        assert!(facts(GgmlType::F32, &[0, 0, 0, 0x80, 0, 0, 0, 0]).is_zero);
        for bits in 0..=u16::MAX {
            let value = decoded(GgmlType::F16, &bits.to_le_bytes())[0];
            assert!(
                value.to_bits() == half(bits).to_bits() || value.is_nan() && half(bits).is_nan(),
                "{bits:#x}"
            );
        }
    }

    #[test]
    fn pieces_merge_in_any_order_and_byte_order_is_respected() {
        let numbers = [1.0f32, f32::INFINITY, 2.0, f32::NAN];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        let half = |offset: usize| {
            DataPiece {
                offset: 100 + offset as u64,
                endian: Endian::Big,
                ..piece(GgmlType::F32, 8)
            }
            .examine(&bytes[offset..offset + 8])
        };
        let mut found = DataFacts::default();
        found.add(half(8));
        found.add(half(0));
        let anomalies: Vec<_> = found.anomalies(0, GgmlType::F32).collect();
        assert_eq!(anomalies, [Anomaly::NotFinite { count: 2, first: 104, in_blocks: false }]);
    }
}
