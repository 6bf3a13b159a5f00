//! Helpers: comparable errors, a decoder fed in pieces, the files to test.

use std::fs;

use ggmill_core::{Decoder, Error, ErrorKind, Header, Limits, Progress, Subject};
use ggmill_testdata::{corpus, every_gguf};
use proptest::test_runner::Config;

/// The stable properties of an error.
#[derive(Debug, PartialEq)]
pub(crate) struct Reported {
    pub(crate) kind: ErrorKind,
    pub(crate) offset: Option<u64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) tensor: Option<Vec<u8>>,
}

impl From<Error> for Reported {
    fn from(error: Error) -> Self {
        let (key, tensor) = match error.subject() {
            Some(Subject::Key(key)) => (Some(key.as_bytes().to_vec()), None),
            Some(Subject::Tensor(name)) => (None, Some(name.as_bytes().to_vec())),
            _ => (None, None),
        };
        // Formatting the message must not fail either.
        assert!(!error.to_string().is_empty());
        Self { kind: error.kind(), offset: error.offset(), key, tensor }
    }
}

/// Parses a whole file.
pub(crate) fn whole<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Header<'a>, Reported> {
    Header::parse_with(bytes, limits).map_err(Reported::from)
}

/// Parses a file in pieces of these sizes, repeated as needed. Checks that the decoder requests more
/// than it has and no more than the file has.
pub(crate) fn in_pieces(
    bytes: &[u8],
    limits: &Limits,
    sizes: &[usize],
) -> Result<Header<'static>, Reported> {
    let mut decoder = Decoder::new(Some(bytes.len() as u64), limits);
    let mut rest = bytes;
    let mut sizes = sizes.iter().copied().cycle();
    loop {
        let size = sizes.next().unwrap_or(1).clamp(1, rest.len().max(1)).min(rest.len());
        let (piece, remaining) = rest.split_at(size);
        rest = remaining;
        match decoder.feed(piece)? {
            Progress::Complete => break,
            Progress::Needs(end) => {
                assert!(end > decoder.position(), "asks for what it has");
                assert!(end <= bytes.len() as u64, "asks for byte {end} of {}", bytes.len());
            }
        }
    }
    Ok(decoder.finish()?)
}

/// Returns every file of the corpus with its limits, then the real files.
pub(crate) fn files() -> Vec<(String, Vec<u8>, Limits)> {
    let built =
        corpus::all().into_iter().map(|case| (case.name.to_owned(), case.bytes, case.limits));
    let real = every_gguf()
        .into_iter()
        .map(|path| (path.display().to_string(), fs::read(path).unwrap(), Limits::default()));
    built.chain(real).collect()
}

/// Configures the number of cases of a property test, which the environment variable `PROPTEST_CASES`
/// overrides. Failures are not saved as seeds: each becomes a file of the corpus or a test.
pub(crate) fn cases(cases: u32) -> Config {
    let cases =
        if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { cases };
    Config { cases, failure_persistence: None, ..Config::default() }
}
