//! Descriptions in a directory.

use crate::description::architecture::Architecture;
use crate::error::{Error, Result};

/// Text files of descriptions, by their paths in a directory with `/` between names: an
/// architecture in each TOML file, the source of its computation graphs in the file of the same name
/// with the ending `py`, and the parts that they include in `parts`. Where there are directories
/// `architectures` and `projectors`, the descriptions are in them, otherwise beside `parts`.
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
    /// The directories that files are looked for in, the whole one first.
    pub const DIRECTORIES: [&'static str; 4] = ["", "architectures", "projectors", "parts"];

    /// No files yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `true` if the file of this path has a place among the descriptions.
    pub fn takes(path: &str) -> bool {
        let (directory, name) = split(path);
        let is_source = has_extension(name, "py") && directory != "parts";
        Self::DIRECTORIES.contains(&directory) && (has_extension(name, "toml") || is_source)
    }

    /// Adds a file. One without a place is ignored.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.files.push((path.into(), text.into()));
    }

    /// The descriptions, in the order of their paths. Fails with the path of one that is wrong.
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

/// The directory and the name of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
