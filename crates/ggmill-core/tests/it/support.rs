//! What several tests share: errors that compare, a decoder fed in pieces, files to try things on.

use std::fs;

use ggmill_core::{Decoder, Error, ErrorKind, Index, Limits, Progress, Subject};
use ggmill_testdata::{corpus, every_gguf};
use proptest::test_runner::Config;

/// What is promised of an error.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) kind: ErrorKind,
    pub(crate) offset: Option<u64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) tensor: Option<Vec<u8>>,
}

impl From<Error> for Told {
    fn from(error: Error) -> Self {
        let (key, tensor) = match error.subject() {
            Some(Subject::Key(key)) => (Some(key.as_bytes().to_vec()), None),
            Some(Subject::Tensor(name)) => (None, Some(name.as_bytes().to_vec())),
            _ => (None, None),
        };
        // A message is built for every error somebody sees, so it must not fail either.
        assert!(!error.to_string().is_empty());
        Self { kind: error.kind(), offset: error.offset(), key, tensor }
    }
}

/// What the reader of the whole file says.
pub(crate) fn whole(bytes: &[u8], limits: &Limits) -> Result<Index, Told> {
    Index::parse(bytes, limits).map_err(Told::from)
}

/// What the decoder says when the file comes in pieces of these sizes, over and over. Holds it to
/// asking for no more than there is, and for more than it has.
pub(crate) fn in_pieces(bytes: &[u8], limits: &Limits, sizes: &[usize]) -> Result<Index, Told> {
    let mut decoder = Decoder::new(Some(bytes.len() as u64), limits);
    let mut rest = bytes;
    let mut sizes = sizes.iter().copied().cycle();
    loop {
        let size = sizes.next().unwrap_or(1).clamp(1, rest.len().max(1)).min(rest.len());
        let (piece, behind) = rest.split_at(size);
        rest = behind;
        match decoder.feed(piece)? {
            Progress::Complete => break,
            Progress::Needs(end) => {
                assert!(end > decoder.position(), "asks for what it has");
                assert!(end <= bytes.len() as u64, "asks for byte {end} of {}", bytes.len());
            }
        }
    }
    Ok(decoder.finish()?.into_parts().0)
}

/// Every file of the corpus with its limits, then the real files.
pub(crate) fn files() -> Vec<(String, Vec<u8>, Limits)> {
    let built =
        corpus::all().into_iter().map(|case| (case.name.to_owned(), case.bytes, case.limits));
    let real = every_gguf()
        .into_iter()
        .map(|path| (path.display().to_string(), fs::read(path).unwrap(), Limits::default()));
    built.chain(real).collect()
}

/// A property tried so many times, or as often as the environment's `PROPTEST_CASES` says. What
/// fails becomes a file of the corpus or a test of its own, not a seed in a directory.
pub(crate) fn cases(cases: u32) -> Config {
    let cases =
        if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { cases };
    Config { cases, failure_persistence: None, ..Config::default() }
}
