//! Which instructions the codecs use. The bytes do not depend on it.

use std::fmt;
use std::sync::OnceLock;

use crate::arch::Portable;
#[cfg(target_arch = "x86_64")]
use crate::arch::{avx2::Avx2, avx512::Avx512};
use crate::lanes::Work;

/// A set of instructions that this machine has, and the codecs have code for. What they write is the same with each.
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

/// The private part: an [`Isa`] comes from detection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Scalar,
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// One number at a time: the definition of the bytes, on every machine.
    pub const SCALAR: Self = Self(Kind::Scalar);

    /// All there are here, the best last.
    pub fn available() -> impl Iterator<Item = Self> {
        [
            Some(Kind::Portable),
            Some(Kind::Scalar),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(|_| Kind::Avx2),
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(|_| Kind::Avx512),
        ]
        .into_iter()
        .flatten()
        .map(Self)
    }

    /// The one [`codec`](crate::codec) uses.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().unwrap_or(Self::SCALAR))
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
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512",
        })
    }
}

impl Kind {
    /// Does the work with these instructions, or says that they are the scalar ones.
    #[cfg_attr(not(target_arch = "x86_64"), expect(clippy::unnecessary_wraps, reason = "other machines have more instances"))]
    pub(crate) fn run<W: Work>(self, work: W) -> Result<(), W> {
        match self {
            Self::Scalar => return Err(work),
            Self::Portable => work.run(Portable),
            // Detection is a look at a cached word; without the instructions, which no `Isa` asks for, the scalar code does the work.
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
        }
        Ok(())
    }
}
