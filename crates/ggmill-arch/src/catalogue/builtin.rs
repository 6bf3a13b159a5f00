//! The descriptions compiled in, each read when it is first asked for. The build script lists them.

use std::sync::OnceLock;

use crate::data::coded::Coded;
use crate::data::compiled;
use crate::data::schema::RawPart;
use crate::description::architecture::Architecture;
use crate::description::include::Parts;
use crate::error::Result;

/// A description as it is compiled in.
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

// `BUILTIN`, `PROJECTORS`, `PARTS` and `PROGRAMS`: a line for each TOML file of data/architectures,
// data/projectors and data/parts, and each Python file of data/architectures. Beside the descriptions, in the same order, so that what a program does not ask
// for is not in it: `BUILTIN_MARKS` and `PROJECTORS_MARKS` are what tells the checkpoints each is
// for, classes, model types and places in a configuration; `BUILTIN_TEXTS` are the texts.
include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

impl Builtin {
    // Tests understand every description and check its graph.
    fn get(&'static self) -> &'static Architecture {
        let read = || {
            let raw = Coded::decode(&mut compiled::input(self.coded));
            Box::new(
                Architecture::of_raw(raw, &BuiltinParts).expect("a test reads every description"),
            )
        };
        self.parsed.get_or_init(read)
    }
}

/// The parts that come with this library.
pub(crate) struct BuiltinParts;

impl Parts for BuiltinParts {
    fn names(&self) -> Vec<&str> {
        PARTS.iter().map(|(name, _)| *name).collect()
    }

    fn part(&self, name: &str) -> Option<Result<RawPart>> {
        let place = PARTS.binary_search_by_key(&name, |(part, _)| part).ok()?;
        let (_, coded) = PARTS.get(place)?;
        Some(Ok(RawPart::decode(&mut compiled::input(coded))))
    }

    fn program(&self, name: &str) -> Option<String> {
        let place = PROGRAMS.binary_search_by_key(&name, |(program, _)| program).ok()?;
        let (_, coded) = PROGRAMS.get(place)?;
        Some(String::decode(&mut compiled::input(coded)))
    }
}

/// A caller's parts, and behind them those that come with this library.
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

    /// Reads a description whose computation graphs have a source file of their own.
    ///
    /// Errors in the source begin with its line and column.
    pub fn parse_with_source(toml: &str, source: &str) -> Result<Self> {
        Self::parse_files(toml, Some(source), &[])
    }

    /// Reads a description that may include parts of the caller's, name and text of each; they go
    /// before those that come with this library.
    pub fn parse_with_parts(toml: &str, parts: &[(&str, &str)]) -> Result<Self> {
        Self::parse_files(toml, None, parts)
    }

    /// Reads the files of a description: the tables, the source of the graphs, and parts.
    pub(crate) fn parse_files(
        toml: &str,
        source: Option<&str>,
        parts: &[(&str, &str)],
    ) -> Result<Self> {
        let architecture = Self::read(toml, source, &AllParts(parts))?;
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
        let (all, marks): (&'static [Builtin], &'static [&'static [&'static str]]) =
            if projectors { (&PROJECTORS, &PROJECTORS_MARKS) } else { (&BUILTIN, &BUILTIN_MARKS) };
        let has = move |marks: &[&str]| marks.iter().any(|mark| is_mark(mark));
        all.iter().zip(marks).filter(move |(_, marks)| has(marks)).map(|(all, _)| all.get())
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

    /// Returns the text of the built-in description with this name, in TOML with the source of its
    /// computation graphs: to read, or as the start of a new description.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let text = Architecture::builtin_text("llama").ok_or("built in")?;
    /// assert_eq!(Architecture::parse(text)?.name(), "llama");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        let place = BUILTIN.iter().position(|builtin| builtin.name == name)?;
        BUILTIN_TEXTS.get(place).copied()
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

    /// The build script checks only that the files are TOML with known fields.
    #[test]
    fn every_file_describes_what_its_name_says() {
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
    fn every_description_beside_the_source_is_built_in() {
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

    /// The parts, with what finished files need of them alone.
    struct OfFiles;

    impl Parts for OfFiles {
        fn names(&self) -> Vec<&str> {
            PARTS.iter().map(|(name, _)| *name).collect()
        }

        fn part(&self, name: &str) -> Option<Result<RawPart>> {
            let (_, coded) = PARTS.iter().find(|(part, _)| *part == name)?;
            let mut part = RawPart::decode(&mut compiled::input(coded));
            keep_what_files_need(&mut part.parameters, &mut part.keys);
            Some(Ok(part))
        }

        fn program(&self, name: &str) -> Option<String> {
            BuiltinParts.program(name)
        }
    }

    /// A build without checkpoints reads the hyperparameters of files as any other.
    #[test]
    fn files_are_read_the_same_without_what_only_checkpoints_need() {
        for Builtin { name, coded, .. } in &BUILTIN {
            let mut raw = RawArchitecture::decode(&mut compiled::input(coded));
            keep_what_files_need(&mut raw.parameters, &mut raw.keys);
            let less = Architecture::of_raw(raw, &OfFiles).unwrap();
            let whole = Architecture::builtin(name).unwrap();
            let numbers = |of: &Architecture| {
                let mut numbers: Vec<_> = of
                    .outline_parameters()
                    .map(|one| format!("{} {:?} {:?}", one.name, one.keys, one.default))
                    .collect();
                // Those that defaults use come first, and fewer defaults are left.
                numbers.sort_unstable();
                numbers
            };
            assert_eq!(numbers(&less), numbers(whole), "{name}");
        }
    }

    /// What is compiled in is what the texts say, to the last byte.
    #[test]
    fn descriptions_are_coded_and_decoded_without_a_change() {
        // Without their part of checkpoints they are less than their texts.
        if !crate::data::coded::CHECKPOINTS {
            return;
        }
        let text = |directory: &str, name: &str| {
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
            fs::read_to_string(data.join(directory).join(format!("{name}.toml"))).unwrap()
        };
        for (directory, list) in [("architectures", &BUILTIN[..]), ("projectors", &PROJECTORS)] {
            for Builtin { name, coded, .. } in list {
                let mut input = compiled::input(coded);
                let decoded = RawArchitecture::decode(&mut input);
                let mut expected: RawArchitecture = toml::from_str(&text(directory, name)).unwrap();
                expected.computation.clone_from(&decoded.computation);
                assert_eq!(format!("{decoded:?}"), format!("{expected:?}"), "{name}");
                assert!(input.is_empty(), "{name}");
            }
        }
        for (name, coded) in PARTS {
            let mut input = compiled::input(coded);
            let decoded = RawPart::decode(&mut input);
            let expected = RawPart::parse(name, &text("parts", name)).unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{expected:?}"), "{name}");
            assert!(input.is_empty(), "{name}");
        }
    }
}
