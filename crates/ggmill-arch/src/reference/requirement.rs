//! The metadata keys that the specification and llama.cpp's loader require, with references.

use ggmill_core::Metadata;

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
