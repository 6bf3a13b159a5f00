//! The codec of a type: lengths and values are checked here, once, so that the block code need not.

#![allow(
    clippy::inline_always,
    reason = "work has to be inlined into the function that is compiled for its instructions"
)]

use core::fmt::{self, Debug};
use core::marker::PhantomData;

use ggmill_core::GgmlType;

use crate::arch::Pair;
use crate::block::{Decode, Encode, float, fp4, integer, iq, iq4, k, legacy, ternary, tiny};
use crate::error::{Detail, Error, Result};
use crate::isa::{Direction, Isa, Kind};
use crate::lanes::{Floats, Lanes, Mask, Work};

use self::sealed::Sealed;

/// Calls a generic function with the format of a type and the numbers of elements and bytes in its
/// blocks: the first function for a type that is read and written, the second for one that is only
/// read.
macro_rules! for_type {
    ($ggml_type:expr, $both:ident $both_args:tt, $read_only:ident $read_only_args:tt) => {
        match $ggml_type {
            GgmlType::F32 => Ok($both::<float::F32, 1, 4> $both_args),
            GgmlType::F16 => Ok($both::<float::F16, 1, 2> $both_args),
            GgmlType::BF16 => Ok($both::<float::BF16, 1, 2> $both_args),
            GgmlType::F64 => Ok($both::<float::F64, 1, 8> $both_args),
            GgmlType::I8 => Ok($read_only::<integer::I8, 1, 1> $read_only_args),
            GgmlType::I16 => Ok($read_only::<integer::I16, 1, 2> $read_only_args),
            GgmlType::I32 => Ok($read_only::<integer::I32, 1, 4> $read_only_args),
            GgmlType::I64 => Ok($read_only::<integer::I64, 1, 8> $read_only_args),
            GgmlType::Q4_0 => Ok($both::<legacy::Q4_0, 32, 18> $both_args),
            GgmlType::Q4_1 => Ok($both::<legacy::Q4_1, 32, 20> $both_args),
            GgmlType::Q5_0 => Ok($both::<legacy::Q5_0, 32, 22> $both_args),
            GgmlType::Q5_1 => Ok($both::<legacy::Q5_1, 32, 24> $both_args),
            GgmlType::Q8_0 => Ok($both::<legacy::Q8_0, 32, 34> $both_args),
            GgmlType::Q8_1 => Ok($both::<legacy::Q8_1, 32, 36> $both_args),
            GgmlType::Q2_K => Ok($both::<k::Q2_K, 256, 84> $both_args),
            GgmlType::Q3_K => Ok($both::<k::Q3_K, 256, 110> $both_args),
            GgmlType::Q4_K => Ok($both::<k::Q4_K, 256, 144> $both_args),
            GgmlType::Q5_K => Ok($both::<k::Q5_K, 256, 176> $both_args),
            GgmlType::Q6_K => Ok($both::<k::Q6_K, 256, 210> $both_args),
            GgmlType::Q8_K => Ok($both::<k::Q8_K, 256, 292> $both_args),
            GgmlType::IQ1_S => Ok($both::<iq::IQ1_S, 256, 50> $both_args),
            GgmlType::IQ1_M => Ok($both::<iq::IQ1_M, 256, 56> $both_args),
            GgmlType::IQ2_XXS => Ok($both::<iq::IQ2_XXS, 256, 66> $both_args),
            GgmlType::IQ2_XS => Ok($both::<iq::IQ2_XS, 256, 74> $both_args),
            GgmlType::IQ2_S => Ok($both::<iq::IQ2_S, 256, 82> $both_args),
            GgmlType::IQ3_XXS => Ok($both::<iq::IQ3_XXS, 256, 98> $both_args),
            GgmlType::IQ3_S => Ok($both::<iq::IQ3_S, 256, 110> $both_args),
            GgmlType::IQ4_NL => Ok($both::<iq4::IQ4_NL, 32, 18> $both_args),
            GgmlType::IQ4_XS => Ok($both::<iq4::IQ4_XS, 256, 136> $both_args),
            GgmlType::TQ1_0 => Ok($both::<ternary::TQ1_0, 256, 54> $both_args),
            GgmlType::TQ2_0 => Ok($both::<ternary::TQ2_0, 256, 66> $both_args),
            GgmlType::MXFP4 => Ok($both::<fp4::MXFP4, 32, 17> $both_args),
            GgmlType::NVFP4 => Ok($both::<fp4::NVFP4, 64, 36> $both_args),
            GgmlType::Q1_0 => Ok($both::<tiny::Q1_0, 128, 18> $both_args),
            GgmlType::Q2_0 => Ok($both::<tiny::Q2_0, 64, 18> $both_args),
            other if other.is_retired() => Err(Error::new(Detail::Retired { ggml_type: other })),
            other => Err(Error::new(Detail::Unknown { ggml_type: other })),
        }
    };
}

/// Turns blocks of one type into values and back. Obtained from [`codec`]; not for other crates to
/// implement.
pub trait BlockCodec: Sealed + Sync + Debug {
    /// The type whose blocks these are.
    fn ggml_type(&self) -> GgmlType;

    /// Whether [`quantize`](Self::quantize) refuses to do without importance weights.
    fn needs_weights(&self) -> bool;

    /// Turns blocks into values. Any bytes give values; some give infinities or NaN.
    ///
    /// Fails when the bytes are not whole blocks or `out` has not exactly their number of elements.
    fn dequantize(&self, blocks: &[u8], out: &mut [f32]) -> Result<()>;

    /// Turns whole rows of `row_len` values into blocks.
    ///
    /// `weights` says how much each column matters (one row of them, applied to every row); types
    /// that have no use for it ignore it. Fails before anything is written: when the slices do
    /// not fit each other, when the type is an integer type, when it [needs
    /// weights](Self::needs_weights) and there are none, or, for every type but the plain floats,
    /// when a value or a weight is infinite or not a number.
    fn quantize(
        &self,
        values: &[f32],
        row_len: usize,
        weights: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()>;

    /// Whether blocks hold the values that [`quantize`](Self::quantize) made them of.
    ///
    /// Every finite value has its bytes, the reference's; where a block cannot hold it, they mean
    /// something else. This fails with [`OutOfRange`](crate::ErrorKind::OutOfRange) and the
    /// place of the first such value: one that reads back infinite or as NaN (half precision, which
    /// most scales have, ends at 65504), so large that sums overflow on the way to a scale and
    /// zeros are stored, beyond 2688 in NVFP4, or in a block of MXFP4 whose magnitudes are all
    /// below 2⁻¹²⁵, where the exponent wraps around. Other values so small that they become zeros
    /// are held. Fails also when the lengths do not fit and when the type is an integer type.
    ///
    /// ```
    /// use ggmill_core::GgmlType;
    /// use ggmill_quant::{ErrorKind, codec};
    /// let codec = codec(GgmlType::NVFP4)?;
    /// let (mut values, mut block) = ([0.5; 64], [0; 36]);
    /// values[7] = 1e6;
    /// codec.quantize(&values, 64, None, &mut block)?;
    /// let error = codec.check_range(&values, 64, &block).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::OutOfRange { row: 0, column: 7 });
    /// # Ok::<(), ggmill_quant::Error>(())
    /// ```
    fn check_range(&self, values: &[f32], row_len: usize, blocks: &[u8]) -> Result<()>;
}

/// The codec of a type, or an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) for a
/// type that is retired or unknown.
///
/// ```
/// use ggmill_core::GgmlType;
/// let codec = ggmill_quant::codec(GgmlType::F16)?;
/// let mut values = [0.0; 2];
/// codec.dequantize(&[0x00, 0x3c, 0x00, 0xc0], &mut values)?;
/// assert_eq!(values, [1.0, -2.0]);
/// # Ok::<(), ggmill_quant::Error>(())
/// ```
pub fn codec(ggml_type: GgmlType) -> Result<&'static dyn BlockCodec> {
    codec_with(ggml_type, Isa::best())
}

/// The codec of a type that uses certain instructions, and no others. It gives the same as
/// [`codec`], at another speed; fails as that does.
pub fn codec_with(ggml_type: GgmlType, isa: Isa) -> Result<&'static dyn BlockCodec> {
    let isa = isa.kind();
    for_type!(ggml_type, both(isa), read_only(isa))
}

/// Turns whole blocks of a type into values. It does not go through [`codec`], so a program that only
/// decodes is linked without the encoders, which are most of this crate.
pub(crate) fn dequantize_type(ggml_type: GgmlType, blocks: &[u8], out: &mut [f32]) -> Result<()> {
    let isa = Isa::best().kind();
    for_type!(ggml_type, dequantize(isa, blocks, out), dequantize(isa, blocks, out))?
}

/// One value for each instruction set, so that a codec is a reference to something that is always
/// there.
macro_rules! with_isa {
    ($isa:ident, $codec:ident) => {
        match $isa {
            Kind::Scalar => &$codec::<T, N, B>(Kind::Scalar, PhantomData),
            Kind::Portable => &$codec::<T, N, B>(Kind::Portable, PhantomData),
            Kind::Simd128 => &$codec::<T, N, B>(Kind::Simd128, PhantomData),
            Kind::Neon => &$codec::<T, N, B>(Kind::Neon, PhantomData),
            Kind::Sse2 => &$codec::<T, N, B>(Kind::Sse2, PhantomData),
            Kind::Avx2 => &$codec::<T, N, B>(Kind::Avx2, PhantomData),
            Kind::Avx512 => &$codec::<T, N, B>(Kind::Avx512, PhantomData),
        }
    };
}

fn both<T: Encode<N, B>, const N: usize, const B: usize>(isa: Kind) -> &'static dyn BlockCodec {
    with_isa!(isa, Both)
}

fn read_only<T: Decode<N, B>, const N: usize, const B: usize>(
    isa: Kind,
) -> &'static dyn BlockCodec {
    with_isa!(isa, ReadOnly)
}

mod sealed {
    /// Keeps [`BlockCodec`](super::BlockCodec) to this crate.
    #[expect(unnameable_types, reason = "so that other crates cannot implement it")]
    pub trait Sealed {}
}

/// A type that is read and written.
struct Both<T, const N: usize, const B: usize>(Kind, PhantomData<T>);

/// A type that is only read.
struct ReadOnly<T, const N: usize, const B: usize>(Kind, PhantomData<T>);

/// Reading all blocks.
struct Reading<'a, T, const N: usize, const B: usize> {
    blocks: &'a [[u8; B]],
    out: &'a mut [[f32; N]],
    format: PhantomData<T>,
}

impl<T: Decode<N, B>, const N: usize, const B: usize> Work for Reading<'_, T, N, B> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        T::decode_many(lanes, self.blocks, self.out);
    }
}

/// Writing all blocks, or those of a row with what each of its columns matters.
struct Writing<'a, T, const N: usize, const B: usize> {
    values: &'a [[f32; N]],
    weights: Option<(&'a [[f32; N]], f32)>,
    out: &'a mut [[u8; B]],
    format: PhantomData<T>,
}

impl<T: Encode<N, B>, const N: usize, const B: usize> Work for Writing<'_, T, N, B> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        T::encode_all(lanes, self.values, self.weights, self.out);
    }
}

impl<T: Encode<N, B>, const N: usize, const B: usize> Writing<'_, T, N, B> {
    fn with(self, isa: Kind) {
        let direction =
            if self.weights.is_none() { Direction::Write } else { Direction::WriteWeighted };
        if let Err(Self { values, weights, out, .. }) = isa.for_work(T::TYPE, direction).run(self) {
            match weights {
                None => values.iter().zip(out).for_each(|(values, block)| T::encode(values, block)),
                Some((weights, row_spread)) => {
                    for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                        T::encode_weighted(values, weights, row_spread, block);
                    }
                }
            }
        }
    }
}

impl<T, const N: usize, const B: usize> Sealed for Both<T, N, B> {}

impl<T: Encode<N, B>, const N: usize, const B: usize> BlockCodec for Both<T, N, B> {
    fn ggml_type(&self) -> GgmlType {
        T::TYPE
    }

    fn needs_weights(&self) -> bool {
        T::NEEDS_WEIGHTS
    }

    fn dequantize(&self, blocks: &[u8], out: &mut [f32]) -> Result<()> {
        dequantize::<T, N, B>(self.0, blocks, out)
    }

    fn quantize(
        &self,
        values: &[f32],
        row_len: usize,
        weights: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        check_lengths::<N, B>(T::TYPE, values, row_len, weights, out)?;
        if T::NEEDS_WEIGHTS && weights.is_none() {
            return Err(Error::new(Detail::NeedsWeights { ggml_type: T::TYPE }));
        }
        if N > 1 {
            check_finite(self.0, values, row_len, weights)?;
        }
        let (out, _) = out.as_chunks_mut::<B>();
        let Some(weights) = weights else {
            let (values, _) = values.as_chunks::<N>();
            Writing::<T, N, B> { values, weights: None, out, format: PhantomData }.with(self.0);
            return Ok(());
        };
        if row_len == 0 {
            return Ok(());
        }
        let (weights, _) = weights.as_chunks::<N>();
        for (row, out) in values.chunks_exact(row_len).zip(out.chunks_exact_mut(row_len / N)) {
            let spread = T::row_spread(row);
            let (values, _) = row.as_chunks::<N>();
            Writing::<T, N, B> {
                values,
                weights: Some((weights, spread)),
                out,
                format: PhantomData,
            }
            .with(self.0);
        }
        Ok(())
    }

    fn check_range(&self, values: &[f32], row_len: usize, blocks: &[u8]) -> Result<()> {
        check_lengths::<N, B>(T::TYPE, values, row_len, None, blocks)?;
        let ((groups, _), (blocks, _)) = (values.as_chunks::<N>(), blocks.as_chunks::<B>());
        let Some(place) = T::first_out_of_range(groups, blocks) else { return Ok(()) };
        Err(Error::new(Detail::OutOfRange {
            ggml_type: T::TYPE,
            row: place / row_len,
            column: place % row_len,
            value: values[place],
        }))
    }
}

impl<T, const N: usize, const B: usize> Sealed for ReadOnly<T, N, B> {}

impl<T: Decode<N, B>, const N: usize, const B: usize> BlockCodec for ReadOnly<T, N, B> {
    fn ggml_type(&self) -> GgmlType {
        T::TYPE
    }

    fn needs_weights(&self) -> bool {
        false
    }

    fn dequantize(&self, blocks: &[u8], out: &mut [f32]) -> Result<()> {
        dequantize::<T, N, B>(self.0, blocks, out)
    }

    fn quantize(&self, _: &[f32], _: usize, _: Option<&[f32]>, _: &mut [u8]) -> Result<()> {
        Err(Error::new(Detail::ReadOnly { ggml_type: T::TYPE }))
    }

    fn check_range(&self, _: &[f32], _: usize, _: &[u8]) -> Result<()> {
        Err(Error::new(Detail::ReadOnly { ggml_type: T::TYPE }))
    }
}

impl<T: Encode<N, B>, const N: usize, const B: usize> Debug for Both<T, N, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codec of {}", T::TYPE)
    }
}

impl<T: Decode<N, B>, const N: usize, const B: usize> Debug for ReadOnly<T, N, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codec of {}, decoding only", T::TYPE)
    }
}

fn dequantize<T: Decode<N, B>, const N: usize, const B: usize>(
    isa: Kind,
    blocks: &[u8],
    out: &mut [f32],
) -> Result<()> {
    let (blocks, rest) = blocks.as_chunks::<B>();
    if !rest.is_empty() {
        let found = blocks.len() * B + rest.len();
        return Err(Error::new(Detail::NotBlocks {
            ggml_type: T::TYPE,
            what: "bytes",
            found,
            unit: B,
        }));
    }
    let found = out.len();
    let (out, rest) = out.as_chunks_mut::<N>();
    if !rest.is_empty() || out.len() != blocks.len() {
        return Err(Error::new(Detail::Length {
            what: "elements of room",
            found,
            expected: blocks.len().saturating_mul(N),
        }));
    }
    let reading = Reading::<T, N, B> { blocks, out, format: PhantomData };
    if let Err(Reading { blocks, out, .. }) = isa.for_work(T::TYPE, Direction::Read).run(reading) {
        blocks.iter().zip(out).for_each(|(block, out)| T::decode(block, out));
    }
    Ok(())
}

fn check_lengths<const N: usize, const B: usize>(
    ggml_type: GgmlType,
    values: &[f32],
    row_len: usize,
    weights: Option<&[f32]>,
    out: &[u8],
) -> Result<()> {
    if !row_len.is_multiple_of(N) {
        return Err(Error::new(Detail::NotBlocks {
            ggml_type,
            what: "values in a row",
            found: row_len,
            unit: N,
        }));
    }
    // `0.is_multiple_of(0)` holds: no rows of no values are fine, some values in rows of none are
    // not.
    if !values.len().is_multiple_of(row_len) {
        return Err(Error::new(Detail::NotRows { found: values.len(), row_len }));
    }
    if let Some(weights) = weights
        && weights.len() != row_len
    {
        return Err(Error::new(Detail::Length {
            what: "importance weights",
            found: weights.len(),
            expected: row_len,
        }));
    }
    let expected = (values.len() / N).saturating_mul(B);
    if out.len() != expected {
        return Err(Error::new(Detail::Length {
            what: "bytes of room",
            found: out.len(),
            expected,
        }));
    }
    Ok(())
}

/// Whether all of some values are finite.
struct Finite<'a> {
    values: &'a [f32],
    all: &'a mut bool,
}

impl Work for Finite<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let lanes = Pair(lanes);
        let (zero, infinity) = (lanes.splat(0.0), lanes.splat(f32::INFINITY));
        let mut all = zero.lt(infinity);
        let chunks = self.values.chunks_exact(2 * L::WIDTH);
        let rest = chunks.remainder();
        for values in chunks {
            all = all.and(lanes.load(values).abs().lt(infinity));
        }
        *self.all = all.all() && rest.iter().all(|value| value.is_finite());
    }
}

fn check_finite(isa: Kind, values: &[f32], row_len: usize, weights: Option<&[f32]>) -> Result<()> {
    let mut all = false;
    let unknown = isa.run(Finite { values, all: &mut all }).is_err();
    if (unknown || !all)
        && let Some((place, value)) = first_non_finite(values)
    {
        return Err(Error::new(Detail::NonFinite {
            row: place / row_len,
            column: place % row_len,
            value,
        }));
    }
    if let Some((column, value)) = weights.and_then(first_non_finite) {
        return Err(Error::new(Detail::NonFiniteWeight { column, value }));
    }
    Ok(())
}

fn first_non_finite(values: &[f32]) -> Option<(usize, f32)> {
    const STRIDE: usize = 256;
    // A test without a branch per value is several times faster; which value it was is asked only
    // once there is one.
    for (index, chunk) in values.chunks(STRIDE).enumerate() {
        if !chunk.iter().fold(true, |all, value| all & value.is_finite()) {
            let within = chunk.iter().position(|value| !value.is_finite())?;
            return Some((index * STRIDE + within, chunk[within]));
        }
    }
    None
}
