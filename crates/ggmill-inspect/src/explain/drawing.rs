//! The layout of a block as a picture.

use std::fmt::Write as _;

/// Columns a picture has.
const WIDTH: usize = 68;

/// A part of a picture: what is in it, and its size in the unit of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) size: u32,
}

/// Draws parts side by side, each as wide as its share of the whole and at least as wide as its
/// name, with the place where each begins above:
///
/// ```text
///     0    2                             34
///     ┌────┬─────────────────────────────┐
///     │ d  │ qs                          │
///     └────┴─────────────────────────────┘
/// ```
pub(super) fn draw(parts: &[Part<'_>]) -> String {
    let total: u32 = parts.iter().map(|part| part.size).sum();
    let mut starts = Vec::with_capacity(parts.len());
    let end = parts.iter().fold(0, |at, part| {
        starts.push(at);
        at + part.size
    });
    let digits = |number: u32| number.to_string().len();
    let least: Vec<usize> = parts
        .iter()
        .zip(&starts)
        .map(|(part, &start)| (part.name.chars().count() + 2).max(digits(start)))
        .collect();
    let room = WIDTH.saturating_sub(least.iter().sum::<usize>() + parts.len() + 1);
    let share = |part: &Part<'_>| room * part.size as usize / (total as usize).max(1);
    let widths: Vec<usize> =
        parts.iter().zip(&least).map(|(part, least)| least + share(part)).collect();

    let mut rows = [String::new(), String::from("┌"), String::from("│"), String::from("└")];
    for (number, ((part, &width), start)) in parts.iter().zip(&widths).zip(&starts).enumerate() {
        let is_end = number + 1 == parts.len();
        let line = "─".repeat(width);
        // Writing to a String cannot fail.
        let _ = write!(rows[0], "{start:<column$}", column = width + 1);
        let _ = write!(rows[1], "{line}{}", if is_end { "┐" } else { "┬" });
        let _ = write!(rows[2], " {:<rest$}│", part.name, rest = width - 1);
        let _ = write!(rows[3], "{line}{}", if is_end { "┘" } else { "┴" });
    }
    let _ = write!(rows[0], "{end}");
    rows.iter().fold(String::new(), |picture, row| picture + "    " + row + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_equally_wide_and_names_fit() {
        let parts = [
            Part { name: "d", size: 2 },
            Part { name: "scales", size: 12 },
            Part { name: "qs", size: 128 },
        ];
        let picture = draw(&parts);
        let widths: Vec<usize> = picture.lines().skip(1).map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|&width| width == widths[0] && width <= WIDTH + 4), "{picture}");
        assert!(
            picture.contains("│ scales") && picture.lines().next().unwrap().ends_with("142"),
            "{picture}"
        );
    }
}
