//! The positional arguments of `ggmill quantize`: IN [OUT] TYPE [THREADS].

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ggmill_core::RawStr;
use ggmill_quantize::{NearTargets, Target};

use crate::options::number_of_threads;
use crate::outcome::Failure;
use crate::remote;

/// The positional arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Positionals {
    pub(super) input: PathBuf,
    pub(super) output: PathBuf,
    /// The type; `None` only if another option chooses the types.
    pub(super) target: Option<Target>,
    pub(super) threads: Option<usize>,
}

impl Positionals {
    /// Parses the arguments. `option` is the value of `--type`. If `is_optional` is true, TYPE may be
    /// omitted.
    pub(super) fn parse(
        words: &[PathBuf],
        option: Option<Target>,
        is_optional: bool,
    ) -> Result<Self, Failure> {
        let (input, rest) =
            words.split_first().ok_or_else(|| Failure::new("no input was given"))?;
        let as_target = |word: &PathBuf| word.to_str().and_then(|word| word.parse().ok());
        // As in llama-quantize, a word that parses as a type is a type, not a file with this name.
        let (output, target, threads) = match (rest, option) {
            ([], option) if option.is_some() || is_optional => (None, option, None),
            ([output], Some(target)) => (Some(output), Some(target), None),
            ([word], None) if as_target(word).is_some() => (None, as_target(word), None),
            ([output], None) if is_optional => (Some(output), None, None),
            ([word, threads], None) if as_target(word).is_some() => {
                (None, as_target(word), Some(threads))
            }
            ([output, word], None) if as_target(word).is_some() => {
                (Some(output), as_target(word), None)
            }
            ([output, threads], None) if is_optional => (Some(output), None, Some(threads)),
            ([output, word, threads], None) if as_target(word).is_some() => {
                (Some(output), as_target(word), Some(threads))
            }
            ([word] | [_, word] | [_, word, _], None) => return Err(no_type(word)),
            _ => {
                return Err(Failure::new(
                    "expected IN [OUT] TYPE [THREADS], or IN [OUT] with --type",
                )
                .with_hint(Some(
                    "Q4_K_M is a common TYPE; `ggmill explain types` lists all".to_owned(),
                )));
            }
        };
        let default_output = || {
            input
                .parent()
                // The result of a remote model is written to the current directory.
                .filter(|_| !remote::is_remote(input))
                .unwrap_or(Path::new(""))
                .join(format!("ggml-model-{}.gguf", target.map_or("CUSTOM", Target::name)))
        };
        let number = |word: &PathBuf| word.to_str().and_then(|word| number_of_threads(word).ok());
        let threads = threads
            .map(|word| {
                number(word).ok_or_else(|| invalid(word, "not a number of threads up to 512"))
            })
            .transpose()?;
        Ok(Self {
            input: input.clone(),
            output: output.map_or_else(default_output, PathBuf::clone),
            target,
            threads,
        })
    }
}

fn no_type(word: &Path) -> Failure {
    let similar = word.to_str().and_then(similar_types);
    let hint = similar.unwrap_or_else(|| "Q4_K_M is a common choice".to_owned());
    invalid(word, "not a type to quantize to")
        .with_hint(Some(format!("{hint}; `ggmill explain types` lists all")))
}

/// Returns a suggestion for an unknown type name; `None` if no name is similar.
pub(super) fn similar_types(word: &str) -> Option<String> {
    match NearTargets::of(word) {
        NearTargets::Names(names) if names.is_empty() => None,
        NearTargets::Names(names) => Some(format!("perhaps {}", names.join(" or "))),
        _ => Some("it was removed: programs rearrange Q4_0 when they load it".to_owned()),
    }
}

fn invalid(word: &Path, what: &str) -> Failure {
    Failure::new(format_args!(
        "{:?} is {what}",
        RawStr::new(OsStr::as_encoded_bytes(word.as_os_str()))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(
        words: &[&str],
        is_optional: bool,
    ) -> Option<(String, Option<&'static str>, Option<usize>)> {
        let paths: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
        let parsed = Positionals::parse(&paths, None, is_optional).ok()?;
        Some((parsed.output.to_str()?.to_owned(), parsed.target.map(Target::name), parsed.threads))
    }

    #[test]
    fn positionals_are_parsed_as_by_llama_quantize() {
        let is = |output: &str, target, threads| Some((output.to_owned(), Some(target), threads));
        assert_eq!(
            parse(&["dir/in.gguf", "q4_k_m"], false),
            is("dir/ggml-model-Q4_K_M.gguf", "Q4_K_M", None)
        );
        assert_eq!(
            parse(&["in.gguf", "15", "3"], false),
            is("ggml-model-Q4_K.gguf", "Q4_K", Some(3))
        );
        assert_eq!(parse(&["in.gguf", "out.gguf", "7"], false), is("out.gguf", "Q8_0", None));
        assert_eq!(
            parse(&["in.gguf", "out.gguf", "copy", "2"], false),
            is("out.gguf", "COPY", Some(2))
        );
        for refused in [
            &["in.gguf", "out.gguf"][..],
            &["in.gguf"],
            &["in.gguf", "out.gguf", "Q9"],
            &["in.gguf", "Q8_0", "many"],
            &["in.gguf", "Q8_0", "999999999"],
        ] {
            assert_eq!(parse(refused, false), None, "{refused:?}");
        }
    }

    #[test]
    fn the_type_is_optional_if_another_option_chooses() {
        let is = |output: &str, target, threads| Some((output.to_owned(), target, threads));
        assert_eq!(parse(&["dir/in.gguf"], true), is("dir/ggml-model-CUSTOM.gguf", None, None));
        assert_eq!(parse(&["in.gguf", "out.gguf"], true), is("out.gguf", None, None));
        assert_eq!(parse(&["in.gguf", "out.gguf", "3"], true), is("out.gguf", Some("Q4_1"), None));
        assert_eq!(
            parse(&["in.gguf", "out.gguf", "Q8_0", "3"], true),
            is("out.gguf", Some("Q8_0"), Some(3))
        );
        assert_eq!(parse(&["in.gguf", "out.gguf", "Q9"], true), None);
    }
}
