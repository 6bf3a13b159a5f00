//! Numbers of bytes as people read them.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt::{self, Write as _};

/// A number of bytes as people read it: `18.3 MiB`, with three digits, whatever precision is asked
/// for, and units of 1,024.
///
/// ```
/// use ggmill_core::ByteSize;
/// assert_eq!(ByteSize::from(19_229_632u64).to_string(), "18.3 MiB");
/// assert_eq!(ByteSize::from(1000usize).to_string(), "1000 B");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u128);

impl ByteSize {
    const UNITS: [&'static str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

    /// Two sizes as text, in full (`1073741825 bytes`) where their three digits are the same.
    ///
    /// ```
    /// use ggmill_core::ByteSize;
    /// assert_eq!(ByteSize::both(3u64 << 30, 1u64 << 30), ["3.00 GiB", "1.00 GiB"]);
    /// let [found, limit] = ByteSize::both((1u64 << 30) + 1, 1u64 << 30);
    /// assert_eq!((&*found, &*limit), ("1073741825 bytes", "1073741824 bytes"));
    /// ```
    pub fn both(first: impl Into<Self>, second: impl Into<Self>) -> [String; 2] {
        let sizes = [first.into(), second.into()];
        let [a, b] = sizes.map(|size| size.to_string());
        if a == b { sizes.map(|size| format!("{} bytes", size.0)) } else { [a, b] }
    }
}

impl From<u64> for ByteSize {
    fn from(bytes: u64) -> Self {
        Self(bytes.into())
    }
}

impl From<u128> for ByteSize {
    fn from(bytes: u128) -> Self {
        Self(bytes)
    }
}

impl From<usize> for ByteSize {
    fn from(bytes: usize) -> Self {
        Self(bytes as u128)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In integers: what formats floating-point numbers is large in a WebAssembly module.
        let mut units = Self::UNITS.into_iter();
        let (mut unit, mut shift) = (units.next().unwrap_or_default(), 0u32);
        while self.0 >> shift >= 1024
            && let Some(next) = units.next()
        {
            (unit, shift) = (next, shift.saturating_add(10));
        }
        let decimals = match self.0.saturating_mul(1000) >> shift {
            _ if shift == 0 => 0,
            ..9995 => 2,
            9995..99_950 => 1,
            _ => 0,
        };
        let parts = 10u128.pow(decimals);
        let scaled = self.0.saturating_mul(parts);
        let (rounded, rest) = (scaled >> shift, scaled & (1u128 << shift).wrapping_sub(1));
        let half = (1u128 << shift) >> 1;
        let is_up = shift > 0 && (rest > half || rest == half && rounded & 1 == 1);
        let rounded = rounded.saturating_add(u128::from(is_up));
        let whole = rounded.checked_div(parts).unwrap_or_default();
        let fraction = rounded.checked_rem(parts).unwrap_or_default();
        let text = match decimals {
            0 => format!("{whole} {unit}"),
            1 => format!("{whole}.{fraction} {unit}"),
            _ => format!("{whole}.{fraction:02} {unit}"),
        };
        // As one text, so that a width counts for all of it; `pad` would take a precision for the
        // length of the text and cut it.
        let missing = f.width().unwrap_or_default().saturating_sub(text.len());
        let before = match f.align() {
            Some(fmt::Alignment::Right) => missing,
            Some(fmt::Alignment::Center) => missing / 2,
            _ => 0,
        };
        let fill = f.fill();
        (0..before).try_for_each(|_| f.write_char(fill))?;
        f.write_str(&text)?;
        (before..missing).try_for_each(|_| f.write_char(fill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let sizes = [0, 1023, 1024, 10_230, 19_229_632, 1_048_575, 10_236, 1 << 70];
        let shown = sizes.map(|size: u128| ByteSize(size).to_string());
        let expected = [
            "0 B", "1023 B", "1.00 KiB", "9.99 KiB", "18.3 MiB", "1024 KiB", "10.0 KiB", "1024 EiB",
        ];
        assert_eq!(shown, expected);
        assert_eq!(format!("{:>9}|", ByteSize(1023)), "   1023 B|");
        let size = ByteSize(19_229_632);
        assert_eq!(
            format!("{size:12}|{size:-^12}|{size:3}|"),
            "18.3 MiB    |--18.3 MiB--|18.3 MiB|"
        );
        // The number of digits is not for the caller to choose.
        assert_eq!(format!("{size:.1}|{size:>9.2}"), "18.3 MiB| 18.3 MiB");
        assert!(ByteSize(u128::MAX).to_string().ends_with(" EiB"));
    }
}
