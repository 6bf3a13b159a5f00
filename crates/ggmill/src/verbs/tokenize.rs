//! Opening tokenizers, and counting the tokens of files.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use ggmill_convert::{LibraryTokenizer, TokenizerFiles, convert_tokenizer};
use ggmill_pipeline::ErrorKind;
use ggmill_tokenizer::{EncodeOptions, LoadOptions, Tokenizer};

use crate::{Error, Hint, Note, OpenOptions, Result, read_bytes};

/// The maximum size of a text, in bytes: the limit of the tokenizer.
const MAX_TEXT: u64 = i32::MAX as u64;

impl OpenOptions {
    /// Opens the tokenizer of a model, or of the tokenizer files of a checkpoint: their directory, or
    /// a file in the format of `tokenizer.json`, `tokenizer.model`, `vocab.json` or `tekken.json`.
    /// `pre` replaces its pre-tokenizer. Also returns the facts worth knowing about the files.
    pub fn open_tokenizer(
        &self,
        path: impl AsRef<Path>,
        pre: Option<&str>,
    ) -> Result<(Tokenizer, Vec<Note>)> {
        let path = path.as_ref();
        let located = |error: Error| error.replace_hint(None::<Hint>).within(path);
        let files = TokenizerFiles::open(path).map_err(|error| located(error.into()))?;
        let Some(files) = files else {
            let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
            return Ok((self.open(path)?.tokenizer_with(&options)?, Vec::new()));
        };
        let (metadata, remarks) = convert_tokenizer(&files, pre).map_err(|error| {
            let hint =
                (error.kind() == ErrorKind::PreTokenizer).then_some(Hint::SelectPreTokenizer);
            located(error.into()).with_hint(hint)
        })?;
        let notes = remarks.into_iter().map(|remark| Note::File(path.to_owned(), remark)).collect();
        let tokenizer = Tokenizer::from_entries(metadata).map_err(|error| located(error.into()))?;
        Ok((tokenizer, notes))
    }

    /// Opens the tokenizer of a `tokenizer.json` or of its directory as the `tokenizers` library reads
    /// it. Returns `None` if the path is that of another model or tokenizer.
    pub fn open_library_tokenizer(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Option<LibraryTokenizer>> {
        let path = path.as_ref();
        let located = |error: ggmill_pipeline::Error| {
            Error::from(error).replace_hint(None::<Hint>).within(path)
        };
        let Some(files) = TokenizerFiles::open(path).map_err(located)? else { return Ok(None) };
        LibraryTokenizer::open(&files).map_err(located)
    }
}

/// The number of tokens of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenCount {
    /// The file.
    pub path: PathBuf,
    /// The number of tokens.
    pub tokens: usize,
    /// The length of the file in bytes when it was listed.
    pub len: u64,
    /// The total length of all files, in bytes.
    pub total_len: u64,
}

/// Counts the tokens of files, and of the files in directories, on several threads. Calls `counted` with
/// each count, in the order of the names. Links in a directory are not followed. `-` is standard input.
pub fn count_tokens<E: From<Error>>(
    tokenizer: &Tokenizer,
    options: &EncodeOptions,
    paths: &[PathBuf],
    mut counted: impl FnMut(TokenCount) -> Result<(), E>,
) -> Result<(), E> {
    let mut files = Vec::new();
    for path in paths {
        find_files(path, &mut files)?;
    }
    let total_len = files.iter().map(|(_, len)| len).sum();
    let threads = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut rest = &*files;
    while !rest.is_empty() {
        let (some, others) = rest.split_at(batch_len(rest));
        rest = others;
        let texts = some
            .iter()
            .map(|(path, _)| read_bytes(path, MAX_TEXT))
            .collect::<Result<Vec<Vec<u8>>>>()?;
        let counts = tokenizer.count_batch(&texts, options, threads).or_else(|_| {
            // Counted one by one, to find the file with the error.
            let count = |(text, (path, _)): (&Vec<u8>, &(PathBuf, u64))| {
                tokenizer.count(text, options).map_err(|error| Error::from(error).at(path))
            };
            texts.iter().zip(some).map(count).collect::<Result<Vec<usize>>>()
        })?;
        for (tokens, (path, len)) in counts.into_iter().zip(some) {
            counted(TokenCount { path: path.clone(), tokens, len: *len, total_len })?;
        }
    }
    Ok(())
}

/// Returns the number of files to read and count at once: up to 32 MiB in total, and at least one.
fn batch_len(files: &[(PathBuf, u64)]) -> usize {
    const MOST: u64 = 32 << 20;
    let mut sum = 0u64;
    let fits = files.iter().take_while(|(_, len)| {
        sum = sum.saturating_add(*len);
        sum <= MOST
    });
    fits.count().max(1)
}

/// Finds the files at a path, with their lengths.
fn find_files(path: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<()> {
    let failed = |path: &Path, error: std::io::Error| Error::from(error).at(path);
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.as_os_str() == "-" || !path.is_dir() {
            let len = std::fs::metadata(&path).map_or(0, |found| found.len());
            files.push((path, len));
            continue;
        }
        let entries = std::fs::read_dir(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = entries.map_err(|error| failed(&path, error))?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries.into_iter().rev() {
            let kind = entry.file_type().map_err(|error| failed(&entry.path(), error))?;
            if kind.is_file() || kind.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}
