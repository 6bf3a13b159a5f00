//! A date and time for `strftime_now`.

use std::fmt::Write as _;

/// A date and a time of day. The caller reads the clock; templates cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    year: i64,
    month: u32,
    day: u32,
    second_of_day: u32,
    days: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Moment {
    /// Converts a Unix time in seconds, in UTC, or in another time zone if the caller has added its
    /// offset.
    ///
    /// ```
    /// let moment = ggmill_template::Moment::from_unix(1_700_000_000);
    /// assert_eq!(moment.format("%d %B %Y, %H:%M"), "14 November 2023, 22:13");
    /// ```
    pub fn from_unix(seconds: i64) -> Self {
        // Clamped, so that the arithmetic below cannot overflow.
        let seconds = seconds.clamp(-60_000_000_000, 250_000_000_000);
        let days = seconds.div_euclid(86_400);
        let second_of_day = u32::try_from(seconds.rem_euclid(86_400)).unwrap_or(0);
        // Years begin in March here, so that the leap day is the last day.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self {
            year,
            month: u32::try_from(month).unwrap_or(1),
            day: u32::try_from(day).unwrap_or(1),
            second_of_day,
            days,
        }
    }

    fn month_name(self) -> &'static str {
        let index = self.month.saturating_sub(1) as usize;
        MONTHS.get(index).copied().unwrap_or_default()
    }

    /// Returns the day of the week; Sunday is 0.
    fn weekday(self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }

    fn day_of_year(self) -> i64 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let index = self.month.saturating_sub(1) as usize;
        let before = before.get(index).copied().unwrap_or(0);
        before + i64::from(self.day) + i64::from(leap && self.month > 2)
    }

    /// Formats like C's `strftime` in the default locale. Unknown conversions are copied.
    pub fn format(self, format: &str) -> String {
        let mut out = String::new();
        self.write_format(format, &mut |_, part| out.push_str(part));
        out
    }

    /// Formats like [`format`](Self::format), and passes each part to `emit` with the offset in the
    /// format from which it results.
    pub(crate) fn write_format(self, format: &str, emit: &mut dyn FnMut(usize, &str)) {
        let mut chars = format.chars();
        let mut out = String::new();
        loop {
            let position = format.len() - chars.as_str().len();
            let Some(c) = chars.next() else { break };
            if c != '%' {
                emit(position, c.encode_utf8(&mut [0; 4]));
                continue;
            }
            let rest = chars.clone();
            let bare = chars.as_str().starts_with(['-', '_']);
            let pad = if bare { chars.next() } else { None };
            out.clear();
            if chars.next().is_some_and(|code| self.write(code, pad, &mut out)) {
                emit(position, &out);
            } else {
                emit(position, "%");
                chars = rest;
            }
        }
    }

    fn write(self, code: char, pad: Option<char>, out: &mut String) -> bool {
        let (hour, minute, second) =
            (self.second_of_day / 3600, self.second_of_day / 60 % 60, self.second_of_day % 60);
        let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
        let weekday = self.weekday();
        let name = WEEKDAYS.get(usize::try_from(weekday).unwrap_or(0)).copied().unwrap_or_default();
        let half = if hour < 12 { "AM" } else { "PM" };
        let number = |value: i64, width: usize, space: bool, out: &mut String| {
            let _ = match pad {
                Some('-') => write!(out, "{value}"),
                Some(_) => write!(out, "{value:width$}"),
                None if space => write!(out, "{value:width$}"),
                None => write!(out, "{value:0width$}"),
            };
        };
        match code {
            'Y' => number(self.year, 1, false, out),
            'C' => number(self.year.div_euclid(100), 2, false, out),
            'y' => number(self.year.rem_euclid(100), 2, false, out),
            'm' => number(i64::from(self.month), 2, false, out),
            'd' => number(i64::from(self.day), 2, false, out),
            'e' => number(i64::from(self.day), 2, true, out),
            'H' => number(i64::from(hour), 2, false, out),
            'k' => number(i64::from(hour), 2, true, out),
            'I' => number(i64::from(twelve), 2, false, out),
            'l' => number(i64::from(twelve), 2, true, out),
            'M' => number(i64::from(minute), 2, false, out),
            'S' => number(i64::from(second), 2, false, out),
            'f' => number(0, 6, false, out),
            'j' => number(self.day_of_year(), 3, false, out),
            'w' => number(weekday, 1, false, out),
            'u' => number(if weekday == 0 { 7 } else { weekday }, 1, false, out),
            's' => number(self.days * 86_400 + i64::from(self.second_of_day), 1, false, out),
            'U' => number((self.day_of_year() + 6 - weekday) / 7, 2, false, out),
            'W' => number((self.day_of_year() + 6 - (weekday + 6) % 7) / 7, 2, false, out),
            'B' => out.push_str(self.month_name()),
            'b' | 'h' => out.push_str(self.month_name().get(..3).unwrap_or_default()),
            'A' => out.push_str(name),
            'a' => out.push_str(name.get(..3).unwrap_or_default()),
            'p' => out.push_str(half),
            'P' => out.push_str(&half.to_lowercase()),
            'F' => out.push_str(&self.format("%Y-%m-%d")),
            'T' | 'X' => out.push_str(&self.format("%H:%M:%S")),
            'R' => out.push_str(&self.format("%H:%M")),
            'D' | 'x' => out.push_str(&self.format("%m/%d/%y")),
            'c' => out.push_str(&self.format("%a %b %e %H:%M:%S %Y")),
            'r' => out.push_str(&self.format("%I:%M:%S %p")),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            '%' => out.push('%'),
            // No time zone is known.
            'z' | 'Z' => {}
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn dates_equal_the_calendar() {
        let shown = |seconds, format| Moment::from_unix(seconds).format(format);
        assert_eq!(shown(0, "%A %F %T %j"), "Thursday 1970-01-01 00:00:00 001");
        assert_eq!(shown(951_782_400, "%d %b %Y, %a, %j"), "29 Feb 2000, Tue, 060");
        assert_eq!(shown(-1, "%Y-%m-%d %H:%M:%S"), "1969-12-31 23:59:59");
        assert_eq!(shown(1_767_225_599, "%-d/%-m/%y %I:%M %p %U %W"), "31/12/25 11:59 PM 52 52");
        assert_eq!(shown(0, "100%% %Q %"), "100% %Q %");
    }
}
