//! The implementations of [`Lanes`](crate::lanes::Lanes), one file per instruction set. This is the
//! only module of the crate with `unsafe` code.

#![allow(
    clippy::inline_always,
    reason = "vector operations are fast only when inlined into a function that is compiled for \
              their instruction set"
)]

/// Defines `has_features` and `run` for an instruction set that is detected at run time. Both are
/// made from one list, so every feature that `run` enables is detected.
#[cfg(target_arch = "x86_64")]
macro_rules! detected_features {
    ($lanes:ident, [$($feature:tt),* $(,)?]) => {
        /// The features that are detected and that [`run`](Self::run) enables.
        #[cfg(test)]
        pub(super) const FEATURES: &[&str] = &[$($feature),*];

        /// Returns `true` if the CPU, and the operating system, support every feature that
        /// [`run`](Self::run) enables.
        fn has_features() -> bool {
            $(is_x86_feature_detected!($feature))&&*
        }

        /// Runs `work` in a function that is compiled for these features.
        pub(crate) fn run<W: Work>(self, work: W) {
            #[target_feature($(enable = $feature),*)]
            fn inside<W: Work>(lanes: $lanes, work: W) {
                work.run(lanes);
            }
            // SAFETY: `detect` makes the only values of this type, after `has_features` found each
            // feature that `inside` enables: both come from the same list.
            unsafe { inside(self, work) }
        }
    };
}

mod pair;
#[expect(unsafe_code, reason = "float-to-integer conversions of values in range")]
mod portable;
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128"),
    all(target_arch = "x86_64", target_feature = "sse2")
))]
mod quad;

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not every CPU has")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not every CPU has")]
pub(crate) mod avx512;

#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
#[expect(unsafe_code, reason = "loads and stores through pointers")]
mod neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[expect(unsafe_code, reason = "loads and stores through pointers")]
mod simd128;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[expect(unsafe_code, reason = "loads and stores through pointers")]
mod sse2;

pub(crate) use pair::Pair;
pub(crate) use portable::Portable;

/// Eight lanes with NEON.
#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
pub(crate) const NEON: quad::Eight<neon::Neon> = quad::Eight::NEW;

/// Eight lanes with the SIMD instructions of WebAssembly.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) const SIMD128: quad::Eight<simd128::Simd128> = quad::Eight::NEW;

/// Eight lanes with SSE2.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) const SSE2: quad::Eight<sse2::Sse2> = quad::Eight::NEW;
