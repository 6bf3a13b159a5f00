//! Who requires a metadata key of a finished file, with the place that says so.

use ggmill_core::Metadata;

/// `key|type|section|line|use|definition` in each line.
static SPECIFICATION: &str = include_str!("../../data/specification.txt");
/// `architecture|key|how|file|function` in each line.
static LOADER: &str = include_str!("../../data/loader.txt");

/// The revision of the specification whose lines are counted.
pub const SPECIFICATION_REVISION: &str = "docs/gguf.md of ggml, commit f18a111977d3 (22 July 2024)";
/// The revision of llama.cpp whose functions are named.
pub const LOADER_REVISION: &str = "llama.cpp, commit 0c1e57098bba (1 October 2026)";

/// A key that the specification requires of the files of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpecifiedKey {
    /// The whole key, such as `gpt2.context_length`.
    pub name: &'static str,
    /// The type that the specification gives it, in words: `u64` where most files have u32.
    pub type_name: &'static str,
    /// The section that requires it.
    pub section: &'static str,
    /// The line, in [`SPECIFICATION_REVISION`].
    pub line: u32,
    /// Whether hardly any file of the architecture has it.
    pub is_rare: bool,
    /// The name under which another section of the specification defines it, where that differs.
    pub definition: Option<&'static str>,
}

impl SpecifiedKey {
    /// Every one, in the order of the specification.
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

    /// The one with this name; `None` for a key that the specification does not require of any
    /// architecture.
    pub fn of(key: &str) -> Option<Self> {
        Self::all().find(|specified| specified.name == key)
    }

    /// The name of the architecture.
    pub fn architecture(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(architecture, _)| architecture)
    }

    /// Whether a file with this metadata has the key, under either name.
    pub fn is_in(&self, metadata: Metadata<'_>) -> bool {
        [Some(self.name), self.definition]
            .into_iter()
            .flatten()
            .any(|key| metadata.get(key).is_some())
    }
}

/// How llama.cpp refuses a file without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It looks for the key and stops: "key not found in model".
    MissingKey,
    /// It takes the number as 0, with which the tensors do not load.
    TakenAsZero,
}

/// A key that llama.cpp requires of the files of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoaderKey {
    /// The architecture; `None` for every one.
    pub architecture: Option<&'static str>,
    /// The key without the architecture's name.
    pub key: &'static str,
    /// The consequence if it is missing.
    pub refusal: Refusal,
    /// The source file, in [`LOADER_REVISION`].
    pub file: &'static str,
    /// The function that refuses the file.
    pub function: &'static str,
}

impl LoaderKey {
    /// Every one.
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

    /// The loader requirement for this full key in files of the architecture.
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
