//! The targets that were meant by a name that is not one.

use ggmill_arch::distance;

use crate::Target;

/// Suggestions for a name that is not a [`Target`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NearTargets {
    /// A type that llama.cpp had until 2024, for an arrangement of `Q4_0` that programs make
    /// themselves now when they load it.
    Removed,
    /// The names that are nearest, best first; none where nothing resembles it.
    Names(Vec<&'static str>),
}

impl NearTargets {
    /// The targets with names like this one: spelt otherwise, longer, shorter, or with another
    /// letter or number, the nearest number first.
    ///
    /// ```
    /// use ggmill_quantize::NearTargets;
    /// let near = |name| match NearTargets::of(name) {
    ///     NearTargets::Names(names) => names.join(" "),
    ///     _ => "removed".to_owned(),
    /// };
    /// assert_eq!(near("q4km"), "Q4_K_M");
    /// assert_eq!(near("Q9_K"), "Q6_K");
    /// assert_eq!(near("Q4_0_4_4"), "removed");
    /// assert_eq!(near("out.gguf"), "");
    /// ```
    pub fn of(name: &str) -> Self {
        const REMOVED: [&str; 3] = ["Q4044", "Q4048", "Q4088"];
        /// Letters and digits of a name; those of a type have ten at most.
        const MAX_LEN: usize = 32;
        let word = plain(name);
        if REMOVED.contains(&&*word) {
            return Self::Removed;
        }
        if word.is_empty() || word.len() > MAX_LEN {
            return Self::Names(Vec::new());
        }
        let known: Vec<(&str, String)> =
            Target::all().map(|target| (target.name(), plain(target.name()))).collect();
        let found = by_beginning(&word, &known);
        Self::Names(if found.is_empty() { by_distance(&word, &known) } else { found })
    }
}

/// Letters and digits in upper case.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_uppercase()).collect()
}

/// The names that are the same but for what separates their parts, that begin with the word, or that
/// the word begins with.
fn by_beginning(word: &str, known: &[(&'static str, String)]) -> Vec<&'static str> {
    // Of so few letters there may be several.
    if word.len() == 2 && !known.iter().any(|(_, known)| *known == word) {
        let longer = known.iter().filter(|(_, known)| known.starts_with(word));
        return longer.map(|(name, _)| *name).collect();
    }
    let same = known.iter().find(|(_, known)| *known == word);
    let longer = || known.iter().find(|(_, known)| word.len() >= 3 && known.starts_with(word));
    let shorter = || {
        let shorter = known.iter().filter(|(_, known)| known.len() >= 3 && word.starts_with(known));
        shorter.max_by_key(|(_, known)| known.len())
    };
    same.or_else(longer).or_else(shorter).map(|(name, _)| *name).into_iter().collect()
}

/// The names that are nearest: with the fewest letters changed, then with the nearest number.
fn by_distance(word: &str, known: &[(&'static str, String)]) -> Vec<&'static str> {
    /// More are not named.
    const NAMED: usize = 3;
    let most = (word.len() / 3).max(1);
    let number = |text: &str| {
        let digits = text.chars().skip_while(|c| !c.is_ascii_digit());
        let digits: String = digits.take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(0)
    };
    let wanted = number(word);
    let rank = |known: &str| {
        // A word of two letters is compared with the beginning.
        let known = if word.len() == 2 { known.get(..2).unwrap_or(known) } else { known };
        (distance(known.as_bytes(), word.as_bytes()), number(known).abs_diff(wanted))
    };
    let ranks = known.iter().map(|(_, known)| rank(known));
    let Some(best) = ranks.filter(|(distance, _)| *distance <= most).min() else {
        return Vec::new();
    };
    let nearest = known.iter().filter(|(_, known)| rank(known) == best);
    nearest.map(|(name, _)| *name).take(NAMED).collect()
}

#[cfg(test)]
mod tests {
    use super::NearTargets;

    #[test]
    fn names_that_are_nearly_right() {
        for (typed, expected) in [
            ("q4km", "Q4_K_M"),
            ("MXFP4", "MXFP4_MOE"),
            ("Q4_K_XL", "Q4_K"),
            ("iq2", "IQ2_XXS"),
            ("q8", "Q8_0"),
            ("q5", "Q5_0 Q5_1 Q5_K Q5_K_S Q5_K_M"),
            ("Q9_K", "Q6_K"),
            ("Q7_K", "Q6_K"),
            ("q9", "Q8_0"),
            ("IQ5_XS", "IQ4_XS"),
            ("FP16", "F16"),
            ("fp32", "F32"),
            ("Q4_K_N", "Q4_K"),
            ("Q8_1", "Q8_0"),
            ("out.gguf", ""),
            ("model", ""),
            ("", ""),
        ] {
            let expected = expected.split_ascii_whitespace().collect();
            assert_eq!(NearTargets::of(typed), NearTargets::Names(expected), "{typed}");
        }
        assert_eq!(NearTargets::of("Q4_0_4_4"), NearTargets::Removed);
        assert_eq!(NearTargets::of(&"Q".repeat(1 << 20)), NearTargets::Names(Vec::new()));
    }
}
