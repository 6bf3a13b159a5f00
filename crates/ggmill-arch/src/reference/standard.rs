//! The keys that mean the same in every file: what the specification lists, and what readers take
//! for any architecture.

use ggmill_core::ValueType;

/// Name, type and meaning in each line. `{n}` stands for a number or a name, `{arch}` for the name
/// of an architecture.
static KEYS: &str = include_str!("../../data/keys.txt");

/// A metadata key with a meaning that does not depend on the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StandardKey {
    /// Its name, with `{n}` for a number or a name and `{arch}.` in front of what each
    /// architecture has.
    pub pattern: &'static str,
    /// Its type in words: `u32`, or `array of string`. `u64` where the specification has that and
    /// most files have u32.
    pub type_name: &'static str,
    /// Its meaning, in sentences.
    pub meaning: &'static str,
}

impl StandardKey {
    /// Every one, in the order of the specification.
    pub fn all() -> impl Iterator<Item = Self> {
        KEYS.lines().filter_map(|line| {
            let (pattern, rest) = line.split_once('|')?;
            let (type_name, meaning) = rest.split_once('|')?;
            Some(Self { pattern, type_name, meaning })
        })
    }

    /// The one that a key is; the first part of the key may be any name where it stands for an
    /// architecture.
    ///
    /// ```
    /// use ggmill_arch::StandardKey;
    /// let key = StandardKey::of("unknown.rope.freq_base").ok_or("standard")?;
    /// assert_eq!((key.pattern, key.type_name), ("{arch}.rope.freq_base", "f32"));
    /// assert_eq!(StandardKey::of("general.base_model.0.colour"), None);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn of(key: &str) -> Option<Self> {
        Self::all().find(|standard| standard.fits(key))
    }

    /// Whether its first part stands for the name of an architecture.
    pub fn is_of_architecture(&self) -> bool {
        self.pattern.starts_with("{arch}.")
    }

    /// The type it has, alone or as the elements of an array: in files, which have u32 for most of
    /// what the specification calls u64.
    pub fn types(&self) -> (Option<ValueType>, Option<ValueType>) {
        let in_files =
            |name: &str| (if name == "u64" { "u32" } else { name }).parse::<ValueType>().ok();
        match self.type_name.strip_prefix("array of ") {
            Some(element) => (None, in_files(element)),
            None => (in_files(self.type_name), None),
        }
    }

    fn fits(&self, key: &str) -> bool {
        match (self.pattern.strip_prefix("{arch}."), self.pattern.split_once("{n}")) {
            (Some(pattern), _) => key.split_once('.').is_some_and(|(_, own)| pattern == own),
            (None, Some((before, after))) => {
                let number = key.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                number.is_some_and(|number| !number.is_empty() && !number.contains('.'))
            }
            (None, None) => self.pattern == key,
        }
    }
}
