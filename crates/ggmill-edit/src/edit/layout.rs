//! Where an edited header goes: in place when that is safe, in a copy when not.

use ggmill_core::{FilledHeader, HeaderEdit, MetadataBuf, Model, Part, Sink as _};
use ggmill_io::{FileSink, HeaderChange, RandomAccess, RangeSink as _};

use super::apply::Edited;
use super::limits::FILLER_KEY;
use crate::repack::RepackOptions;
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Progress, Report};

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
    edited: Edited,
    form: RepackOptions,
    kept_from: u64,
    old_len: u64,
    new_len: u64,
    written: u64,
    journal: u64,
}

impl EditPlan {
    /// Lays an edit out. Fails when the header would break the limits of readers.
    pub fn new(model: &Model, edited: Edited, destination: Destination) -> Result<Self> {
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
            edited,
            form: RepackOptions::default(),
            kept_from: old.kept_from,
            old_len: source.len(),
            new_len: source.len(),
            written: 0,
            journal: 0,
        };
        let edited = &plan.edited;
        let unchanged = before == edited.metadata && !(edited.compact && had_filler);
        if unchanged && destination != Destination::NewFile {
            return Ok(plan);
        }
        if let Some(why) = old.edit.obstacle(&edited.metadata).map_err(refused)? {
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

    /// Returns the edit that is planned.
    pub fn edited(&self) -> &Edited {
        &self.edited
    }

    pub(crate) fn into_edited(self) -> Edited {
        self.edited
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
        .ok_or_else(|| Error::new(ErrorKind::Misuse, "only a model in a single file can be edited"))
}

/// The header that an edit replaces.
struct OldHeader<'a> {
    file: &'a Part,
    edit: HeaderEdit<'a>,
    /// Where the data, or whatever is after the header, begin.
    kept_from: u64,
    /// The header may end this many bytes, less one, before them.
    unit: u64,
}

/// An edit that makes a header no reader takes.
fn refused(error: ggmill_core::Error) -> Error {
    Error::caused(ErrorKind::Edit, error)
}

impl<'a> OldHeader<'a> {
    fn of(file: &'a Part) -> Self {
        let edit = HeaderEdit::of(file);
        Self { file, edit, kept_from: edit.replaced_len(), unit: edit.unit() }
    }

    /// The header with the padding after it, which the file has and the index does not keep.
    fn whole(&self) -> Result<Vec<u8>> {
        let mut whole = self.edit.bytes().to_vec();
        let header_len = whole.len();
        whole.resize(usize::try_from(self.kept_from).unwrap_or(usize::MAX), 0);
        self.file.read_at(header_len as u64, &mut whole[header_len..])?;
        Ok(whole)
    }

    fn lay_out(
        &self,
        metadata: &MetadataBuf,
        compact: bool,
        destination: Destination,
    ) -> Result<(EditMethod, Vec<u8>, Option<u64>)> {
        let len = self.edit.compose(metadata).map_err(refused)?.len() as u64;
        let Destination::SameFile { insert_block, names } = destination else {
            return self.copy(metadata, len, 0, "a new file was requested");
        };
        let fits = |header: Option<FilledHeader>| {
            header.filter(|header| !compact || header.filler.is_none())
        };
        if names > 1 {
            return self.copy(
                metadata,
                len,
                if compact { 0 } else { ROOM },
                "the file has other names (hard links), whose content must not change",
            );
        }
        if let Some(FilledHeader { bytes, filler, .. }) =
            fits(self.fill(metadata, len, self.kept_from)?)
        {
            return Ok((EditMethod::InPlace, bytes, filler));
        }
        let has_tensors = !self.file.tensors().is_empty();
        if let Some(unit) = insert_block
            .and_then(|block| least_common_multiple(block, self.unit))
            .filter(|_| has_tensors && !compact)
            && let Some(grow) = HeaderEdit::len_with_room(len, 1)
                .unwrap_or(u64::MAX)
                .saturating_sub(self.kept_from)
                .checked_next_multiple_of(unit)
            && grow > 0
            && let Some(FilledHeader { bytes, filler, .. }) =
                self.fill(metadata, len, self.kept_from.saturating_add(grow))?
        {
            return Ok((EditMethod::Insert(grow), bytes, filler));
        }
        let why = match (compact, has_tensors) {
            (true, _) => "no space is to be reserved",
            (_, true) => {
                "the header has too little free space, and the file system cannot insert any"
            }
            (_, false) => {
                "the header has too little free space, and the file contains nothing else"
            }
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
            HeaderEdit::len_with_room(len, room).and_then(|end| end.checked_next_multiple_of(unit))
        };
        let filled = self.fill(metadata, len, target.ok_or_else(too_large)?)?;
        let FilledHeader { bytes, filler, .. } = filled.ok_or_else(too_large)?;
        Ok((EditMethod::Copy(why), bytes, filler))
    }

    fn fill(&self, metadata: &MetadataBuf, len: u64, target: u64) -> Result<Option<FilledHeader>> {
        self.edit.filled(metadata, len, target).map_err(refused)
    }

    /// The last look before anything is written: the new header must read, and place every tensor
    /// where it is.
    fn check(&self, plan: &EditPlan) -> Result<()> {
        if self.edit.leads_to_the_tensors(&plan.header, plan.new_len).map_err(refused)? {
            Ok(())
        } else {
            Err(Error::new(
                ErrorKind::Edit,
                "the edited header does not lead to the same tensors as the old one",
            ))
        }
    }
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a.checked_div(divisor)?.checked_mul(b).filter(|unit| *unit <= LARGEST_UNIT)
}
