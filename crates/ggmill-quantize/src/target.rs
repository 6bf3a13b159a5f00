//! The target type of a file: its names and numbers, the default type of its tensors, and
//! suggestions for unknown names.

use std::fmt;
use std::str::FromStr;

use ggmill_arch::distance;
use ggmill_core::{FileType, GgmlType};

/// The target type of a file, with the names of `llama-quantize`.
///
/// ```
/// use ggmill_quantize::Target;
/// use ggmill_core::FileType;
/// let target = "q4_k_m".parse::<Target>().map_err(|_| "known")?;
/// assert_eq!((target.name(), target.file_type()), ("Q4_K_M", FileType::Q4_K_M));
/// assert_eq!("18".parse::<Target>().ok().map(|target| target.name()), Some("Q6_K"));
/// assert_eq!("Q9_Z".parse::<Target>().ok(), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(&'static Row);

/// A name, its file type, and the default type of the tensors.
#[derive(Debug, PartialEq, Eq)]
struct Row(&'static str, FileType, DefaultType);

#[derive(Debug, PartialEq, Eq)]
enum DefaultType {
    Is(GgmlType),
    /// Every tensor keeps its type.
    Copy,
}

macro_rules! targets {
    ($($name:ident $file_type:ident $ggml_type:ident;)*) => {
        &[$(Row(stringify!($name), FileType::$file_type, DefaultType::Is(GgmlType::$ggml_type)),)* COPY]
    };
}

const COPY: Row = Row("COPY", FileType::F32, DefaultType::Copy);

// A number selects the first row with that file type, as in the reference.
static TARGETS: &[Row] = targets! {
    Q1_0 Q1_0 Q1_0;
    Q2_0 Q2_0 Q2_0;
    Q4_0 Q4_0 Q4_0;
    Q4_1 Q4_1 Q4_1;
    MXFP4_MOE MXFP4_MOE MXFP4;
    NVFP4 NVFP4 NVFP4;
    Q5_0 Q5_0 Q5_0;
    Q5_1 Q5_1 Q5_1;
    IQ2_XXS IQ2_XXS IQ2_XXS;
    IQ2_XS IQ2_XS IQ2_XS;
    IQ2_S IQ2_S IQ2_XS;
    IQ2_M IQ2_M IQ2_S;
    IQ1_S IQ1_S IQ1_S;
    IQ1_M IQ1_M IQ1_M;
    TQ1_0 TQ1_0 TQ1_0;
    TQ2_0 TQ2_0 TQ2_0;
    Q2_K Q2_K Q2_K;
    Q2_K_S Q2_K_S Q2_K;
    IQ3_XXS IQ3_XXS IQ3_XXS;
    IQ3_S IQ3_S IQ3_S;
    IQ3_M IQ3_M IQ3_S;
    Q3_K Q3_K_M Q3_K;
    IQ3_XS IQ3_XS IQ3_S;
    Q3_K_S Q3_K_S Q3_K;
    Q3_K_M Q3_K_M Q3_K;
    Q3_K_L Q3_K_L Q3_K;
    IQ4_NL IQ4_NL IQ4_NL;
    IQ4_XS IQ4_XS IQ4_XS;
    Q4_K Q4_K_M Q4_K;
    Q4_K_S Q4_K_S Q4_K;
    Q4_K_M Q4_K_M Q4_K;
    Q5_K Q5_K_M Q5_K;
    Q5_K_S Q5_K_S Q5_K;
    Q5_K_M Q5_K_M Q5_K;
    Q6_K Q6_K Q6_K;
    Q8_0 Q8_0 Q8_0;
    F16 F16 F16;
    BF16 BF16 BF16;
    F32 F32 F32;
};

impl Target {
    /// Returns every target, including aliases.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TARGETS.iter().map(Self)
    }

    /// Returns the target that keeps the type of every tensor unless options say otherwise.
    pub fn copy() -> Self {
        Self(&COPY)
    }

    /// Returns the name, as `llama-quantize` spells it.
    pub fn name(self) -> &'static str {
        self.0.0
    }

    /// Returns the file type. Meaningless for a [copy](Self::is_copy), which keeps the file type of
    /// its source.
    pub fn file_type(self) -> FileType {
        self.0.1
    }

    /// Returns the type of tensors without a specific rule, or `None` for a copy.
    pub fn default_type(self) -> Option<GgmlType> {
        match self.0.2 {
            DefaultType::Is(ggml_type) => Some(ggml_type),
            DefaultType::Copy => None,
        }
    }

    /// Returns `true` if tensors keep their types.
    pub fn is_copy(self) -> bool {
        self.default_type().is_none()
    }
}

/// The text is not the name or number of a [`Target`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTarget(());

impl fmt::Display for UnknownTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a type such as Q4_K_M")
    }
}

impl std::error::Error for UnknownTarget {}

impl FromStr for Target {
    type Err = UnknownTarget;

    /// Parses a name, ignoring case, or a number.
    fn from_str(text: &str) -> Result<Self, UnknownTarget> {
        let by_name = TARGETS.iter().find(|row| row.0.eq_ignore_ascii_case(text));
        let by_number = || {
            let number = text.parse().ok()?;
            TARGETS.iter().find(|row| row.1 == FileType(number))
        };
        by_name.or_else(by_number).map(Self).ok_or(UnknownTarget(()))
    }
}

/// Suggestions for a name that is not a [`Target`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NearTargets {
    /// A repacked variant of `Q4_0` that llama.cpp removed in 2024: programs now repack `Q4_0` when
    /// they load it.
    Removed,
    /// The nearest names, best first. Empty if no name is similar.
    Names(Vec<&'static str>),
}

impl NearTargets {
    /// Returns the targets with similar names: spelt differently, longer, shorter, or with another
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
        /// The maximum length of a name that is compared. Names of targets have at most ten
        /// letters.
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

/// Returns the letters and digits of a name in upper case.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_uppercase()).collect()
}

/// Returns the name that equals the word except for separators, else one that begins with the word,
/// else one that the word begins with.
fn by_beginning(word: &str, known: &[(&'static str, String)]) -> Vec<&'static str> {
    // Two letters can be the beginning of several names.
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

/// Returns the nearest names: the fewest edits, then the nearest number.
fn by_distance(word: &str, known: &[(&'static str, String)]) -> Vec<&'static str> {
    /// The maximum number of suggestions.
    const NAMED: usize = 3;
    let most = (word.len() / 3).max(1);
    let number = |text: &str| {
        let digits = text.chars().skip_while(|c| !c.is_ascii_digit());
        let digits: String = digits.take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(0)
    };
    let wanted = number(word);
    let rank = |known: &str| {
        // A word of two letters is compared with the beginning of each name.
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
    fn similar_names_are_suggested() {
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
