//! The instances of [`Lanes`](crate::lanes::Lanes): the only place in this crate that is not safe
//! by itself.

#![allow(
    clippy::inline_always,
    reason = "vector operations are worth something only inside a function compiled for their \
              instruction set"
)]

mod pair;
#[expect(unsafe_code, reason = "conversions of numbers whose range is known")]
mod portable;
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128"),
    all(target_arch = "x86_64", target_feature = "sse2")
))]
mod quad;

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not every machine has")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not every machine has")]
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
