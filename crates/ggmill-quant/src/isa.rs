//! Selection of the instruction set that the codecs use. The output does not depend on it.

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

/// An instruction set that this CPU supports and that the codecs have code for. The output is the
/// same with each.
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

/// The instruction sets, in ascending order of preference. Private, so that every [`Isa`] comes
/// from detection.
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

/// The direction of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    /// Without importance weights.
    Write,
    WriteWeighted,
}

/// The cases in which the scalar code is faster than the lanes and is used instead, mostly for
/// lanes without instructions for selection or table lookup. Compilers vectorize the scalar
/// decoding loops, so lanes add only copies. The comments give instructions per weight, scalar /
/// lanes, on x86-64, and on AArch64 for NEON (`python3 conformance/run.py quant-count --target`).
const SCALAR_IS_FASTER: [(Kind, GgmlType, Direction); 28] = [
    // 87.3 / 191: changes of single levels, for which every lane does all the work.
    (Kind::Portable, GgmlType::Q3_K, Direction::Write),
    (Kind::Portable, GgmlType::Q8_K, Direction::Write),
    (Kind::Portable, GgmlType::NVFP4, Direction::Write),
    // Consists of one sum in order.
    (Kind::Portable, GgmlType::Q1_0, Direction::Write),
    (Kind::Portable, GgmlType::IQ3_XXS, Direction::Read),
    (Kind::Portable, GgmlType::MXFP4, Direction::Read),
    (Kind::Portable, GgmlType::Q5_1, Direction::Read),
    (Kind::Portable, GgmlType::IQ4_NL, Direction::Read),
    (Kind::Portable, GgmlType::IQ4_XS, Direction::Read),
    (Kind::Portable, GgmlType::Q2_K, Direction::Read),
    // 9.02 / 11.5, 3.26 / 6.75, 2.55 / 6.03, 7.58 / 9.38.
    (Kind::Portable, GgmlType::F16, Direction::Read),
    (Kind::Portable, GgmlType::TQ1_0, Direction::Read),
    (Kind::Portable, GgmlType::TQ2_0, Direction::Read),
    (Kind::Portable, GgmlType::NVFP4, Direction::Read),
    // 5.27 / 7.08 and, with SSE2, 7.71; 3.81 / 7.67.
    (Kind::Portable, GgmlType::Q4_0, Direction::Read),
    (Kind::Sse2, GgmlType::Q4_0, Direction::Read),
    (Kind::Sse2, GgmlType::Q4_K, Direction::Read),
    // 6.70 / 8.61, 7.58 / 9.55, 7.27 / 9.27, 7.19 / 8.89.
    (Kind::Sse2, GgmlType::MXFP4, Direction::Read),
    (Kind::Sse2, GgmlType::NVFP4, Direction::Read),
    (Kind::Sse2, GgmlType::IQ4_NL, Direction::Read),
    (Kind::Sse2, GgmlType::IQ4_XS, Direction::Read),
    // 12.1 / 18.1, 5.83 / 6.36, 9.64 / 10.1; 1.83 / 1.96, 1.78 / 2.24, 1.93 / 2.24.
    (Kind::Neon, GgmlType::TQ1_0, Direction::Write),
    (Kind::Neon, GgmlType::Q1_0, Direction::Write),
    (Kind::Neon, GgmlType::Q8_1, Direction::Write),
    (Kind::Neon, GgmlType::Q6_K, Direction::Read),
    (Kind::Neon, GgmlType::Q4_K, Direction::Read),
    (Kind::Neon, GgmlType::TQ1_0, Direction::Read),
    // 175 / 232 WebAssembly instructions.
    (Kind::Simd128, GgmlType::Q3_K, Direction::Write),
];

impl Isa {
    /// Scalar code, available everywhere. It defines the output.
    pub const SCALAR: Self = Self(Kind::Scalar);

    /// Returns the instruction sets that this CPU supports, the best last.
    pub fn available() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().filter(|kind| kind.is_available()).map(Self)
    }

    /// Returns the best available instruction set, which [`codec`](crate::codec) uses.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST
            .get_or_init(|| Self(best_of(Kind::ALL.into_iter().filter(|kind| kind.is_available()))))
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// Runs `work` with this instruction set; for [`SCALAR`](Self::SCALAR), with portable lanes.
    pub(crate) fn run(self, work: impl Work) {
        let kind = if self.0 == Kind::Scalar { Kind::Portable } else { self.0 };
        if let Err(work) = kind.run(work) {
            // Unreachable: an `Isa` is available. Portable lanes give the same result.
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

/// Returns the best of the available instruction sets.
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

    /// Returns `true` if the CPU supports the instructions and this build has code for them.
    fn is_available(self) -> bool {
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

    /// Returns the instruction set to use for a type: scalar where [`SCALAR_IS_FASTER`], else
    /// `self`.
    pub(crate) fn for_work(self, ggml_type: GgmlType, direction: Direction) -> Self {
        let scalar = SCALAR_IS_FASTER.contains(&(self, ggml_type, direction));
        if scalar { Self::Scalar } else { self }
    }

    /// Runs `work` with these instructions, or returns it as the error if scalar code must do it.
    pub(crate) fn run<W: Work>(self, work: W) -> Result<(), W> {
        match self {
            Self::Portable => work.run(Portable),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Self::Simd128 => work.run(SIMD128),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
            Self::Neon => work.run(NEON),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Self::Sse2 => work.run(SSE2),
            // Detection reads a cached bit set.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => match Avx2::detect() {
                Some(lanes) => lanes.run(work),
                None => return Err(work),
            },
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 if !W::USES_AVX512 => return Self::Avx2.run(work),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => match Avx512::detect() {
                Some(lanes) => lanes.run(work),
                None => return Err(work),
            },
            // Scalar, and sets of other architectures, which no `Isa` has.
            _ => return Err(work),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_instruction_set_is_selected() {
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
    fn scalar_code_is_used_only_where_listed() {
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
    fn the_best_instruction_set_is_available_and_last() {
        assert_eq!(Isa::available().last(), Some(Isa::best()));
        assert!(Kind::ALL.is_sorted());
        assert_ne!(Isa::best(), Isa::SCALAR);
        assert_eq!(Isa::available().any(|isa| isa.0 == Kind::Neon), cfg!(target_arch = "aarch64"));
        assert_eq!(Isa::available().any(|isa| isa.0 == Kind::Sse2), cfg!(target_arch = "x86_64"));
    }
}
