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

/// Where lanes without instructions of their own for choosing or looking up lose to the scalar code,
/// which then does the work: instructions for each weight on x86-64, and on AArch64 for NEON, the
/// scalar code's beside those of the lanes (`cargo xtask peers quant-count --target`). Compilers
/// make vectors of the scalar loops of readers, so that lanes add only the copies between them.
const SCALAR_IS_FASTER: [(Kind, GgmlType, Direction); 28] = [
    // 87.3 beside 191: moves of single levels, in which everything is done for every lane.
    (Kind::Portable, GgmlType::Q3_K, Direction::Write),
    (Kind::Portable, GgmlType::Q8_K, Direction::Write),
    (Kind::Portable, GgmlType::NVFP4, Direction::Write),
    // All there is to do is a sum.
    (Kind::Portable, GgmlType::Q1_0, Direction::Write),
    (Kind::Portable, GgmlType::IQ3_XXS, Direction::Read),
    (Kind::Portable, GgmlType::MXFP4, Direction::Read),
    (Kind::Portable, GgmlType::Q5_1, Direction::Read),
    (Kind::Portable, GgmlType::IQ4_NL, Direction::Read),
    (Kind::Portable, GgmlType::IQ4_XS, Direction::Read),
    (Kind::Portable, GgmlType::Q2_K, Direction::Read),
    // 9.02 beside 11.5, 3.26 beside 6.75, 2.55 beside 6.03, 7.58 beside 9.38.
    (Kind::Portable, GgmlType::F16, Direction::Read),
    (Kind::Portable, GgmlType::TQ1_0, Direction::Read),
    (Kind::Portable, GgmlType::TQ2_0, Direction::Read),
    (Kind::Portable, GgmlType::NVFP4, Direction::Read),
    // 5.27 beside 7.08 and, with SSE2, 7.71; 3.81 beside 7.67.
    (Kind::Portable, GgmlType::Q4_0, Direction::Read),
    (Kind::Sse2, GgmlType::Q4_0, Direction::Read),
    (Kind::Sse2, GgmlType::Q4_K, Direction::Read),
    // 6.70 beside 8.61, 7.58 beside 9.55, 7.27 beside 9.27, 7.19 beside 8.89.
    (Kind::Sse2, GgmlType::MXFP4, Direction::Read),
    (Kind::Sse2, GgmlType::NVFP4, Direction::Read),
    (Kind::Sse2, GgmlType::IQ4_NL, Direction::Read),
    (Kind::Sse2, GgmlType::IQ4_XS, Direction::Read),
    // 12.1 beside 18.1, 5.83 beside 6.36, 9.64 beside 10.1; 1.83 beside 1.96, 1.78 beside 2.24, 1.93 beside 2.24.
    (Kind::Neon, GgmlType::TQ1_0, Direction::Write),
    (Kind::Neon, GgmlType::Q1_0, Direction::Write),
    (Kind::Neon, GgmlType::Q8_1, Direction::Write),
    (Kind::Neon, GgmlType::Q6_K, Direction::Read),
    (Kind::Neon, GgmlType::Q4_K, Direction::Read),
    (Kind::Neon, GgmlType::TQ1_0, Direction::Read),
    // 175 beside 232, of WebAssembly.
    (Kind::Simd128, GgmlType::Q3_K, Direction::Write),
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

    /// Does work that is the same loops with every instruction set.
    pub(crate) fn run(self, work: impl Work) {
        let kind = if self.0 == Kind::Scalar { Kind::Portable } else { self.0 };
        if let Err(work) = kind.run(work) {
            // Instructions that this machine does not have.
            let _ = Kind::Portable.run(work);
        }
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
        let scalar = SCALAR_IS_FASTER.contains(&(self, ggml_type, direction));
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
    fn only_what_the_table_lists_is_left_to_the_scalar_code() {
        for (listed, ggml_type, direction) in SCALAR_IS_FASTER {
            assert_eq!(listed.for_work(ggml_type, direction), Kind::Scalar, "{ggml_type}");
            for kind in [Kind::Avx2, Kind::Avx512] {
                assert_eq!(kind.for_work(ggml_type, direction), kind, "{ggml_type}");
            }
        }
        assert_eq!(
            Kind::Portable.for_work(GgmlType::Q3_K, Direction::WriteWeighted),
            Kind::Portable
        );
        assert_eq!(Kind::Portable.for_work(GgmlType::Q3_K, Direction::Read), Kind::Portable);
        assert_eq!(Kind::Sse2.for_work(GgmlType::Q3_K, Direction::Write), Kind::Sse2);
        assert_eq!(Kind::Neon.for_work(GgmlType::Q3_K, Direction::Write), Kind::Neon);
        assert_eq!(Kind::Simd128.for_work(GgmlType::Q3_K, Direction::WriteWeighted), Kind::Simd128);
        assert_eq!(Kind::Neon.for_work(GgmlType::MXFP4, Direction::Read), Kind::Neon);
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
