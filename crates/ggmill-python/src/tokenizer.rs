//! The tokenizer of a model.

use std::path::PathBuf;

use ggmill::convert::{TokenizerFiles, convert_tokenizer};
use ggmill::tokenizer::{self as library, DecodeOptions, EncodeOptions, LoadOptions, Piece};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Result;
use crate::model::OpenModel;
use crate::threads;
use crate::value::bytes_of;

/// Text to tokens and tokens to text. Several threads may use one at once.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Tokenizer(pub(crate) library::Tokenizer);

#[pymethods]
impl Tokenizer {
    #[new]
    #[pyo3(signature = (model, *, pre = None))]
    fn new(py: Python<'_>, model: &OpenModel, pre: Option<String>) -> Result<Self> {
        let model = model.open()?;
        let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
        let made = py.detach(|| library::Tokenizer::with_options(&model.metadata(), &options))?;
        Ok(Self(made))
    }

    /// The tokenizer of its own files, a directory or one of them, with remarks; `None` where the
    /// path leads to something else, such as a model.
    #[staticmethod]
    #[pyo3(signature = (path, *, pre = None))]
    fn of_files(
        py: Python<'_>,
        path: PathBuf,
        pre: Option<&str>,
    ) -> Result<Option<(Self, Vec<String>)>> {
        let open = || -> Result<_> {
            let Some(files) = TokenizerFiles::open(&path)? else { return Ok(None) };
            let (metadata, remarks) = convert_tokenizer(&files, pre)?;
            Ok(Some((Self(library::Tokenizer::from_entries(metadata)?), remarks)))
        };
        py.detach(open).map_err(|failure| failure.at(&path))
    }

    fn __len__(&self) -> usize {
        self.0.vocabulary().len() as usize
    }

    /// The kind of tokenizer: `bpe`, `spm`, ….
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.vocabulary().kind().name()
    }

    #[getter]
    fn pre_tokenizer(&self) -> Option<&'static str> {
        self.0.vocabulary().pre_tokenizer()
    }

    /// The IDs of tokens that have a role, by role name.
    fn special_ids(&self) -> Vec<(&'static str, Option<u32>)> {
        let ids = self.0.vocabulary().special_ids();
        vec![
            ("bos", ids.bos),
            ("eos", ids.eos),
            ("eot", ids.eot),
            ("eom", ids.eom),
            ("unk", ids.unk),
            ("sep", ids.sep),
            ("pad", ids.pad),
            ("mask", ids.mask),
            ("fim_pre", ids.fim_pre),
            ("fim_suf", ids.fim_suf),
            ("fim_mid", ids.fim_mid),
            ("fim_pad", ids.fim_pad),
            ("fim_rep", ids.fim_rep),
            ("fim_sep", ids.fim_sep),
        ]
    }

    /// The tokens that end a text.
    fn end_of_generation(&self) -> Vec<u32> {
        self.0.vocabulary().end_of_generation().to_vec()
    }

    #[pyo3(signature = (text, *, add_special = true, parse_special = false))]
    fn encode(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>> {
        let (text, options) = (bytes_of(text)?, options(add_special, parse_special));
        let mut ids = Vec::new();
        py.detach(|| self.0.encode(&text, &options, &mut ids))?;
        Ok(ids)
    }

    /// IDs with the ranges that they are of: of bytes, or of characters of a `str`.
    #[pyo3(signature = (text, *, add_special = true, parse_special = false, characters = false))]
    fn encode_with_offsets(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        add_special: bool,
        parse_special: bool,
        characters: bool,
    ) -> Result<Vec<(u32, usize, usize)>> {
        let (text, options) = (bytes_of(text)?, options(add_special, parse_special));
        let pieces = py.detach(|| -> Result<Vec<Piece>> {
            let mut pieces = Vec::new();
            self.0.encode_with_offsets(&text, &options, &mut pieces)?;
            if characters {
                count_characters(&text, &mut pieces);
            }
            Ok(pieces)
        })?;
        Ok(pieces.into_iter().map(|piece| (piece.id, piece.start, piece.end)).collect())
    }

    /// The IDs of several texts, on several threads.
    #[pyo3(signature = (texts, *, add_special = true, parse_special = false, threads = None))]
    fn encode_batch(
        &self,
        py: Python<'_>,
        texts: Vec<Bound<'_, PyAny>>,
        add_special: bool,
        parse_special: bool,
        threads: Option<usize>,
    ) -> Result<Vec<Vec<u32>>> {
        let texts = texts.iter().map(bytes_of).collect::<Result<Vec<_>>>()?;
        let options = options(add_special, parse_special);
        Ok(py.detach(|| self.0.encode_batch(&texts, &options, threads::some(threads)))?)
    }

    /// The numbers of tokens of several texts, on several threads.
    #[pyo3(signature = (texts, *, add_special = true, parse_special = false, threads = None))]
    fn count_batch(
        &self,
        py: Python<'_>,
        texts: Vec<Bound<'_, PyAny>>,
        add_special: bool,
        parse_special: bool,
        threads: Option<usize>,
    ) -> Result<Vec<usize>> {
        let texts = texts.iter().map(bytes_of).collect::<Result<Vec<_>>>()?;
        let options = options(add_special, parse_special);
        Ok(py.detach(|| self.0.count_batch(&texts, &options, threads::some(threads)))?)
    }

    #[pyo3(signature = (text, *, add_special = true, parse_special = false))]
    fn count(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        add_special: bool,
        parse_special: bool,
    ) -> Result<usize> {
        let (text, options) = (bytes_of(text)?, options(add_special, parse_special));
        Ok(py.detach(|| self.0.count(&text, &options))?)
    }

    #[pyo3(signature = (ids, *, remove_special = false, unparse_special = false))]
    fn decode_bytes<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<u32>,
        remove_special: bool,
        unparse_special: bool,
    ) -> Result<Bound<'py, PyBytes>> {
        let options =
            DecodeOptions::new().remove_special(remove_special).unparse_special(unparse_special);
        let mut text = Vec::new();
        py.detach(|| self.0.decode(&ids, &options, &mut text))?;
        Ok(PyBytes::new(py, &text))
    }

    /// The bytes that a token stands for.
    fn piece<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, PyBytes>> {
        self.0.piece(id).map(|piece| PyBytes::new(py, piece))
    }

    /// The ID of a token by its text in the file.
    fn id(&self, text: &Bound<'_, PyAny>) -> Result<Option<u32>> {
        Ok(self.0.vocabulary().id(&bytes_of(text)?))
    }
}

/// Ranges of bytes as ranges of characters: all characters of which a token has a byte.
fn count_characters(text: &[u8], pieces: &mut [Piece]) {
    // In UTF-8 each byte that does not go on with a character begins one.
    let begins = |byte: &u8| byte & 0xc0 != 0x80;
    let (mut at, mut before) = (0, 0);
    for piece in pieces {
        // Ranges are in order; tokens of one character share its range.
        if piece.start < at {
            (at, before) = (0, 0);
        }
        let count = |range: &[u8]| range.iter().filter(|byte| begins(byte)).count();
        before += count(text.get(at..piece.start).unwrap_or_default());
        at = piece.start;
        let own = text.get(piece.start..piece.end).unwrap_or_default();
        let within = own.first().is_some_and(|first| !begins(first));
        piece.start = before - usize::from(within);
        piece.end = before + count(own);
    }
}

fn options(add_special: bool, parse_special: bool) -> EncodeOptions {
    EncodeOptions::new().add_special(add_special).parse_special(parse_special)
}
