//! Metadata keys that have the same meaning for all architectures.

use ggmill_core::ValueType;

/// Lines of name, type and meaning. `{n}` matches a number or a name, `{arch}` the name of an
/// architecture.
static KEYS: &str = include_str!("../../data/keys.txt");

/// A metadata key with a meaning that does not depend on the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StandardKey {
    /// The name, with `{n}` for a number or a name, and the prefix `{arch}.` for keys of architectures.
    pub pattern: &'static str,
    /// The type: `u32`, or `array of string`. `u64` where the specification has it and most files have
    /// u32.
    pub type_name: &'static str,
    /// The meaning, in sentences.
    pub meaning: &'static str,
}

impl StandardKey {
    /// Returns all standard keys in the order of the specification.
    pub fn all() -> impl Iterator<Item = Self> {
        KEYS.lines().filter_map(|line| {
            let (pattern, rest) = line.split_once('|')?;
            let (type_name, meaning) = rest.split_once('|')?;
            Some(Self { pattern, type_name, meaning })
        })
    }

    /// Returns the standard key that a key matches. For keys of architectures, the first component may
    /// be any name.
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

    /// Returns `true` if the first component of the key is the name of an architecture.
    pub fn is_of_architecture(&self) -> bool {
        self.pattern.starts_with("{arch}.")
    }

    /// Returns the type of a single value and of array elements in files, which have u32 for most keys
    /// that the specification defines as u64.
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
