//! The field `Range` of a request, for one range of bytes.

/// What a request asks for in a file of a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The whole file: there is no such field, or it is none that has to be heeded.
    Whole,
    /// From a byte up to before another; at least one.
    Part(u64, u64),
    /// A range beyond the end.
    Outside,
}

/// Reads the field. Several ranges, other units and what is malformed are answered with the whole
/// file, as RFC 9110 (section 14.2) permits.
pub(super) fn asked(field: Option<&str>, len: u64) -> Asked {
    let range = field.and_then(|field| field.trim().strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return Asked::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that does not fit is beyond every file.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let (start, end) = match (is_number(first), is_number(last)) {
        (true, true) if number(first) <= number(last) => {
            (number(first), number(last).saturating_add(1).min(len))
        }
        (true, false) if last.is_empty() => (number(first), len),
        (false, true) if first.is_empty() => (len.saturating_sub(number(last)), len),
        _ => return Asked::Whole,
    };
    if start < end { Asked::Part(start, end) } else { Asked::Outside }
}

#[cfg(test)]
mod tests {
    use super::Asked::{Outside, Part, Whole};
    use super::*;

    #[test]
    fn ranges() {
        for (field, expected) in [
            ("bytes=0-0", Part(0, 1)),
            ("bytes=2-5", Part(2, 6)),
            ("bytes=8-", Part(8, 10)),
            ("bytes=8-99999999999999999999999", Part(8, 10)),
            ("bytes=-3", Part(7, 10)),
            ("bytes=-30", Part(0, 10)),
            (" bytes=1-2 ", Part(1, 3)),
            ("bytes=10-", Outside),
            ("bytes=10-20", Outside),
            ("bytes=-0", Outside),
            ("bytes=99999999999999999999999-", Outside),
            ("bytes=5-2", Whole),
            ("bytes=0-1,3-4", Whole),
            ("bytes=-", Whole),
            ("bytes=+1-2", Whole),
            ("lines=1-2", Whole),
            ("", Whole),
        ] {
            assert_eq!(asked(Some(field), 10), expected, "{field:?}");
        }
        assert_eq!(asked(None, 10), Whole);
        assert_eq!(asked(Some("bytes=0-0"), 0), Outside);
    }
}
