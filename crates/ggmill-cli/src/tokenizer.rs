//! The tokenizer in a file.

use std::path::Path;

use ggmill_tokenizer::{LoadOptions, Tokenizer};

use crate::console::Console;
use crate::outcome::Failure;
use crate::remote;
use crate::source::open;

/// Opens the tokenizer of a model, or of the files of a checkpoint, with this pre-tokenizer instead of
/// its own.
pub(crate) fn open_tokenizer(
    path: &Path,
    pre: Option<&str>,
    console: Console,
) -> Result<Tokenizer, Failure> {
    if path.as_os_str() == "-" {
        let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
        return Ok(open(path, false)?.tokenizer_with(&options)?);
    }
    let (tokenizer, notes) = remote::options(path)?.open_tokenizer(path, pre)?;
    for note in &notes {
        console.tell(note);
    }
    Ok(tokenizer)
}
