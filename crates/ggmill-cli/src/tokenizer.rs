//! The tokenizer in a file.

use std::path::Path;

use ggmill_convert::{TokenizerFiles, convert_tokenizer};
use ggmill_tokenizer::{ErrorKind, LoadOptions, Tokenizer};

use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::source::open;

/// The tokenizer of a file, or any shard of a set, or of the files of a checkpoint, with this
/// pre-tokenizer if there is one.
pub(crate) fn open_tokenizer(
    path: &Path,
    pre: Option<&str>,
    console: Console,
) -> Result<Tokenizer, Failure> {
    if let Some(files) = TokenizerFiles::open(path).map_err(|error| failed(path, &error))? {
        return of_files(&files, path, pre, console);
    }
    let model = open(path, false)?;
    let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
    Tokenizer::with_options(&model.metadata(), &options).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::Missing => {
                Some("the file has no vocabulary, or an incomplete one".to_owned())
            }
            ErrorKind::UnknownPreTokenizer => {
                Some("--pre NAME tokenizes with a different pre-tokenizer".to_owned())
            }
            _ => None,
        };
        failed(path, &error).with_hint(hint)
    })
}

/// The tokenizer of files that are not a GGUF file; what is noteworthy about them is told.
fn of_files(
    files: &TokenizerFiles,
    path: &Path,
    pre: Option<&str>,
    console: Console,
) -> Result<Tokenizer, Failure> {
    let (metadata, remarks) = convert_tokenizer(files, pre).map_err(|error| {
        let hint = (error.kind() == ggmill_pipeline::ErrorKind::PreTokenizer)
            .then(|| "--pre NAME selects the pre-tokenizer".to_owned());
        failed(path, &error).with_hint(hint)
    })?;
    for remark in remarks {
        console.note(format_args!("{}: {remark}", shown(path)));
    }
    Tokenizer::from_entries(metadata).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: {error}", shown(path)))
}
