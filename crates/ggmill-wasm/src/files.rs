//! The open files, by number.

#[cfg(feature = "tokenize")]
use std::cell::OnceCell;

use ggmill_core::{Decoder, Error, Header, Limits, Model, Progress, Split};
#[cfg(feature = "tokenize")]
use ggmill_tokenizer::Tokenizer;

use crate::failure::Failure;
use crate::record::{Fields, NONE, Record};

/// A file that is being read or is open.
enum File {
    /// The header is incomplete.
    Reading(Box<Decoder>),
    /// The header is complete, or several files were joined.
    Open(Box<Open>),
}

/// A model, and its tokenizer.
struct Open {
    model: Model,
    /// The tokenizer, or the error of loading it, after the first use.
    #[cfg(feature = "tokenize")]
    tokenizer: OnceCell<Result<Tokenizer, ggmill_tokenizer::Error>>,
}

impl From<Model> for File {
    fn from(model: Model) -> Self {
        Self::Open(Box::new(Open {
            model,
            #[cfg(feature = "tokenize")]
            tokenizer: OnceCell::new(),
        }))
    }
}

/// The files, each at the index of its number.
#[derive(Default)]
pub(crate) struct Files(Vec<Option<File>>);

impl Files {
    /// Begins reading a file, whose length may be unknown ([`NONE`]), and returns its number.
    pub(crate) fn begin(&mut self, len: u64) -> Record {
        let len = (len != NONE).then_some(len);
        self.add(File::Reading(Box::new(Decoder::new(len, &Limits::default()))))
    }

    fn add(&mut self, file: File) -> Record {
        let index = self.0.iter().position(Option::is_none).unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[index] = Some(file);
        let mut record = Record::default();
        record.count(index);
        record
    }

    fn take(&mut self, number: u32) -> Option<File> {
        self.0.get_mut(usize::try_from(number).ok()?)?.take()
    }

    /// Feeds the next bytes. Returns the number of bytes that are needed, counted from the start of
    /// the file; 0 if the header is complete.
    pub(crate) fn feed(&mut self, number: u32, bytes: &[u8]) -> Result<Record, Failure> {
        let file = usize::try_from(number).ok().and_then(|index| self.0.get_mut(index));
        let Some(Some(File::Reading(decoder))) = file else {
            return Err(Failure::misuse("the file is not being read"));
        };
        let mut record = Record::default();
        record.u64(match decoder.feed(bytes)? {
            Progress::Needs(end) => end,
            Progress::Complete => 0,
        });
        Ok(record)
    }

    /// Ends reading, and returns the decoder of a file.
    pub(crate) fn end(&mut self, number: u32) -> Result<Decoder, Failure> {
        match self.take(number) {
            Some(File::Reading(decoder)) => Ok(*decoder),
            _ => Err(Failure::misuse("the file is not being read")),
        }
    }

    /// Ends reading, and returns the number of the model. Fails for a damaged file unless `damaged` is
    /// set, which opens its readable part.
    pub(crate) fn finish(&mut self, number: u32, damaged: bool) -> Result<Record, Failure> {
        let decoder = self.end(number)?;
        let header = if damaged { decoder.finish_damaged()? } else { decoder.finish()? };
        Ok(self.add(Model::from_header(header).into()))
    }

    /// Joins the shards of a set into one model, and returns its number and, in the order of the shards,
    /// the index of each in the input. The numbers of the shards become free.
    pub(crate) fn join(&mut self, input: &[u8]) -> Result<Record, Failure> {
        let (mut fields, mut shards) = (Fields(input), Vec::new());
        while let Some(number) = fields.u32() {
            match self.take(number) {
                Some(File::Open(open)) => shards.push(open.model),
                _ => return Err(Failure::misuse("a shard is not open")),
            }
        }
        let (model, order) = join(shards)?;
        let mut record = self.add(model.into());
        order.into_iter().for_each(|place| record.count(place));
        Ok(record)
    }

    pub(crate) fn close(&mut self, number: u32) -> Record {
        drop(self.take(number));
        Record::default()
    }

    fn open(&self, number: u32) -> Result<&Open, Failure> {
        let file = usize::try_from(number).ok().and_then(|index| self.0.get(index));
        match file {
            Some(Some(File::Open(open))) => Ok(open),
            _ => Err(Failure::misuse("the file is not open")),
        }
    }

    pub(crate) fn model(&self, number: u32) -> Result<&Model, Failure> {
        Ok(&self.open(number)?.model)
    }

    /// Returns the tokenizer of a model, which is loaded on first use and kept until the model is
    /// closed.
    #[cfg(feature = "tokenize")]
    pub(crate) fn tokenizer(&self, number: u32) -> Result<&Tokenizer, Failure> {
        let open = self.open(number)?;
        let loaded =
            open.tokenizer.get_or_init(|| Tokenizer::from_metadata(&open.model.metadata()));
        loaded.as_ref().map_err(|error| error.clone().into())
    }

    /// Returns one file of a model.
    pub(crate) fn part(&self, number: u32, part: u64) -> Result<&Header<'_>, Failure> {
        let parts = self.model(number)?.parts();
        let part = usize::try_from(part).ok().and_then(|part| parts.get(part));
        part.ok_or_else(|| Failure::misuse("the model has no such file"))
    }
}

/// Joins the shards of a set, and returns the index of each in `shards`, in the order of the shards.
pub(crate) fn join(shards: Vec<Model>) -> Result<(Model, Vec<usize>), Error> {
    let number = |shard: &Model| Some(Split::of(&shard.metadata()).ok()??.number);
    let mut order: Vec<_> =
        shards.iter().enumerate().map(|(place, shard)| (number(shard), place)).collect();
    order.sort_unstable();
    let model = Model::from_shards(shards)?;
    Ok((model, order.into_iter().map(|(_, place)| place).collect()))
}
