//! The tokenizer in a file.

use std::path::Path;

use ggmill_tokenizer::{ErrorKind, LoadOptions, Tokenizer};

use crate::outcome::Failure;
use crate::paths::shown;
use crate::source::open;

/// The tokenizer of a file, or any shard of a set, with this pre-tokenizer if there is one.
pub(crate) fn open_tokenizer(path: &Path, pre: Option<&str>) -> Result<Tokenizer, Failure> {
    let model = open(path, false)?;
    let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
    Tokenizer::with_options(&model.metadata(), &options).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::Missing => Some("the file has no vocabulary, or not all of it".to_owned()),
            ErrorKind::UnknownPreTokenizer => {
                Some("--pre NAME tokenizes with the rules of another name".to_owned())
            }
            _ => None,
        };
        Failure::new(format_args!("{}: {error}", shown(path))).with_hint(hint)
    })
}
