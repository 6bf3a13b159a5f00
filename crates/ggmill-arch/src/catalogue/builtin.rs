//! The built-in descriptions, which the build script lists. Each one is decoded when it is first used.

use std::sync::OnceLock;

use crate::data;
use crate::data::coded::Coded;
use crate::data::schema::RawPart;
use crate::description::architecture::Architecture;
use crate::description::include::Parts;
use crate::error::Result;

/// A built-in description.
struct Builtin {
    name: &'static str,
    coded: &'static [u8],
    parsed: OnceLock<Box<Architecture>>,
}

impl Builtin {
    const fn new(name: &'static str, coded: &'static [u8]) -> Self {
        Self { name, coded, parsed: OnceLock::new() }
    }
}

// `BUILTIN`, `PROJECTORS` and `PARTS` have an entry per TOML file in data/architectures, data/projectors
// and data/parts; `PROGRAMS` has an entry per Python file in data/architectures. `BUILTIN_MARKS` and
// `PROJECTORS_MARKS` are the classes, model types and paths that identify checkpoints, in the same order;
// `BUILTIN_TEXTS` are the texts. They are separate statics, so that the linker drops unused ones.
include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

impl Builtin {
    // Tests parse every description and check its graph.
    fn get(&'static self) -> &'static Architecture {
        let read = || {
            let raw = Coded::decode(&mut data::input(self.coded));
            Box::new(
                Architecture::of_raw(raw, &BuiltinParts).expect("a test reads every description"),
            )
        };
        self.parsed.get_or_init(read)
    }
}

/// The built-in parts.
pub(crate) struct BuiltinParts;

impl Parts for BuiltinParts {
    fn names(&self) -> Vec<&str> {
        PARTS.iter().map(|(name, _)| *name).collect()
    }

    fn part(&self, name: &str) -> Option<Result<RawPart>> {
        let index = PARTS.binary_search_by_key(&name, |(part, _)| part).ok()?;
        let (_, coded) = PARTS.get(index)?;
        Some(Ok(RawPart::decode(&mut data::input(coded))))
    }

    fn program(&self, name: &str) -> Option<String> {
        let index = PROGRAMS.binary_search_by_key(&name, |(program, _)| program).ok()?;
        let (_, coded) = PROGRAMS.get(index)?;
        Some(String::decode(&mut data::input(coded)))
    }
}

/// The caller's parts, followed by the built-in ones.
struct AllParts<'a>(&'a [(&'a str, &'a str)]);

impl Parts for AllParts<'_> {
    fn names(&self) -> Vec<&str> {
        let mut names = self.0.names();
        names.extend(BuiltinParts.names());
        names
    }

    fn part(&self, name: &str) -> Option<Result<RawPart>> {
        self.0.part(name).or_else(|| BuiltinParts.part(name))
    }

    fn program(&self, name: &str) -> Option<String> {
        BuiltinParts.program(name)
    }
}

impl Architecture {
    /// Parses a description and checks everything that does not depend on a checkpoint: the schema,
    /// expressions and the names in them, roles, types, and the shapes in the computation graph.
    ///
    /// Takes O(*n* log *n*) time in the length of the description; the computation graph is checked on
    /// at most a few thousand generated models.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let error = Architecture::parse("schema = \"ggmill.architecture/1\"\nname = \"mine\"\ntitel = \"Mine\"").unwrap_err();
    /// assert!(error.to_string().starts_with("line 3, column 1: unknown field `titel`"), "{error}");
    /// ```
    pub fn parse(toml: &str) -> Result<Self> {
        Self::parse_with_parts(toml, &[])
    }

    /// Parses a description whose computation graphs are in a separate source file.
    ///
    /// Errors in the source begin with its line and column.
    pub fn parse_with_source(toml: &str, source: &str) -> Result<Self> {
        Self::parse_files(toml, Some(source), &[])
    }

    /// Parses a description that may include parts of the caller, given as pairs of name and text. They
    /// take precedence over built-in parts.
    pub fn parse_with_parts(toml: &str, parts: &[(&str, &str)]) -> Result<Self> {
        Self::parse_files(toml, None, parts)
    }

    /// Parses a description from its tables, the source of its graphs, and parts.
    pub(crate) fn parse_files(
        toml: &str,
        source: Option<&str>,
        parts: &[(&str, &str)],
    ) -> Result<Self> {
        let architecture = Self::read(toml, source, &AllParts(parts))?;
        architecture.check_graph()?;
        Ok(architecture)
    }

    /// Returns all built-in descriptions. Iterating decodes all of them; [`builtin`](Self::builtin)
    /// decodes only one.
    pub fn builtins() -> impl Iterator<Item = &'static Self> {
        BUILTIN.iter().map(Builtin::get)
    }

    /// Returns the built-in descriptions that may be for a checkpoint with these classes, model type or
    /// configuration paths. Decodes only these.
    pub(crate) fn builtins_marked(
        projectors: bool,
        is_mark: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &'static Self> {
        let (all, marks): (&'static [Builtin], &'static [&'static [&'static str]]) =
            if projectors { (&PROJECTORS, &PROJECTORS_MARKS) } else { (&BUILTIN, &BUILTIN_MARKS) };
        let has = move |marks: &[&str]| marks.iter().any(|mark| is_mark(mark));
        all.iter().zip(marks).filter(move |(_, marks)| has(marks)).map(|(all, _)| all.get())
    }

    /// Returns the built-in descriptions of projectors, which turn images and sound into input of a
    /// language model. All have the architecture `clip`; the class of a checkpoint determines the
    /// description.
    pub fn projectors() -> impl ExactSizeIterator<Item = &'static Self> {
        PROJECTORS.iter().map(Builtin::get)
    }

    /// Returns the built-in description of the architecture with this name.
    pub fn builtin(name: &str) -> Option<&'static Self> {
        BUILTIN.iter().find(|builtin| builtin.name == name).map(Builtin::get)
    }

    /// Returns the TOML text of the built-in description with this name, including the source of its
    /// computation graphs.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let text = Architecture::builtin_text("llama").ok_or("built in")?;
    /// assert_eq!(Architecture::parse(text)?.name(), "llama");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        let index = BUILTIN.iter().position(|builtin| builtin.name == name)?;
        BUILTIN_TEXTS.get(index).copied()
    }

    /// Returns the names of all built-in descriptions.
    pub fn builtin_names() -> impl ExactSizeIterator<Item = &'static str> {
        BUILTIN.iter().map(|builtin| builtin.name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::data::schema::{RawArchitecture, keep_what_files_need};

    #[test]
    fn every_graph_fits_the_tensors_in_every_branch() {
        // Each takes a fifth of a second.
        let step = if ggmill_testdata::is_long() { 1 } else { 12 };
        let graphs = Architecture::builtins().filter(|architecture| architecture.has_graph());
        let graphs: Vec<_> = graphs.step_by(step).collect();
        let errors: Vec<_> =
            graphs.iter().filter_map(|architecture| architecture.check_graph().err()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let checked = graphs.len();
        assert!(checked >= 10, "{checked}");
    }

    /// The build script checks only that the files are TOML with valid fields.
    #[test]
    fn every_description_is_named_after_its_file() {
        for (directory, is_projector) in [("architectures", false), ("projectors", true)] {
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(directory);
            for file in fs::read_dir(data).unwrap() {
                let path = file.unwrap().path();
                if path.extension().is_some_and(|ending| ending == "py") {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                let read = Architecture::read(&text, None, &BuiltinParts);
                let read = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert_eq!(read.is_projector(), is_projector, "{}", path.display());
                let name = path.file_stem().unwrap().to_str().unwrap();
                assert!(is_projector || read.name() == name, "{}", path.display());
            }
        }
    }

    #[test]
    fn every_description_file_is_built_in() {
        let files =
            fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/architectures")).unwrap();
        let mut names: Vec<_> = files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(Architecture::builtin_names().collect::<Vec<_>>(), names);
        assert_eq!(Architecture::builtins().map(Architecture::name).collect::<Vec<_>>(), names);
        let files =
            fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/projectors")).unwrap();
        let expected = if crate::data::coded::CHECKPOINTS { files.count() } else { 0 };
        assert_eq!(Architecture::projectors().len(), expected);
        assert!(Architecture::projectors().all(Architecture::is_projector));
    }

    /// The parts, reduced to what existing files need.
    struct PartsForFiles;

    impl Parts for PartsForFiles {
        fn names(&self) -> Vec<&str> {
            PARTS.iter().map(|(name, _)| *name).collect()
        }

        fn part(&self, name: &str) -> Option<Result<RawPart>> {
            let (_, coded) = PARTS.iter().find(|(part, _)| *part == name)?;
            let mut part = RawPart::decode(&mut data::input(coded));
            keep_what_files_need(&mut part.parameters, &mut part.keys);
            Some(Ok(part))
        }

        fn program(&self, name: &str) -> Option<String> {
            BuiltinParts.program(name)
        }
    }

    /// A build without checkpoints reads the same hyperparameters from files.
    #[test]
    fn files_are_read_without_checkpoint_sections() {
        for Builtin { name, coded, .. } in &BUILTIN {
            let mut raw = RawArchitecture::decode(&mut data::input(coded));
            keep_what_files_need(&mut raw.parameters, &mut raw.keys);
            let less = Architecture::of_raw(raw, &PartsForFiles).unwrap();
            let whole = Architecture::builtin(name).unwrap();
            let numbers = |of: &Architecture| {
                let mut numbers: Vec<_> = of
                    .outline_parameters()
                    .map(|one| format!("{} {:?} {:?}", one.name, one.keys, one.default))
                    .collect();
                // The order depends on the defaults, of which fewer remain.
                numbers.sort_unstable();
                numbers
            };
            assert_eq!(numbers(&less), numbers(whole), "{name}");
        }
    }

    #[test]
    fn decoded_descriptions_equal_their_files() {
        // Without checkpoints, only a part of a description is encoded.
        if !crate::data::coded::CHECKPOINTS {
            return;
        }
        let text = |directory: &str, name: &str| {
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
            fs::read_to_string(data.join(directory).join(format!("{name}.toml"))).unwrap()
        };
        for (directory, list) in [("architectures", &BUILTIN[..]), ("projectors", &PROJECTORS)] {
            for Builtin { name, coded, .. } in list {
                let mut input = data::input(coded);
                let decoded = RawArchitecture::decode(&mut input);
                let mut expected: RawArchitecture = toml::from_str(&text(directory, name)).unwrap();
                expected.computation.clone_from(&decoded.computation);
                assert_eq!(format!("{decoded:?}"), format!("{expected:?}"), "{name}");
                assert!(input.is_empty(), "{name}");
            }
        }
        for (name, coded) in PARTS {
            let mut input = data::input(coded);
            let decoded = RawPart::decode(&mut input);
            let expected = RawPart::parse(name, &text("parts", name)).unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{expected:?}"), "{name}");
            assert!(input.is_empty(), "{name}");
        }
    }
}
