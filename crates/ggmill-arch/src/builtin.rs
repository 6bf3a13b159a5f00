//! The descriptions compiled in, each read when it is first asked for. The build script lists them.

use std::sync::OnceLock;

use crate::architecture::Architecture;
use crate::error::Result;

/// A description with its text.
struct Builtin {
    name: &'static str,
    text: &'static str,
    /// What tells the checkpoints it is for: classes, model types and places in a configuration.
    marks: &'static [&'static str],
    parsed: OnceLock<Architecture>,
}

impl Builtin {
    const fn new(name: &'static str, text: &'static str, marks: &'static [&'static str]) -> Self {
        Self { name, text, marks, parsed: OnceLock::new() }
    }
}

// `BUILTIN`, `PROJECTORS` and `PARTS`: a line for each file of data/architectures, data/projectors
// and data/parts.
include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

impl Builtin {
    // The build script has read the same text with the same code; a test checks the graphs.
    fn get(&'static self) -> &'static Architecture {
        let read = || Architecture::read(self.text, PARTS).expect("read when it was built");
        self.parsed.get_or_init(read)
    }
}

/// The text of the built-in description with this name.
pub(crate) fn text_of(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|builtin| builtin.name == name).map(|builtin| builtin.text)
}

impl Architecture {
    /// Reads a description. Everything that does not depend on a checkpoint is checked: the schema,
    /// the expressions and the names in them, roles, types, and the shapes in the computation graph.
    ///
    /// Time grows with the length of the description and its logarithm; a computation graph is
    /// checked on at most some thousand made-up models.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let error = Architecture::parse("schema = \"ggmill.architecture/1\"\nname = \"mine\"\ntitel = \"Mine\"").unwrap_err();
    /// assert!(error.to_string().starts_with("line 3, column 1: unknown field `titel`"), "{error}");
    /// ```
    pub fn parse(toml: &str) -> Result<Self> {
        Self::parse_with_parts(toml, &[])
    }

    /// Reads a description that may include parts of the caller's, name and text of each; they go
    /// before those that come with this library.
    pub fn parse_with_parts(toml: &str, parts: &[(&str, &str)]) -> Result<Self> {
        let architecture = Self::read(toml, &[parts, PARTS].concat())?;
        architecture.check_graph()?;
        Ok(architecture)
    }

    /// The descriptions that come with this library. All of them are read; one by name is read
    /// alone.
    pub fn builtins() -> impl Iterator<Item = &'static Self> {
        BUILTIN.iter().map(Builtin::get)
    }

    /// The built-in descriptions that may be for a checkpoint of these classes, of this model type,
    /// or with these places in its configuration. Only they are read.
    pub(crate) fn builtins_marked(
        projectors: bool,
        is_mark: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &'static Self> {
        let has = move |builtin: &&Builtin| builtin.marks.iter().any(|mark| is_mark(mark));
        let all: &'static [Builtin] = if projectors { &PROJECTORS } else { &BUILTIN };
        all.iter().filter(has).map(Builtin::get)
    }

    /// The built-in descriptions of projectors: the files beside a model that turn images and sound
    /// into its input. All are of the architecture `clip`; a checkpoint's class tells which it has.
    pub fn projectors() -> impl ExactSizeIterator<Item = &'static Self> {
        PROJECTORS.iter().map(Builtin::get)
    }

    /// The built-in description of the architecture with this name.
    pub fn builtin(name: &str) -> Option<&'static Self> {
        BUILTIN.iter().find(|builtin| builtin.name == name).map(Builtin::get)
    }

    /// The names of the built-in descriptions.
    pub fn builtin_names() -> impl ExactSizeIterator<Item = &'static str> {
        BUILTIN.iter().map(|builtin| builtin.name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_graph_fits_the_tensors_in_every_branch() {
        let graphs: Vec<_> =
            Architecture::builtins().filter(|architecture| architecture.has_graph()).collect();
        let errors: Vec<_> =
            graphs.iter().filter_map(|architecture| architecture.check_graph().err()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let checked = graphs.len();
        assert!(checked >= 10, "{checked}");
    }

    #[test]
    fn every_description_beside_the_source_is_built_in() {
        let files =
            fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/architectures")).unwrap();
        let mut names: Vec<_> = files
            .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(Architecture::builtin_names().collect::<Vec<_>>(), names);
        assert_eq!(Architecture::builtins().map(Architecture::name).collect::<Vec<_>>(), names);
        let files =
            fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/projectors")).unwrap();
        assert_eq!(Architecture::projectors().len(), files.count());
        assert!(Architecture::projectors().all(Architecture::is_projector));
    }
}
