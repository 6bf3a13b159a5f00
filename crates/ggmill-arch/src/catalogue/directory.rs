//! Descriptions in a directory.

use crate::description::architecture::Architecture;
use crate::error::{Error, Result};

/// The text files of descriptions, by path relative to a directory. Each TOML file is an architecture,
/// the Python file with the same stem is the source of its computation graphs, and the directory
/// `parts` contains the parts that they include. If there are directories `architectures` and
/// `projectors`, the descriptions are in them, otherwise in the directory itself.
///
/// ```
/// use ggmill_arch::{Architecture, DescriptionFiles};
/// let mut files = DescriptionFiles::new();
/// files.add("parts/norms.toml", "schema = \"ggmill.architecture-part/1\"");
/// files.add("mine.toml", "schema = \"ggmill.architecture/1\"\nname = \"mine\"\ntitle = \"Mine\"\ninclude = [\"norms\"]");
/// let architectures = files.parse().map_err(|(path, error)| format!("{path}: {error}"))?;
/// assert_eq!(architectures[0].name(), "mine");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DescriptionFiles {
    files: Vec<(String, String)>,
}

impl DescriptionFiles {
    /// The directories that may contain files; the empty one is the directory itself.
    pub const DIRECTORIES: [&'static str; 4] = ["", "architectures", "projectors", "parts"];

    /// Returns an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `true` for the path of a description, a source or a part.
    pub fn takes(path: &str) -> bool {
        let (directory, name) = split(path);
        let is_source = has_extension(name, "py") && directory != "parts";
        Self::DIRECTORIES.contains(&directory) && (has_extension(name, "toml") || is_source)
    }

    /// Adds a file. Other files are ignored.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.files.push((path.into(), text.into()));
    }

    /// Parses the descriptions in the order of their paths. The error has the path of the invalid one.
    pub fn parse(mut self) -> core::result::Result<Vec<Architecture>, (String, Error)> {
        self.files.sort();
        let in_directory = |wanted: &'static str| {
            let files = self.files.iter();
            let files = files.filter(|(path, _)| Self::takes(path) && has_extension(path, "toml"));
            files.filter(move |(path, _)| split(path).0 == wanted)
        };
        let parts: Vec<(&str, &str)> = in_directory("parts")
            .map(|(path, text)| (split(path).1.trim_end_matches(".toml"), text.as_str()))
            .collect();
        let read = |(path, text): &(String, String)| -> core::result::Result<_, _> {
            let source = path.strip_suffix("toml").map(|stem| format!("{stem}py"));
            let source = self.files.iter().find(|(other, _)| Some(other) == source.as_ref());
            let source = source.map(|(_, source)| source.as_str());
            let parsed: Result<_> = Architecture::parse_files(text, source, &parts);
            parsed.map_err(|error| (path.clone(), error))
        };
        let own = || in_directory("architectures").chain(in_directory("projectors"));
        if own().next().is_some() {
            return own().map(read).collect();
        }
        in_directory("").map(read).collect()
    }
}

/// Returns `true` if the extension of the path is `extension`, in lower case.
fn has_extension(path: &str, extension: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Splits a path into directory and file name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
