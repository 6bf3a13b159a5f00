//! Sizes as people write them.

/// A size such as `4.2G`: of 1000, or of 1024 with an `i`.
pub(crate) fn byte_size(text: &str) -> Result<u64, String> {
    let expected =
        || "expected a number followed by K, M, G or T, such as 4.2G or 4.2GiB".to_owned();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at).ok_or_else(expected)?;
    let number: f64 = number.parse().map_err(|_| expected())?;
    let unit = unit.trim_start().to_ascii_uppercase();
    let powers = |base: f64, ends: [&str; 2]| {
        ["K", "M", "G", "T"]
            .iter()
            .zip(1..)
            .find(|(letter, _)| ends.iter().any(|end| unit == format!("{letter}{end}")))
            .map(|(_, power)| base.powi(power))
    };
    let factor = if unit.is_empty() || unit == "B" {
        Some(1.0)
    } else {
        powers(1000.0, ["", "B"]).or_else(|| powers(1024.0, ["I", "IB"]))
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; what is beyond the range is more than any file has"
    )]
    factor.map(|factor| (number * factor) as u64).filter(|&size| size > 0).ok_or_else(expected)
}

/// The same, and 0 for nothing.
pub(crate) fn byte_size_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { byte_size(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        let found = ["1234", "4.2G", "4.2GB", "4.2g", "4.5 GiB", "512Ki", "1.5T", "7B"]
            .map(|text| byte_size(text).ok());
        assert_eq!(
            found,
            [
                1234,
                4_200_000_000,
                4_200_000_000,
                4_200_000_000,
                4_831_838_208,
                524_288,
                1_500_000_000_000,
                7
            ]
            .map(Some)
        );
        for wrong in ["", "G", "4.2.1G", "-4G", "4X", "4GiG", "é", "4é", "0", "0.1"] {
            assert!(byte_size(wrong).is_err(), "{wrong}");
        }
    }
}
