//! Where an edited header goes: in place when that is safe, in a copy when not.

use ggmill_core::{Alignment, Builder, Decoder, Limits, MetadataBuf, Model, Part, Sink as _, keys};
use ggmill_io::{FileSink, HeaderChange, RandomAccess, RangeSink as _};

use super::apply::Edited;
use super::limits::FILLER_KEY;
use crate::repack::RepackOptions;
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Progress, Report};

/// Bytes of a entry besides its value: the lengths of the key and the type.
const PAIR: u64 = 8 + FILLER_KEY.len() as u64 + 4;
/// The filler as an array of bytes, without its elements.
const FILLER_ARRAY: u64 = PAIR + 4 + 8;
/// The filler as a single byte, where an array has no room.
const FILLER_BYTE: u64 = PAIR + 1;
/// The least room that a copy in the place of the file leaves for the next edit.
const ROOM: u64 = 1 << 10;
/// And up to a multiple of this, so that data begin on a page.
const PAGE: u64 = 4 << 10;
/// No file system has larger blocks; more than this is never inserted for the sake of alignment.
const LARGEST_UNIT: u64 = 1 << 24;
/// Bytes copied at once.
const PIECE: u64 = 64 << 20;

/// Where the edited file is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "here or there")]
pub enum Destination {
    /// Where the file is.
    SameFile {
        /// The unit in which the file system inserts bytes, where it does
        /// ([`InPlace::insert_block`](ggmill_io::InPlace::insert_block)).
        insert_block: Option<u64>,
        /// How many names the file has. One with several is not edited in place, since the others
        /// would change unasked.
        names: u64,
    },
    /// In a new file.
    NewFile,
}

/// How an edit gets done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditMethod {
    /// The metadata is what they were.
    Unchanged,
    /// The header fits where it is.
    InPlace,
    /// This many bytes are inserted before the data, and the header written.
    Insert(u64),
    /// A new header, and a copy of the data. Says why.
    Copy(&'static str),
    /// Every tensor gets a new place: a copy through plan and run. Says why.
    Rewrite(&'static str),
}

/// An edit laid out: the header to the byte, how it gets into the file, the cost.
#[derive(Clone, Debug)]
pub struct EditPlan {
    method: EditMethod,
    /// The bytes that `header` takes the place of, padding included.
    old_header: Vec<u8>,
    header: Vec<u8>,
    filler: Option<u64>,
    had_filler: bool,
    metadata: MetadataBuf,
    form: RepackOptions,
    kept_from: u64,
    old_len: u64,
    new_len: u64,
    written: u64,
    journal: u64,
}

impl EditPlan {
    /// Lays an edit out. Fails when the header would break the limits of readers.
    pub fn new(model: &Model, edited: &Edited, destination: Destination) -> Result<Self> {
        let (file, source) = only_file(model)?;
        let old = OldHeader::of(file);
        let mut before = MetadataBuf::copy_of(&file.metadata())
            .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let had_filler = before.remove(FILLER_KEY);
        let mut plan = Self {
            method: EditMethod::Unchanged,
            old_header: Vec::new(),
            header: Vec::new(),
            filler: None,
            had_filler,
            metadata: edited.metadata.clone(),
            form: RepackOptions::default(),
            kept_from: old.kept_from,
            old_len: source.len(),
            new_len: source.len(),
            written: 0,
            journal: 0,
        };
        let unchanged = before == edited.metadata && !(edited.compact && had_filler);
        if unchanged && destination != Destination::NewFile {
            return Ok(plan);
        }
        if let Some(why) = old.needs_rewrite(&edited.metadata)? {
            plan.method = EditMethod::Rewrite(why);
            return Ok(plan);
        }
        let (method, header, filler) =
            old.lay_out(&edited.metadata, edited.compact, destination)?;
        (plan.method, plan.header, plan.filler) = (method, header, filler);
        plan.new_len =
            plan.old_len.saturating_sub(plan.kept_from).saturating_add(plan.header.len() as u64);
        (plan.written, plan.journal) = match plan.method {
            EditMethod::InPlace | EditMethod::Insert(_) => {
                plan.old_header = old.whole()?;
                let change = plan.change();
                (change.range().end.saturating_sub(change.range().start), change.journal_len())
            }
            _ => (plan.new_len, 0),
        };
        old.check(&plan)?;
        Ok(plan)
    }

    /// The same edit with every tensor moved to where it belongs, in a file of this form.
    pub(crate) fn rewritten(mut self, form: RepackOptions, why: &'static str) -> Self {
        (self.method, self.form) = (EditMethod::Rewrite(why), form);
        (self.filler, self.written, self.journal) = (None, self.new_len, 0);
        self
    }

    /// How it gets done.
    pub fn method(&self) -> &EditMethod {
        &self.method
    }

    /// Bytes of zeros the filler holds, or `None` when the file has none afterwards.
    pub fn filler(&self) -> Option<u64> {
        self.filler
    }

    /// Whether the file gets a key that it did not have and that no edit asked for: the filler,
    /// [`FILLER_KEY`].
    pub fn adds_filler(&self) -> bool {
        self.filler.is_some() && !self.had_filler
    }

    /// The header of the edited file, unless the file is rewritten.
    #[cfg(feature = "fix")]
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// The length of the file before, in bytes.
    pub fn old_len(&self) -> u64 {
        self.old_len
    }

    /// The length of the file afterwards, in bytes. Of a rewrite it is known only once that is
    /// planned, and this is what it is before.
    pub fn new_len(&self) -> u64 {
        self.new_len
    }

    /// Bytes written to the file, or to its copy.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes of the journal that goes before an edit in place.
    pub fn journal_len(&self) -> u64 {
        self.journal
    }

    pub(crate) fn metadata(&self) -> &MetadataBuf {
        &self.metadata
    }

    /// The changes of a rewrite besides the metadata.
    pub(crate) fn form(&self) -> RepackOptions {
        self.form
    }

    /// The change to the header, for a way that is in place.
    pub(crate) fn change(&self) -> HeaderChange<'_> {
        HeaderChange::new(&self.old_header, &self.header)
    }

    /// Writes the edited file into a sink: the new header, and everything after the old one, which
    /// the system copies without passing it to a program.
    pub(crate) fn copy_into(
        &self,
        model: &Model,
        mut sink: FileSink,
        progress: &mut Report<'_>,
    ) -> Result<FileSink> {
        let (_, file) = only_file(model)?;
        sink.append(&self.header)?;
        let total = self.old_len.saturating_sub(self.kept_from);
        let mut written = 0u64;
        while written < total {
            let len = PIECE.min(total - written);
            sink.append_range(file, self.kept_from.saturating_add(written), len)?;
            written = written.saturating_add(len);
            if progress(Progress::new("", written, total)).is_break() {
                return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
            }
        }
        Ok(sink)
    }
}

/// The one file of a model that is edited.
fn only_file(model: &Model) -> Result<(&Part, &RandomAccess)> {
    let one = || {
        model
            .parts()
            .first()
            .filter(|_| model.parts().len() == 1)
            .and_then(|part| Some((part, ggmill_io::file_of(part)?)))
    };
    one()
        .ok_or_else(|| Error::new(ErrorKind::Misuse, "only a model that is one file can be edited"))
}

/// The parts of a header that an edit keeps.
struct OldHeader<'a> {
    file: &'a Part,
    bytes: &'a [u8],
    /// Where the tensor infos begin, byte for byte kept.
    infos: usize,
    /// Where the data, or whatever is after the header, begin.
    kept_from: u64,
    /// The header may end this many bytes, less one, before them.
    unit: u64,
}

impl<'a> OldHeader<'a> {
    fn of(file: &'a Part) -> Self {
        let index = file.index();
        let header_len = usize::try_from(index.header_len()).unwrap_or(usize::MAX);
        let bytes = file.bytes();
        let wide = if index.version() == 1 { 16 } else { 24 };
        let infos = file.metadata().iter().next_back().map_or(wide, |entry| {
            entry.value_offset().saturating_add(entry.value_bytes().len() as u64)
        });
        // A file without tensors needs no padding, and often has none.
        let padded = !file.tensors().is_empty()
            || file.file_len().is_some_and(|len| len >= index.data_offset());
        let (kept_from, unit) = if padded {
            (index.data_offset(), u64::from(index.alignment().get()))
        } else {
            (index.header_len(), 1)
        };
        Self {
            file,
            bytes: bytes.get(..header_len).unwrap_or(bytes),
            infos: usize::try_from(infos).unwrap_or(usize::MAX),
            kept_from,
            unit,
        }
    }

    /// The header with the padding after it, which the file has and the index does not keep.
    fn whole(&self) -> Result<Vec<u8>> {
        let mut whole = self.bytes.to_vec();
        let header_len = whole.len();
        whole.resize(usize::try_from(self.kept_from).unwrap_or(usize::MAX), 0);
        self.file.read_at(header_len as u64, &mut whole[header_len..])?;
        Ok(whole)
    }

    /// Why the tensors cannot keep their places, when they cannot.
    fn needs_rewrite(&self, metadata: &MetadataBuf) -> Result<Option<&'static str>> {
        if self.file.index().version() == 1 {
            return Ok(Some("version 1 is written as version 3"));
        }
        let alignment = match metadata.get(keys::GENERAL_ALIGNMENT) {
            None => Alignment::DEFAULT,
            Some(value) => Alignment::new(value.as_u64().unwrap_or(0))
                .map_err(|error| Error::caused(ErrorKind::Edit, error))?,
        };
        let moved = alignment != self.file.index().alignment() && !self.file.tensors().is_empty();
        Ok(moved.then_some("the alignment changes"))
    }

    fn lay_out(
        &self,
        metadata: &MetadataBuf,
        compact: bool,
        destination: Destination,
    ) -> Result<(EditMethod, Vec<u8>, Option<u64>)> {
        let len = self.compose(metadata)?.len() as u64;
        let Destination::SameFile { insert_block, names } = destination else {
            return self.copy(metadata, len, 0, "a new file is wanted");
        };
        let fits = |header: Option<(Vec<u8>, Option<u64>)>| {
            header.filter(|(_, filler)| !compact || filler.is_none())
        };
        if names > 1 {
            return self.copy(
                metadata,
                len,
                if compact { 0 } else { ROOM },
                "the file has other names (hard links) that keep what they show",
            );
        }
        if let Some((header, filler)) = fits(self.fill(metadata, len, self.kept_from)?) {
            return Ok((EditMethod::InPlace, header, filler));
        }
        let has_tensors = !self.file.tensors().is_empty();
        if let Some(unit) = insert_block
            .and_then(|block| least_common_multiple(block, self.unit))
            .filter(|_| has_tensors && !compact)
            && let Some(grow) = (len.saturating_add(FILLER_ARRAY + 1))
                .saturating_sub(self.kept_from)
                .checked_next_multiple_of(unit)
            && grow > 0
            && let Some((header, filler)) =
                self.fill(metadata, len, self.kept_from.saturating_add(grow))?
        {
            return Ok((EditMethod::Insert(grow), header, filler));
        }
        let why = match (compact, has_tensors) {
            (true, _) => "no room is to be left",
            (_, true) => "the header has no room, and the file system inserts none",
            (_, false) => "the header has no room, and there is nothing after it",
        };
        self.copy(metadata, len, if compact || !has_tensors { 0 } else { ROOM }, why)
    }

    /// The header of a copy, with room for so much more.
    fn copy(
        &self,
        metadata: &MetadataBuf,
        len: u64,
        room: u64,
        why: &'static str,
    ) -> Result<(EditMethod, Vec<u8>, Option<u64>)> {
        let too_large = || Error::new(ErrorKind::Edit, "the header would exceed 64 bits");
        let target = if room == 0 {
            len.checked_next_multiple_of(self.unit)
        } else {
            let unit = least_common_multiple(PAGE, self.unit).unwrap_or(self.unit);
            len.checked_add(FILLER_ARRAY + room).and_then(|end| end.checked_next_multiple_of(unit))
        };
        let (header, filler) =
            self.fill(metadata, len, target.ok_or_else(too_large)?)?.ok_or_else(too_large)?;
        Ok((EditMethod::Copy(why), header, filler))
    }

    /// The header with exactly `target` bytes, by padding or with the filler; `None` when it is
    /// longer, or shorter by too little for the filler.
    fn fill(
        &self,
        metadata: &MetadataBuf,
        len: u64,
        target: u64,
    ) -> Result<Option<(Vec<u8>, Option<u64>)>> {
        let Some(slack) = target.checked_sub(len) else { return Ok(None) };
        let (mut header, filler) = if slack < self.unit {
            (self.compose(metadata)?, None)
        } else if slack > FILLER_ARRAY {
            let zeros = slack - FILLER_ARRAY;
            (
                self.compose(&with_filler(
                    metadata,
                    vec![0u8; usize::try_from(zeros).unwrap_or(usize::MAX)],
                ))?,
                Some(zeros),
            )
        } else if (FILLER_BYTE..FILLER_BYTE.saturating_add(self.unit)).contains(&slack) {
            (self.compose(&with_filler(metadata, 0u8))?, Some(1))
        } else {
            return Ok(None);
        };
        header.resize(usize::try_from(target).unwrap_or(usize::MAX), 0);
        Ok(Some((header, filler)))
    }

    /// The header without its padding: the beginning and the tensor infos as they are, the metadata
    /// as given.
    fn compose(&self, metadata: &MetadataBuf) -> Result<Vec<u8>> {
        let index = self.file.index();
        let builder =
            if index.version() == 2 { Builder::new().version_2() } else { Builder::new() };
        let plan = builder
            .endian(index.endian())
            .metadata(metadata.clone())
            .plan()
            .map_err(|error| Error::caused(ErrorKind::Edit, error))?;
        let mut header = plan.header().to_vec();
        // Magic, version and the number of tensors: what the builder was not told.
        header[..16].copy_from_slice(&self.bytes[..16]);
        header.extend_from_slice(self.bytes.get(self.infos..).unwrap_or_default());
        Ok(header)
    }

    /// The last look before anything is written: the new header must read, and place every tensor
    /// where it is.
    fn check(&self, plan: &EditPlan) -> Result<()> {
        let broken = || {
            Error::new(
                ErrorKind::Edit,
                "the edited header does not lead to the tensors as the old one does",
            )
        };
        let mut decoder = Decoder::new(Some(plan.new_len), &Limits::default());
        decoder.feed(&plan.header).map_err(|error| Error::caused(ErrorKind::Edit, error))?;
        let new = decoder.finish().map_err(|error| Error::caused(ErrorKind::Edit, error))?;
        let old_start = self.file.index().data_offset();
        let same = new.tensors().len() == self.file.tensors().len()
            && new.tensors().iter().zip(self.file.tensors()).all(|(new_tensor, old)| {
                new_tensor.name().as_bytes() == old.name().as_bytes()
                    && new_tensor.ggml_type() == old.ggml_type()
                    && new_tensor.shape() == old.shape()
                    && new_tensor.offset().checked_sub(new.index().data_offset())
                        == old.offset().checked_sub(old_start)
            });
        let placed =
            self.file.tensors().is_empty() || new.index().data_offset() == plan.header.len() as u64;
        if same && placed && new.index().endian() == self.file.index().endian() {
            Ok(())
        } else {
            Err(broken())
        }
    }
}

fn with_filler(metadata: &MetadataBuf, value: impl ggmill_core::ToValue) -> MetadataBuf {
    let mut filled = metadata.clone();
    filled.set(FILLER_KEY, value);
    filled
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a.checked_div(divisor)?.checked_mul(b).filter(|unit| *unit <= LARGEST_UNIT)
}
