//! The codec of a type. It checks lengths and values once, so that the block formats need not.

#![allow(
    clippy::inline_always,
    reason = "vector code is fast only when inlined into the function compiled for its instructions"
)]

use core::fmt::{self, Debug};
use core::marker::PhantomData;

use ggmill_core::{GgmlType, Model, Tensor};

use crate::arch::Pair;
use crate::block::{Decode, Encode, fp4, iq, iq4, k, legacy, low_bit, plain};
use crate::error::{Detail, Error, Result};
use crate::isa::{Direction, Isa, Kind};
use crate::lanes::{Floats, Lanes, Mask, Work};

use self::sealed::Sealed;

/// Calls a generic function with the format of a type and the number of elements and bytes of its
/// blocks: the first function for a type that can be encoded, the second for a decode-only type.
macro_rules! for_type {
    ($ggml_type:expr, $read_write:ident $both_args:tt, $read_only:ident $read_only_args:tt) => {
        match $ggml_type {
            GgmlType::F32 => Ok($read_write::<plain::F32, 1, 4> $both_args),
            GgmlType::F16 => Ok($read_write::<plain::F16, 1, 2> $both_args),
            GgmlType::BF16 => Ok($read_write::<plain::BF16, 1, 2> $both_args),
            GgmlType::F64 => Ok($read_write::<plain::F64, 1, 8> $both_args),
            GgmlType::I8 => Ok($read_only::<plain::I8, 1, 1> $read_only_args),
            GgmlType::I16 => Ok($read_only::<plain::I16, 1, 2> $read_only_args),
            GgmlType::I32 => Ok($read_only::<plain::I32, 1, 4> $read_only_args),
            GgmlType::I64 => Ok($read_only::<plain::I64, 1, 8> $read_only_args),
            GgmlType::Q4_0 => Ok($read_write::<legacy::Q4_0, 32, 18> $both_args),
            GgmlType::Q4_1 => Ok($read_write::<legacy::Q4_1, 32, 20> $both_args),
            GgmlType::Q5_0 => Ok($read_write::<legacy::Q5_0, 32, 22> $both_args),
            GgmlType::Q5_1 => Ok($read_write::<legacy::Q5_1, 32, 24> $both_args),
            GgmlType::Q8_0 => Ok($read_write::<legacy::Q8_0, 32, 34> $both_args),
            GgmlType::Q8_1 => Ok($read_write::<legacy::Q8_1, 32, 36> $both_args),
            GgmlType::Q2_K => Ok($read_write::<k::Q2_K, 256, 84> $both_args),
            GgmlType::Q3_K => Ok($read_write::<k::Q3_K, 256, 110> $both_args),
            GgmlType::Q4_K => Ok($read_write::<k::Q4_K, 256, 144> $both_args),
            GgmlType::Q5_K => Ok($read_write::<k::Q5_K, 256, 176> $both_args),
            GgmlType::Q6_K => Ok($read_write::<k::Q6_K, 256, 210> $both_args),
            GgmlType::Q8_K => Ok($read_write::<k::Q8_K, 256, 292> $both_args),
            GgmlType::IQ1_S => Ok($read_write::<iq::IQ1_S, 256, 50> $both_args),
            GgmlType::IQ1_M => Ok($read_write::<iq::IQ1_M, 256, 56> $both_args),
            GgmlType::IQ2_XXS => Ok($read_write::<iq::IQ2_XXS, 256, 66> $both_args),
            GgmlType::IQ2_XS => Ok($read_write::<iq::IQ2_XS, 256, 74> $both_args),
            GgmlType::IQ2_S => Ok($read_write::<iq::IQ2_S, 256, 82> $both_args),
            GgmlType::IQ3_XXS => Ok($read_write::<iq::IQ3_XXS, 256, 98> $both_args),
            GgmlType::IQ3_S => Ok($read_write::<iq::IQ3_S, 256, 110> $both_args),
            GgmlType::IQ4_NL => Ok($read_write::<iq4::IQ4_NL, 32, 18> $both_args),
            GgmlType::IQ4_XS => Ok($read_write::<iq4::IQ4_XS, 256, 136> $both_args),
            GgmlType::TQ1_0 => Ok($read_write::<low_bit::TQ1_0, 256, 54> $both_args),
            GgmlType::TQ2_0 => Ok($read_write::<low_bit::TQ2_0, 256, 66> $both_args),
            GgmlType::MXFP4 => Ok($read_write::<fp4::MXFP4, 32, 17> $both_args),
            GgmlType::NVFP4 => Ok($read_write::<fp4::NVFP4, 64, 36> $both_args),
            GgmlType::Q1_0 => Ok($read_write::<low_bit::Q1_0, 128, 18> $both_args),
            GgmlType::Q2_0 => Ok($read_write::<low_bit::Q2_0, 64, 18> $both_args),
            other if other.is_retired() => Err(Error::new(Detail::Retired { ggml_type: other })),
            other => Err(Error::new(Detail::Unknown { ggml_type: other })),
        }
    };
}

/// Decodes and encodes blocks of one type. Obtained from [`codec`]; sealed.
pub trait BlockCodec: Sealed + Sync + Debug {
    /// Returns the type of the blocks.
    fn ggml_type(&self) -> GgmlType;

    /// Returns `true` if [`quantize`](Self::quantize) requires importance weights.
    fn needs_weights(&self) -> bool;

    /// Decodes blocks. Any bytes decode to values, possibly infinities or NaN.
    ///
    /// # Errors
    ///
    /// If `blocks` is not a whole number of blocks, or the length of `out` is not their number of
    /// elements.
    fn dequantize(&self, blocks: &[u8], out: &mut [f32]) -> Result<()>;

    /// Encodes whole rows of `row_len` values.
    ///
    /// `weights` is the importance of each column, one row that applies to every row. Types that do
    /// not use importance ignore it.
    ///
    /// # Errors
    ///
    /// If the lengths of the slices do not match, the type is an integer type, it [needs
    /// weights](Self::needs_weights) and there are none, or, for all but the plain float types, a
    /// value or a weight is infinite or NaN. On error nothing has been written.
    fn quantize(
        &self,
        values: &[f32],
        row_len: usize,
        weights: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()>;

    /// Checks that the values which [`quantize`](Self::quantize) encoded as `blocks` were within
    /// the range of the type.
    ///
    /// As in the reference, finite values outside the range are encoded too, and decode to other
    /// values. Out of range are:
    ///
    /// - a value that decodes to an infinity or NaN, because most scales are half precision, at most
    ///   65504,
    /// - a value so large that sums overflow in the search for a scale, and zeros are stored,
    /// - in NVFP4, a magnitude above 2688,
    /// - in MXFP4, a block whose magnitudes are all below 2⁻¹²⁵, where the exponent wraps around.
    ///
    /// Rounding a small value to zero is not an error.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) with the position of the first such value. Also
    /// if the lengths do not match or the type is an integer type.
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

/// Returns the codec of a type, with the best available instruction set.
///
/// # Errors
///
/// [`Unsupported`](crate::ErrorKind::Unsupported) if the type is retired or unknown.
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

/// Returns the codec of a type that uses the instruction set `isa`. Its output equals that of
/// [`codec`], and so do its errors.
pub fn codec_with(ggml_type: GgmlType, isa: Isa) -> Result<&'static dyn BlockCodec> {
    let isa = isa.kind();
    for_type!(ggml_type, read_write(isa), read_only(isa))
}

/// Decodes whole blocks of a type. It does not use [`codec`], so a program that only decodes is
/// linked without the encoders, which are most of this crate.
pub(crate) fn dequantize_type(ggml_type: GgmlType, blocks: &[u8], out: &mut [f32]) -> Result<()> {
    let isa = Isa::best().kind();
    for_type!(ggml_type, dequantize(isa, blocks, out), dequantize(isa, blocks, out))?
}

/// The approximate number of bytes of a tensor that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Reads and decodes a tensor of any type that has a codec, in either byte order.
///
/// # Errors
///
/// If the tensor cannot be read, does not fit into memory, or its type has no codec.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, Shape};
/// # let plan = Builder::new().tensor("output_norm.weight", GgmlType::F32, Shape::new(&[2])?).plan()?;
/// # let mut file = plan.header().to_vec();
/// # file.extend([0, 0, 128, 63, 0, 0, 0, 64].iter().chain(&[0; 24]));
/// let model = ggmill_core::Model::open(file)?;
/// let norm = model.tensor("output_norm.weight")?;
/// assert_eq!(ggmill_quant::read_f32(&model, &norm)?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_f32(model: &Model, tensor: &Tensor<'_>) -> Result<Vec<f32>> {
    let codec = codec(tensor.ggml_type())?;
    let elements = tensor.shape().elements();
    let too_large = || Error::new(Detail::Memory { elements });
    let (Some(size), Some(layout)) = (tensor.size(), tensor.ggml_type().layout()) else {
        return Err(Error::new(Detail::Unknown { ggml_type: tensor.ggml_type() }));
    };
    let (block_len, block_size) = (u64::from(layout.elements), u64::from(layout.bytes));
    // Read the last byte first: a header that promises more than the file has must not allocate.
    if size > 0 {
        model.read_raw(tensor, size - 1, &mut [0])?;
    }
    let mut values = Vec::new();
    values
        .try_reserve_exact(usize::try_from(elements).map_err(|_| too_large())?)
        .map_err(|_| too_large())?;
    let chunk = (CHUNK_BYTES / block_size).max(1) * block_size;
    let mut blocks = Vec::new();
    let mut offset = 0;
    while offset < size {
        let len = chunk.min(size - offset);
        blocks.resize(usize::try_from(len).map_err(|_| too_large())?, 0);
        model.read(tensor, offset, &mut blocks)?;
        let start = values.len();
        values.resize(
            start + usize::try_from(len / block_size * block_len).map_err(|_| too_large())?,
            0.0,
        );
        codec.dequantize(&blocks, &mut values[start..])?;
        offset += len;
    }
    Ok(values)
}

/// Selects one of a static codec per instruction set, so that codecs are `&'static`.
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

fn read_write<T: Encode<N, B>, const N: usize, const B: usize>(
    isa: Kind,
) -> &'static dyn BlockCodec {
    with_isa!(isa, ReadWrite)
}

fn read_only<T: Decode<N, B>, const N: usize, const B: usize>(
    isa: Kind,
) -> &'static dyn BlockCodec {
    with_isa!(isa, ReadOnly)
}

mod sealed {
    /// Keeps [`BlockCodec`](super::BlockCodec) to this crate.
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait Sealed {}
}

/// The codec of a type that is decoded and encoded.
struct ReadWrite<T, const N: usize, const B: usize>(Kind, PhantomData<T>);

/// The codec of a type that is only decoded.
struct ReadOnly<T, const N: usize, const B: usize>(Kind, PhantomData<T>);

/// Decodes all blocks.
struct Decoding<'a, T, const N: usize, const B: usize> {
    blocks: &'a [[u8; B]],
    out: &'a mut [[f32; N]],
    format: PhantomData<T>,
}

impl<T: Decode<N, B>, const N: usize, const B: usize> Work for Decoding<'_, T, N, B> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        T::decode_many(lanes, self.blocks, self.out);
    }
}

/// Encodes all blocks, or those of one row with importance weights and the σ² of the row.
struct Encoding<'a, T, const N: usize, const B: usize> {
    values: &'a [[f32; N]],
    weights: Option<(&'a [[f32; N]], f32)>,
    out: &'a mut [[u8; B]],
    format: PhantomData<T>,
}

impl<T: Encode<N, B>, const N: usize, const B: usize> Work for Encoding<'_, T, N, B> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        T::encode_all(lanes, self.values, self.weights, self.out);
    }
}

impl<T: Encode<N, B>, const N: usize, const B: usize> Encoding<'_, T, N, B> {
    fn run_with(self, isa: Kind) {
        let direction =
            if self.weights.is_none() { Direction::Write } else { Direction::WriteWeighted };
        if let Err(Self { values, weights, out, .. }) = isa.for_work(T::TYPE, direction).run(self) {
            match weights {
                None => values.iter().zip(out).for_each(|(values, block)| T::encode(values, block)),
                Some((weights, row_sigma2)) => {
                    for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                        T::encode_weighted(values, weights, row_sigma2, block);
                    }
                }
            }
        }
    }
}

impl<T, const N: usize, const B: usize> Sealed for ReadWrite<T, N, B> {}

impl<T: Encode<N, B>, const N: usize, const B: usize> BlockCodec for ReadWrite<T, N, B> {
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
            Encoding::<T, N, B> { values, weights: None, out, format: PhantomData }
                .run_with(self.0);
            return Ok(());
        };
        if row_len == 0 {
            return Ok(());
        }
        let (weights, _) = weights.as_chunks::<N>();
        for (row, out) in values.chunks_exact(row_len).zip(out.chunks_exact_mut(row_len / N)) {
            let sigma2 = T::row_sigma2(row);
            let (values, _) = row.as_chunks::<N>();
            Encoding::<T, N, B> {
                values,
                weights: Some((weights, sigma2)),
                out,
                format: PhantomData,
            }
            .run_with(self.0);
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

impl<T: Encode<N, B>, const N: usize, const B: usize> Debug for ReadWrite<T, N, B> {
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
    let reading = Decoding::<T, N, B> { blocks, out, format: PhantomData };
    if let Err(Decoding { blocks, out, .. }) = isa.for_work(T::TYPE, Direction::Read).run(reading) {
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
    // `0.is_multiple_of(0)` is true: no values in rows of length 0 are allowed, and any values in
    // such rows are an error.
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

/// Sets `all` to `true` if all values are finite.
struct AllFinite<'a> {
    values: &'a [f32],
    all: &'a mut bool,
}

impl Work for AllFinite<'_> {
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
    let unknown = isa.run(AllFinite { values, all: &mut all }).is_err();
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
    // A test without a branch per value is several times faster. The position is searched only
    // after a hit.
    for (index, chunk) in values.chunks(STRIDE).enumerate() {
        if !chunk.iter().fold(true, |all, value| all & value.is_finite()) {
            let within = chunk.iter().position(|value| !value.is_finite())?;
            return Some((index * STRIDE + within, chunk[within]));
        }
    }
    None
}
