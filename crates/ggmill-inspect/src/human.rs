//! Numbers as people read them.

/// `18.3 MiB`: three digits, units of 1024.
pub fn bytes(bytes: u128) -> String {
    match scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]) {
        Some(text) => text,
        None => format!("{bytes} B"),
    }
}

/// `22.6 M`: three digits, units of 1000.
pub(crate) fn count(count: u128) -> String {
    scaled(count, 1000.0, &["", "K", "M", "B", "T"]).unwrap_or_else(|| count.to_string())
}

/// `None` when the number is smaller than the first unit.
fn scaled(number: u128, step: f64, units: &[&str]) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = number as f64;
    let mut unit = 0;
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let name = units.get(unit).filter(|_| unit > 0)?;
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    Some(format!("{value:.decimals$} {name}"))
}

/// `22,565,376`.
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

/// `1 tensor`, `2 tensors`.
pub(crate) fn counted(number: impl Into<u128>, thing: &str) -> String {
    let number = number.into();
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let shown: Vec<String> =
            [0, 1023, 1024, 10_230, 19_229_632, 1_048_575, u128::MAX].map(bytes).into();
        assert_eq!(shown[..6], ["0 B", "1023 B", "1.00 KiB", "9.99 KiB", "18.3 MiB", "1024 KiB"]);
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
