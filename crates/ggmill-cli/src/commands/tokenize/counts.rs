//! `--count` over files and directories.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill::count_tokens;
use ggmill_tokenizer::{EncodeOptions, Tokenizer};

use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::{shown, text_of};
use crate::progress::Bar;

/// The number of tokens of each file, and of all if there are several.
pub(super) fn print(
    tokenizer: &Tokenizer,
    options: EncodeOptions,
    paths: &[PathBuf],
    console: Console,
) -> Result<Status, Failure> {
    let is_single = matches!(paths, [path] if !path.is_dir());
    let mut bar = Bar::new(console);
    let mut out = console.text();
    let (mut done, mut sum, mut files) = (0u64, 0u64, 0usize);
    count_tokens(tokenizer, &options, paths, |count| {
        sum += count.tokens as u64;
        done += count.len;
        files += 1;
        if is_single {
            writeln!(out, "{}", count.tokens)?;
        } else {
            writeln!(out, "{:>12}  {}", count.tokens, shown(&count.path))?;
        }
        bar.update(done, count.total_len, &text_of(&count.path));
        Ok::<_, Failure>(())
    })?;
    if !is_single {
        writeln!(out, "{sum:>12}  all {files} files")?;
    }
    drop(bar);
    out.flush()?;
    Ok(Status::Fine)
}
