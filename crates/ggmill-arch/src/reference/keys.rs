//! Standard metadata keys, and the keys that the specification and llama.cpp's loader require, with
//! references.

use ggmill_core::{Metadata, ValueType};

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

/// Lines of `key|type|section|line|use|definition`.
static SPECIFICATION: &str = include_str!("../../data/specification.txt");
/// Lines of `architecture|key|how|file|function`.
static LOADER: &str = include_str!("../../data/loader.txt");

/// The revision of the specification that line numbers refer to.
pub const SPECIFICATION_REVISION: &str = "docs/gguf.md of ggml, commit f18a111977d3 (22 July 2024)";
/// The revision of llama.cpp that functions refer to.
pub const LOADER_REVISION: &str = "llama.cpp, commit 0c1e57098bba (1 October 2026)";

/// A key that the specification requires in files of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpecifiedKey {
    /// The full key, such as `gpt2.context_length`.
    pub name: &'static str,
    /// The type in the specification: `u64` where most files have u32.
    pub type_name: &'static str,
    /// The section of the specification.
    pub section: &'static str,
    /// The line in [`SPECIFICATION_REVISION`].
    pub line: u32,
    /// If true, almost no file of the architecture has the key.
    pub is_rare: bool,
    /// The name under which another section of the specification defines the key, if it differs.
    pub definition: Option<&'static str>,
}

impl SpecifiedKey {
    /// Returns all specified keys in the order of the specification.
    ///
    /// ```
    /// use ggmill_arch::SpecifiedKey;
    /// let of_gpt2 = SpecifiedKey::all().filter(|key| key.architecture() == "gpt2");
    /// assert!(of_gpt2.clone().any(|key| key.name == "gpt2.context_length" && key.line == 537));
    /// assert!(!of_gpt2.clone().any(|key| key.name == "gpt2.feed_forward_length"));
    /// ```
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        lines(SPECIFICATION).filter_map(|line| {
            let mut fields = line.split('|');
            let mut field = || fields.next();
            Some(Self {
                name: field()?,
                type_name: field()?,
                section: field()?,
                line: field()?.parse().ok()?,
                is_rare: field()? == "rare",
                definition: field().filter(|name| !name.is_empty()),
            })
        })
    }

    /// Returns the requirement for this key, if the specification requires it for any architecture.
    pub fn of(key: &str) -> Option<Self> {
        Self::all().find(|specified| specified.name == key)
    }

    /// Returns the name of the architecture.
    pub fn architecture(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(architecture, _)| architecture)
    }

    /// Returns `true` if the metadata has the key under either name.
    pub fn is_in(&self, metadata: Metadata<'_>) -> bool {
        [Some(self.name), self.definition]
            .into_iter()
            .flatten()
            .any(|key| metadata.get(key).is_some())
    }
}

/// The way in which llama.cpp rejects a file without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The loader stops: "key not found in model".
    MissingKey,
    /// The loader uses 0, for which the tensors do not load.
    TakenAsZero,
}

/// A key that llama.cpp requires in files of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoaderKey {
    /// The architecture; `None` for all.
    pub architecture: Option<&'static str>,
    /// The key without the architecture prefix.
    pub key: &'static str,
    /// The consequence if the key is missing.
    pub refusal: Refusal,
    /// The source file in [`LOADER_REVISION`].
    pub file: &'static str,
    /// The function that rejects the file.
    pub function: &'static str,
}

impl LoaderKey {
    /// Returns all keys that the loader requires.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        lines(LOADER).filter_map(|line| {
            let mut fields = line.split('|');
            let mut field = || fields.next();
            Some(Self {
                architecture: Some(field()?).filter(|name| *name != "*"),
                key: field()?,
                refusal: match field()? {
                    "key" => Refusal::MissingKey,
                    "zero" => Refusal::TakenAsZero,
                    _ => return None,
                },
                file: field()?,
                function: field()?,
            })
        })
    }

    /// Returns the loader requirement for a full key in files of the architecture.
    ///
    /// ```
    /// use ggmill_arch::LoaderKey;
    /// let key = LoaderKey::of("gpt2", "gpt2.feed_forward_length").ok_or("required")?;
    /// assert_eq!(key.function, "llama_model_gpt2::load_arch_tensors");
    /// # Ok::<(), &str>(())
    /// ```
    pub fn of(architecture: &str, key: &str) -> Option<Self> {
        let own = key.strip_prefix(architecture).and_then(|rest| rest.strip_prefix('.'));
        let key = own.unwrap_or(key);
        Self::all().find(|loader| {
            loader.key == key && loader.architecture.is_none_or(|name| name == architecture)
        })
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> + Clone {
    text.lines().filter(|line| !line.starts_with('#'))
}
