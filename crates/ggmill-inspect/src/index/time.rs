//! Times as text.

/// A time in microseconds since 1970 (UTC) by RFC 3339: `2026-11-22T21:35:00.000000Z`.
pub(crate) fn text(microseconds: i64) -> String {
    const DAY: i64 = 86_400_000_000;
    let (days, rest) = (microseconds.div_euclid(DAY), microseconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{fraction:06}Z")
}

/// The date of a day, counted from 1970-01-01, in the Gregorian calendar. Years begin in March here,
/// so that the leap day is the last of one; 400 of them have 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::text;

    /// `date -u -d @SECONDS` is the reference.
    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_709_251_199, "2024-02-29T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (-62_135_596_800, "0001-01-01T00:00:00"),
        ] {
            assert_eq!(text(seconds * 1_000_000), format!("{expected}.000000Z"));
        }
        assert_eq!(text(1_700_000_000_123_456), "2023-11-14T22:13:20.123456Z");
    }

    #[test]
    fn no_time_overflows() {
        assert!(text(i64::MAX).starts_with("294247-01-10"));
        assert!(text(i64::MIN).starts_with("-290308-12-21"));
    }
}
