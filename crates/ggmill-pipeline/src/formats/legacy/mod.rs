//! The formats before GGUF: GGML without a version, GGMF, and GGJT 1 to 3.
//!
//! They do not state their architecture. LLaMA files are read completely; those of Whisper and
//! RWKV, which has its own version and type numbers, are recognized and listed.

use std::fmt;
use std::path::Path;

use ggmill_core::{Endian, GgmlType, Shape};
use ggmill_io::RandomAccess;

use crate::formats::legacy::blocks::{Blocks, Era};
use crate::{Checkpoint, Error, ErrorKind, FileRange, Result, SourceTensor};

mod blocks;

/// The reference's limit for tokens and tensor names, exclusive.
const MAX_NAME_LEN: u32 = 4096;
/// Limit for the bytes of all tokens; LLaMA's vocabulary has 250,000.
const MAX_TOKEN_BYTES: u64 = 64 << 20;
/// Limit for the number of tokens, above any vocabulary of 2023.
const MAX_TOKENS: u32 = 1 << 20;
/// Limit for the number of tensors, above any model of 2023.
const MAX_TENSORS: usize = 1 << 16;

/// A container format before GGUF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyContainer {
    /// GGML, which has no version.
    Ggml,
    /// GGMF; version 1, and 100 and 101 of RWKV.
    Ggmf(u32),
    /// GGJT, versions 1 to 3: tensor data begins at multiples of 32.
    Ggjt(u32),
}

impl LegacyContainer {
    /// Returns the magic as text.
    pub fn magic(self) -> &'static str {
        match self {
            Self::Ggml => "GGML",
            Self::Ggmf(_) => "GGMF",
            Self::Ggjt(_) => "GGJT",
        }
    }

    /// Returns the version; 1 for GGML, which has none.
    pub fn version(self) -> u32 {
        match self {
            Self::Ggml => 1,
            Self::Ggmf(version) | Self::Ggjt(version) => version,
        }
    }
}

impl fmt::Display for LegacyContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ggml => f.write_str("GGML"),
            Self::Ggmf(version) => write!(f, "GGMF version {version}"),
            Self::Ggjt(version) => write!(f, "GGJT version {version}"),
        }
    }
}

/// The program that wrote a legacy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyFamily {
    /// llama.cpp in 2023.
    Llama,
    /// whisper.cpp.
    Whisper,
    /// rwkv.cpp.
    Rwkv,
}

impl fmt::Display for LegacyFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Llama => "LLaMA",
            Self::Whisper => "Whisper",
            Self::Rwkv => "RWKV",
        })
    }
}

const LLAMA: [&str; 7] = ["n_vocab", "n_embd", "n_mult", "n_head", "n_layer", "n_rot", "ftype"];
const RWKV: [&str; 4] = ["n_vocab", "n_embed", "n_layer", "data_type"];
const WHISPER: [&str; 11] = [
    "n_vocab",
    "n_audio_ctx",
    "n_audio_state",
    "n_audio_head",
    "n_audio_layer",
    "n_text_ctx",
    "n_text_state",
    "n_text_head",
    "n_text_layer",
    "n_mels",
    "ftype",
];
/// The number of frequencies of Whisper's mel filters.
const WHISPER_FREQUENCIES: u32 = 201;

/// A model file of a format before GGUF.
#[derive(Debug)]
pub struct Legacy {
    file: RandomAccess,
    container: LegacyContainer,
    family: LegacyFamily,
    parameters: Vec<(&'static str, u32)>,
    vocabulary: Vec<(Vec<u8>, f32)>,
    tensors: Vec<SourceTensor>,
    /// The offset and block layout of each tensor's data.
    places: Vec<(u64, Blocks)>,
}

impl Legacy {
    /// Opens a file. Fails if it has another format, is of an unknown model, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let file = RandomAccess::open(path)?;
        let bad = |message: &str| Error::new(ErrorKind::Checkpoint, message).file(file.path());
        let mut reader = Reader::new(&file);
        let magic = reader.take(4)?.to_vec();
        let container = match &*magic {
            b"lmgg" => LegacyContainer::Ggml,
            b"fmgg" => LegacyContainer::Ggmf(reader.u32()?),
            b"tjgg" => LegacyContainer::Ggjt(reader.u32()?),
            _ => return Err(bad("is not a legacy file (a format before GGUF)")),
        };
        let family = match container {
            LegacyContainer::Ggml if reader.is_whisper() => LegacyFamily::Whisper,
            LegacyContainer::Ggml | LegacyContainer::Ggmf(1) | LegacyContainer::Ggjt(1..=3) => {
                LegacyFamily::Llama
            }
            LegacyContainer::Ggmf(100 | 101) => LegacyFamily::Rwkv,
            other => return Err(bad(&format!("{other} is unknown"))),
        };
        let mut parts = Parts {
            container,
            family,
            parameters: Vec::new(),
            vocabulary: Vec::new(),
            tensors: Vec::new(),
            places: Vec::new(),
        };
        parts.read(&mut reader).map_err(|error| match container {
            // Many programs used this magic, and the file does not name the program.
            LegacyContainer::Ggml if error.kind() != ErrorKind::Unsupported => {
                let message = format!(
                    "is a GGML file of a model other than LLaMA or Whisper, or damaged: read as \
                     one of these, {error}"
                );
                Error::new(ErrorKind::Checkpoint, message).file(file.path())
            }
            _ => error.file(file.path()),
        })?;
        let Parts { parameters, vocabulary, tensors, places, .. } = parts;
        Ok(Self { file, container, family, parameters, vocabulary, tensors, places })
    }

    /// Returns the container format.
    pub fn container(&self) -> LegacyContainer {
        self.container
    }

    /// Returns the program that wrote it.
    pub fn family(&self) -> LegacyFamily {
        self.family
    }

    /// Returns the hyperparameters in the order of the file, with the names of their program.
    pub fn parameters(&self) -> &[(&'static str, u32)] {
        &self.parameters
    }

    /// Returns a hyperparameter; 0 if there is none of this name.
    pub fn parameter(&self, name: &str) -> u32 {
        self.parameters.iter().find(|(found, _)| *found == name).map_or(0, |(_, value)| *value)
    }

    /// Returns the tokens with their scores, which are 0 if the format has none.
    pub fn vocabulary(&self) -> impl ExactSizeIterator<Item = (&[u8], f32)> {
        self.vocabulary.iter().map(|(token, score)| (&**token, *score))
    }

    /// Returns the offset and stored size of tensor `number`.
    pub fn place(&self, number: usize) -> Option<(u64, u64)> {
        let (start, blocks) = self.places.get(number)?;
        Some((*start, blocks.stored_size(self.tensors.get(number)?.shape.elements())?))
    }

    /// Returns how the blocks of tensor `number` differ from the current layout; `None` if they do
    /// not.
    pub fn block_note(&self, number: usize) -> Option<&'static str> {
        self.places.get(number)?.1.note()
    }

    /// Returns the path it was opened by.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

impl Checkpoint for Legacy {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    /// Converts blocks to the current layout.
    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let ((start, blocks), tensor) = self
            .places
            .get(number)
            .zip(self.tensors.get(number))
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        let size = tensor
            .ggml_type
            .layout()
            .and_then(|layout| layout.bytes_for(tensor.shape.elements()))
            .unwrap_or(0);
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor")
                .tensor(&tensor.name));
        }
        blocks.read(&self.file, *start, offset, out).map_err(|error| error.tensor(&tensor.name))
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        vec![&self.file]
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let (start, blocks) = self.places.get(number)?;
        blocks.note().is_none().then(|| FileRange::new(&self.file, *start, Endian::Little))
    }
}

/// The content of a file, filled by reading it.
struct Parts {
    container: LegacyContainer,
    family: LegacyFamily,
    parameters: Vec<(&'static str, u32)>,
    vocabulary: Vec<(Vec<u8>, f32)>,
    tensors: Vec<SourceTensor>,
    places: Vec<(u64, Blocks)>,
}

impl Parts {
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let names: &[&str] = match self.family {
            LegacyFamily::Llama => &LLAMA,
            LegacyFamily::Whisper => &WHISPER,
            LegacyFamily::Rwkv => &RWKV,
        };
        for name in names {
            self.parameters.push((name, reader.u32()?));
        }
        let tokens = self.parameters.first().map_or(0, |(_, value)| *value);
        match self.family {
            LegacyFamily::Llama => {
                self.read_vocabulary(reader, tokens, self.container != LegacyContainer::Ggml)?;
            }
            LegacyFamily::Whisper => {
                let filters = u64::from(reader.u32()?).saturating_mul(reader.u32()?.into());
                reader.skip(filters.saturating_mul(4))?;
                let tokens = reader.u32()?;
                self.read_vocabulary(reader, tokens, false)?;
            }
            LegacyFamily::Rwkv => {}
        }
        while !reader.is_at_end() {
            self.read_tensor(reader)?;
        }
        Ok(())
    }

    fn read_vocabulary(
        &mut self,
        reader: &mut Reader<'_>,
        tokens: u32,
        scores: bool,
    ) -> Result<()> {
        if tokens > MAX_TOKENS {
            return Err(Error::new(
                ErrorKind::Checkpoint,
                format!("{tokens} tokens, the limit is {MAX_TOKENS}"),
            ));
        }
        let mut bytes = 0u64;
        for number in 0..tokens {
            let len = reader.u32()?;
            bytes = bytes.saturating_add(len.into());
            if len >= MAX_NAME_LEN || bytes > MAX_TOKEN_BYTES {
                return Err(Error::new(
                    ErrorKind::Checkpoint,
                    format!("token {number} has {len} bytes, the limit is {}", MAX_NAME_LEN - 1),
                ));
            }
            let token = reader.take(len)?.to_vec();
            let score = if scores { f32::from_bits(reader.u32()?) } else { 0.0 };
            self.vocabulary.push((token, score));
        }
        Ok(())
    }

    fn read_tensor(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        if self.tensors.len() == MAX_TENSORS {
            return Err(Error::new(
                ErrorKind::Checkpoint,
                format!("more than {MAX_TENSORS} tensors"),
            ));
        }
        let (dimensions, name_len, type_id) = (reader.u32()?, reader.u32()?, reader.u32()?);
        if dimensions > 4 || name_len >= MAX_NAME_LEN {
            let message = format!(
                "tensor {} has {dimensions} dimensions and a name of {name_len} bytes, the limits \
                 are 4 and {}",
                self.tensors.len(),
                MAX_NAME_LEN - 1
            );
            return Err(Error::new(ErrorKind::Checkpoint, message));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(u64::from(reader.u32()?));
        }
        let name = reader.take(name_len)?.to_vec();
        let (ggml_type, blocks) = self.blocks(type_id).map_err(|error| error.tensor(&name))?;
        if matches!(self.container, LegacyContainer::Ggjt(_)) {
            reader.align(32)?;
        }
        let shape = Shape::new(&shape)
            .map_err(|error| Error::caused(ErrorKind::Checkpoint, error).tensor(&name))?;
        let size = blocks
            .stored_size(shape.elements())
            .filter(|_| shape.row_len().is_multiple_of(blocks.elements()))
            .ok_or_else(|| {
                let message = format!(
                    "row length {} is not a multiple of the block size of {ggml_type}",
                    shape.row_len()
                );
                Error::new(ErrorKind::Checkpoint, message).tensor(&name)
            })?;
        let start = reader.position();
        reader.skip(size).map_err(|error| error.tensor(&name))?;
        self.places.push((start, blocks));
        self.tensors.push(SourceTensor::new(name, ggml_type, shape));
        Ok(())
    }

    /// Returns the type of a tensor and its block layout in this container.
    fn blocks(&self, type_id: u32) -> Result<(GgmlType, Blocks)> {
        let (ggml_type, era) = match (self.family, self.container) {
            (LegacyFamily::Rwkv, LegacyContainer::Ggmf(version)) => {
                // rwkv.cpp numbers the types differently.
                let known = [
                    Some(0),
                    Some(1),
                    Some(2),
                    Some(3),
                    None,
                    None,
                    None,
                    Some(6),
                    Some(7),
                    Some(8),
                ];
                let known = known.get(type_id as usize).copied().flatten().map(GgmlType);
                let era = if version == 100 { Era::Shuffled } else { Era::Current };
                (
                    known.ok_or_else(|| {
                        Error::new(
                            ErrorKind::Unsupported,
                            format!("type {type_id} is not a type of RWKV files"),
                        )
                    })?,
                    era,
                )
            }
            (_, LegacyContainer::Ggjt(2)) => (GgmlType(type_id), Era::LongScales),
            (_, LegacyContainer::Ggjt(1) | LegacyContainer::Ggmf(_)) => {
                (GgmlType(type_id), Era::Shuffled)
            }
            (LegacyFamily::Llama, LegacyContainer::Ggml) => (GgmlType(type_id), Era::Unknown),
            _ => (GgmlType(type_id), Era::Current),
        };
        Ok((ggml_type, Blocks::new(ggml_type, era)?))
    }
}

/// Bytes of one read.
const PIECE: u64 = 64 << 10;

/// Reads the parts of a file between tensor data sequentially, through a buffer.
struct Reader<'a> {
    file: &'a RandomAccess,
    position: u64,
    buffer: Vec<u8>,
    /// The offset of the buffer in the file.
    start: u64,
}

impl<'a> Reader<'a> {
    fn new(file: &'a RandomAccess) -> Self {
        Self { file, position: 0, buffer: Vec::new(), start: 0 }
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn is_at_end(&self) -> bool {
        self.position >= self.file.len()
    }

    /// Returns the next `len` bytes.
    fn take(&mut self, len: u32) -> Result<&[u8]> {
        let position = self.position;
        self.skip(len.into())?;
        let is_buffered =
            position >= self.start && self.position <= self.start + self.buffer.len() as u64;
        if !is_buffered {
            let read = (self.file.len() - position).min(PIECE.max(len.into()));
            self.buffer = vec![0; usize::try_from(read).unwrap_or(0)];
            self.file.read_at(position, &mut self.buffer)?;
            self.start = position;
        }
        let from = usize::try_from(position - self.start).unwrap_or(usize::MAX);
        Ok(self.buffer.get(from..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default())
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    /// Skips bytes without reading. Fails beyond the end of the file.
    fn skip(&mut self, len: u64) -> Result<()> {
        let left = self.file.len().saturating_sub(self.position);
        if len > left {
            return Err(Error::new(
                ErrorKind::Checkpoint,
                format!("offset {:#x}: {len} bytes are needed, but {left} remain", self.position),
            ));
        }
        self.position += len;
        Ok(())
    }

    /// Skips to a multiple of `alignment`.
    fn align(&mut self, alignment: u64) -> Result<()> {
        self.skip(self.position.next_multiple_of(alignment) - self.position)
    }

    /// Returns `true` if eleven parameters and a table of mel filters follow the magic. Does not
    /// change the position.
    fn is_whisper(&mut self) -> bool {
        let position = self.position;
        let words: Vec<u32> = (0..13).map_while(|_| self.u32().ok()).collect();
        self.position = position;
        matches!(*words, [.., mels, _, rows, WHISPER_FREQUENCIES] if mels == rows && words.len() == 13)
    }
}
