//! Which instructions the codecs use. The bytes do not depend on it.

use std::fmt;
use std::sync::OnceLock;

use ggmill_core::GgmlType;

#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
use crate::arch::NEON;
use crate::arch::Portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::arch::SIMD128;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::arch::SSE2;
#[cfg(target_arch = "x86_64")]
use crate::arch::{avx2::Avx2, avx512::Avx512};
use crate::lanes::Work;

/// A set of instructions that this machine has, and the codecs have code for. What they write is
/// the same with each.
///
/// ```
/// use ggmill_core::GgmlType;
/// use ggmill_quant::{Isa, codec_with};
/// let row: Vec<f32> = (0..256).map(|i| (i * i % 97) as f32).collect();
/// let blocks = Isa::available().map(|isa| {
///     let mut block = [0; 144];
///     codec_with(GgmlType::Q4_K, isa)?.quantize(&row, 256, None, &mut block)?;
///     Ok(block)
/// });
/// let blocks = blocks.collect::<Result<Vec<_>, ggmill_quant::Error>>()?;
/// assert!(blocks.iter().all(|block| *block == blocks[0]));
/// # Ok::<(), ggmill_quant::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa(Kind);

/// The private part: an [`Isa`] comes from detection alone. The better is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Scalar,
    Portable,
    Simd128,
    Neon,
    Sse2,
    Avx2,
    Avx512,
}

/// Which way a codec works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    /// Without importance.
    Write,
    WriteWeighted,
}

/// Where the portable lanes lose to the scalar code, which then does the work: instructions for
/// each weight on x86-64 without AVX, the scalar code's beside those of the lanes (callgrind; the
/// times of both agree). Compilers make vectors of the scalar loops of readers, so that lanes add
/// only the copies between them.
const SCALAR_IS_FASTER: [(GgmlType, Direction); 10] = [
    // 87.6 beside 191.3: moves of single levels, in which lanes without instructions for choosing
    // do everything for every lane.
    (GgmlType::Q3_K, Direction::Write),
    // 18.4 beside 38.8: as many conversions to bytes, and another pass for the sums.
    (GgmlType::Q8_K, Direction::Write),
    // 59.6 beside 104.4: sixteen comparisons for each value, each a choice.
    (GgmlType::NVFP4, Direction::Write),
    // 10.2 beside 13.9: all there is to do is a sum.
    (GgmlType::Q1_0, Direction::Write),
    // 6.36 beside 8.23, and 0.65 ns beside 0.88 ns.
    (GgmlType::IQ3_XXS, Direction::Read),
    // 6.70 beside 8.20.
    (GgmlType::MXFP4, Direction::Read),
    // 12.8 beside 13.7.
    (GgmlType::Q5_1, Direction::Read),
    // 7.20 beside 7.42.
    (GgmlType::IQ4_NL, Direction::Read),
    // 7.24 beside 7.60.
    (GgmlType::IQ4_XS, Direction::Read),
    // 6.20 beside 6.38.
    (GgmlType::Q2_K, Direction::Read),
];

impl Isa {
    /// One number at a time: the definition of the bytes, on every machine.
    pub const SCALAR: Self = Self(Kind::Scalar);

    /// All there are here, the best last.
    pub fn available() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().filter(|kind| kind.is_here()).map(Self)
    }

    /// The one [`codec`](crate::codec) uses.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self(best_of(Kind::ALL.into_iter().filter(|kind| kind.is_here()))))
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Scalar => "scalar",
            Kind::Portable => "portable",
            Kind::Simd128 => "SIMD128",
            Kind::Neon => "NEON",
            Kind::Sse2 => "SSE2",
            Kind::Avx2 => "AVX2",
            Kind::Avx512 => "AVX-512",
        })
    }
}

/// The best of some, in whatever order they come.
fn best_of(available: impl Iterator<Item = Kind>) -> Kind {
    available.max().unwrap_or(Kind::Scalar)
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Scalar,
        Self::Portable,
        Self::Simd128,
        Self::Neon,
        Self::Sse2,
        Self::Avx2,
        Self::Avx512,
    ];

    /// Whether this machine has the instructions, and this program code for them.
    fn is_here(self) -> bool {
        match self {
            Self::Scalar | Self::Portable => true,
            Self::Simd128 => cfg!(all(target_arch = "wasm32", target_feature = "simd128")),
            Self::Neon => cfg!(all(
                target_arch = "aarch64",
                target_feature = "neon",
                target_endian = "little"
            )),
            Self::Sse2 => cfg!(all(target_arch = "x86_64", target_feature = "sse2")),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// The instructions for some work with a type: those of the scalar code where they are the
    /// faster.
    pub(crate) fn for_work(self, ggml_type: GgmlType, direction: Direction) -> Self {
        let scalar = self == Self::Portable && SCALAR_IS_FASTER.contains(&(ggml_type, direction));
        if scalar { Self::Scalar } else { self }
    }

    /// Does the work with these instructions, or gives it back where the scalar code is to do it.
    pub(crate) fn run<W: Work>(self, work: W) -> Result<(), W> {
        match self {
            Self::Portable => work.run(Portable),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Self::Simd128 => work.run(SIMD128),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
            Self::Neon => work.run(NEON),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Self::Sse2 => work.run(SSE2),
            // Detection is a look at a cached word.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => match Avx2::detect() {
                Some(lanes) => lanes.run(work),
                None => return Err(work),
            },
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => match Avx512::detect() {
                Some(lanes) => lanes.run(work),
                None => return Err(work),
            },
            // Also without the instructions, which no `Isa` asks for.
            _ => return Err(work),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_one_of_the_machine() {
        use Kind::{Avx2, Avx512, Neon, Portable, Scalar, Simd128, Sse2};
        for (available, best) in [
            (&[Scalar, Portable][..], Portable),
            (&[Portable, Scalar], Portable),
            (&[Scalar, Portable, Neon], Neon),
            (&[Neon, Scalar, Portable], Neon),
            (&[Scalar, Simd128, Portable], Simd128),
            (&[Scalar, Portable, Sse2], Sse2),
            (&[Scalar, Portable, Sse2, Avx2], Avx2),
            (&[Avx512, Scalar, Sse2, Avx2, Portable], Avx512),
            (&[Scalar], Scalar),
            (&[], Scalar),
        ] {
            assert_eq!(best_of(available.iter().copied()), best, "{available:?}");
        }
    }

    #[test]
    fn only_the_portable_lanes_leave_work_to_the_scalar_code() {
        for (ggml_type, direction) in SCALAR_IS_FASTER {
            for kind in Kind::ALL {
                let expected = if kind == Kind::Portable { Kind::Scalar } else { kind };
                assert_eq!(
                    kind.for_work(ggml_type, direction),
                    expected,
                    "{ggml_type} {direction:?}"
                );
            }
        }
        assert_eq!(
            Kind::Portable.for_work(GgmlType::Q3_K, Direction::WriteWeighted),
            Kind::Portable
        );
        assert_eq!(Kind::Portable.for_work(GgmlType::Q3_K, Direction::Read), Kind::Portable);
    }

    #[test]
    fn the_best_is_available_and_last() {
        assert_eq!(Isa::available().last(), Some(Isa::best()));
        assert!(Kind::ALL.is_sorted());
        assert_ne!(Isa::best(), Isa::SCALAR);
        assert_eq!(Isa::available().any(|isa| isa.0 == Kind::Neon), cfg!(target_arch = "aarch64"));
        assert_eq!(Isa::available().any(|isa| isa.0 == Kind::Sse2), cfg!(target_arch = "x86_64"));
    }
}
