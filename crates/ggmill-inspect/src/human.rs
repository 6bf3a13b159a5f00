//! Numbers formatted for people.

use ggmill_core::ByteSize;

/// Formats bytes: `18.3 MiB`.
pub(crate) fn bytes(bytes: u128) -> String {
    ByteSize::from(bytes).to_string()
}

/// Formats a count with three digits, in units of 1000: `22.6 M`.
pub(crate) fn count(count: u128) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "B", "T"];
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => return count.to_string(),
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// Formats a number with separators: `22,565,376`.
pub(crate) fn grouped(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 tensor`, `2 tensors`.
pub(crate) fn counted(number: impl Into<u128>, thing: &str) -> String {
    let number = number.into();
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        assert_eq!(
            [count(999), count(260_032), count(22_565_376), count(7_241_732_096)],
            ["999", "260 K", "22.6 M", "7.24 B"]
        );
    }

    #[test]
    fn groups_of_three() {
        assert_eq!(
            [grouped(0u8), grouped(999u32), grouped(1000u32), grouped(1_234_567u32)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([counted(1u8, "shard"), counted(2u8, "shard")], ["1 shard", "2 shards"]);
    }
}
