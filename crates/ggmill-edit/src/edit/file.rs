//! A file that is edited: how an edited header gets into it, and writing it.

use std::path::{Path, PathBuf};

use ggmill_core::{FilledHeader, Header, HeaderEdit, MetadataBuf, Model, Sink as _, Split, keys};
use ggmill_io::{
    Applied, FileSink, HeaderChange, InPlace, Overwrite, RandomAccess, RangeSink as _,
};
use ggmill_pipeline::{
    Error, ErrorKind, GgufCheckpoint, Progress, Recipe, Report, Result, RunOptions, run,
};

use super::Edit;
use super::error::EditError;
use super::metadata::{Edited, FILLER_KEY, OF_A_SET, edit_metadata, is_shard};
use crate::reshape::RepackOptions;

/// A GGUF file that is edited in place, or into a copy.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("model.gguf");
/// # let mut metadata = ggmill_core::MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # metadata.set("general.name", "Tiny");
/// # std::fs::write(&path, ggmill_core::Builder::new().metadata(metadata).plan()?.header())?;
/// use std::ops::ControlFlow;
/// use ggmill_edit::{Edit, Editor};
/// let mut editor = Editor::open(&path)?;
/// let edited = editor.edit(&[Edit::parse_set("general.name=Tidy")?])?;
/// let plan = editor.plan(edited)?;
/// println!("{:?}: {} bytes are written", plan.method(), plan.written());
/// editor.apply(plan, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(ggmill_io::open_alone(&path)?.metadata().str("general.name")?, "Tidy");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Editor {
    path: PathBuf,
    model: Model,
    /// `None` if the file is only read.
    place: Option<InPlace>,
}

impl Editor {
    /// Opens a file to edit it in place, and locks it. Fails if an edit of it was interrupted;
    /// [`InPlace::recover`] finishes or undoes that edit.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let place = InPlace::open(path)?;
        Ok(Self { path: path.to_owned(), model: ggmill_io::open_alone(path)?, place: Some(place) })
    }

    /// Opens a file to write an edited copy of it.
    pub fn open_source(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Ok(Self { path: path.to_owned(), model: ggmill_io::open_alone(path)?, place: None })
    }

    /// Returns the file before the edit.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the path that the file was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Applies edits to the metadata. Writes nothing.
    pub fn edit(&self, edits: &[Edit]) -> Result<Edited> {
        let metadata = MetadataBuf::copy_of(&self.model.metadata())
            .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let embedding = self.model.tensors().get("token_embd.weight");
        let rows = embedding.and_then(|tensor| tensor.shape().dimensions().get(1).copied());
        let edited = edit_metadata(&metadata, edits, rows)?;
        if is_shard(&metadata)
            && !is_shard(&edited.metadata)
            && ggmill_io::shard_name(&self.path).is_some()
        {
            return Err(Error::new(ErrorKind::Edit, OF_A_SET).key(keys::SPLIT_COUNT));
        }
        Ok(edited)
    }

    /// Plans an edit: in place if the file was opened for that and the header has the space. Writes
    /// nothing except a file without a name, which tests whether the file system inserts bytes.
    pub fn plan(&self, edited: Edited) -> Result<EditPlan> {
        let destination = self.place.as_ref().map_or(Destination::NewFile, |place| {
            Destination::SameFile { insert_block: place.insert_block(), names: place.names() }
        });
        let plan = EditPlan::new(&self.model, edited, destination)?;
        match plan.method() {
            EditMethod::Rewrite(_) => self.check_rewritable().map(|()| plan),
            _ => Ok(plan),
        }
    }

    /// Plans to rewrite the whole file with these edits: as version 3, with the tensors in order,
    /// aligned, and padded with zeros. Writes nothing.
    ///
    /// Fails for one shard of a set.
    pub fn plan_rewrite(&self, edited: Edited) -> Result<EditPlan> {
        self.check_rewritable()?;
        let plan = EditPlan::new(&self.model, edited, Destination::NewFile)?;
        let form = RepackOptions { version: Some(3), ..RepackOptions::default() };
        Ok(plan.rewritten(form, "the tensors must be in order"))
    }

    /// Returns the metadata without a change.
    #[cfg(feature = "fix")]
    pub(crate) fn unchanged(&self) -> Result<Edited> {
        MetadataBuf::copy_of(&self.model.metadata())
            .map(Edited::unchanged)
            .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))
    }

    /// Makes a planned edit of the file itself. Returns the method, which is a copy if the file system
    /// does not insert bytes after all.
    pub fn apply(&mut self, plan: EditPlan, progress: &mut Report<'_>) -> Result<EditMethod> {
        let place = self
            .place
            .as_mut()
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "the file was opened as a source"))?;
        let names = place.names();
        let plan = match plan.method() {
            EditMethod::Unchanged => return Ok(EditMethod::Unchanged),
            EditMethod::InPlace | EditMethod::Insert(_) => match place.apply(plan.change())? {
                Applied::Done => return Ok(plan.method().clone()),
                Applied::CannotGrow => EditPlan::new(
                    &self.model,
                    plan.into_edited(),
                    Destination::SameFile { insert_block: None, names },
                )?,
            },
            _ => plan,
        };
        let sink = FileSink::create(&self.path, Overwrite::Replace)?;
        let sink = self.write(&plan, sink, progress)?;
        if let Some(place) = &self.place {
            place.check_unchanged()?;
        }
        sink.commit()?;
        Ok(plan.method().clone())
    }

    /// Writes an edited copy into a sink, and returns the sink.
    pub fn write(
        &self,
        plan: &EditPlan,
        mut sink: FileSink,
        progress: &mut Report<'_>,
    ) -> Result<FileSink> {
        if let EditMethod::Rewrite(_) = plan.method() {
            let (checkpoint, layout) = self.rewrite(plan)?;
            sink.reserve(layout.layout().total_len())?;
            return run(&layout, &checkpoint, sink, &RunOptions::default(), progress);
        }
        sink.reserve(plan.new_len())?;
        let sink = plan.copy_into(&self.model, sink, progress)?;
        self.model.verify()?;
        Ok(sink)
    }

    /// Returns the header of the edited file.
    #[cfg(feature = "fix")]
    pub(crate) fn planned_header(&self, plan: &EditPlan) -> Result<Vec<u8>> {
        Ok(match plan.method() {
            EditMethod::Rewrite(_) => self.rewrite(plan)?.1.layout().header().to_vec(),
            _ => plan.header().to_vec(),
        })
    }

    fn rewrite(&self, plan: &EditPlan) -> Result<(GgufCheckpoint, ggmill_pipeline::Plan)> {
        let checkpoint = GgufCheckpoint::new(ggmill_io::open_alone(&self.path)?)?;
        let mut recipe = Recipe::copy_of(&checkpoint)?;
        recipe.metadata = plan.edited().metadata().clone();
        plan.form().apply(&mut recipe)?;
        let layout = recipe.plan(&checkpoint)?;
        Ok((checkpoint, layout))
    }

    /// Returns the exact length of the edited file.
    pub fn planned_len(&self, plan: &EditPlan) -> Result<u64> {
        match plan.method() {
            EditMethod::Rewrite(_) => Ok(self.rewrite(plan)?.1.layout().total_len()),
            _ => Ok(plan.new_len()),
        }
    }

    /// Refuses to rewrite one shard of a set: its tensors would no longer match the other shards.
    fn check_rewritable(&self) -> Result<()> {
        let split = Split::of(&self.model.metadata()).ok().flatten();
        if split.is_some_and(|split| split.is_part()) {
            return Err(Error::caused(ErrorKind::Unsupported, EditError::OneShard));
        }
        Ok(())
    }
}

/// The minimum space that a copy which replaces the file reserves for later edits, in bytes.
const MIN_ROOM: u64 = 1 << 10;
/// The multiple that such a header is padded to, so that the data begins on a page.
const PAGE: u64 = 4 << 10;
/// The maximum number of bytes inserted for alignment. No file system has larger blocks.
const LARGEST_UNIT: u64 = 1 << 24;
/// Bytes copied per call.
const PIECE: u64 = 64 << 20;

/// The destination of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the same file or a new one")]
pub enum Destination {
    /// The file itself.
    SameFile {
        /// The block size for inserting bytes, if the file system can do that
        /// ([`InPlace::insert_block`]).
        insert_block: Option<u64>,
        /// The number of hard links. A file with several is not edited in place, because it would
        /// change under all of its names.
        names: u64,
    },
    /// A new file.
    NewFile,
}

/// How an edit is made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditMethod {
    /// Nothing changes.
    Unchanged,
    /// The header is overwritten; the new one fits.
    InPlace,
    /// This many bytes are inserted before the data, and the header is overwritten.
    Insert(u64),
    /// The file is copied with a new header, for this reason.
    Copy(&'static str),
    /// The file is rewritten with every tensor at a new offset, for this reason.
    Rewrite(&'static str),
}

/// A planned edit: the edited header, how it gets into the file, and the cost.
#[derive(Clone, Debug)]
pub struct EditPlan {
    method: EditMethod,
    /// The bytes that `header` replaces, including padding.
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
    /// Plans an edit. Fails if the header would exceed the limits of readers.
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

    /// Turns the plan into one that rewrites the file in this form.
    fn rewritten(mut self, form: RepackOptions, why: &'static str) -> Self {
        (self.method, self.form) = (EditMethod::Rewrite(why), form);
        (self.filler, self.written, self.journal) = (None, self.new_len, 0);
        self
    }

    /// Returns how the edit is made.
    pub fn method(&self) -> &EditMethod {
        &self.method
    }

    /// Returns the number of bytes in the filler; `None` if the file has none afterwards.
    pub fn filler(&self) -> Option<u64> {
        self.filler
    }

    /// Returns `true` if the file gets the key [`FILLER_KEY`], which it did not have.
    pub fn adds_filler(&self) -> bool {
        self.filler.is_some() && !self.had_filler
    }

    /// Returns the header of the edited file; empty if the file is rewritten.
    #[cfg(feature = "fix")]
    fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns the length of the file before the edit, in bytes.
    pub fn old_len(&self) -> u64 {
        self.old_len
    }

    /// Returns the length of the edited file, in bytes. For a rewrite it is the old length;
    /// [`Editor::planned_len`] has the new one.
    pub fn new_len(&self) -> u64 {
        self.new_len
    }

    /// Returns the number of bytes written to the file or its copy.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the length of the journal of an edit in place, in bytes.
    pub fn journal_len(&self) -> u64 {
        self.journal
    }

    /// Returns the edit that is planned.
    pub fn edited(&self) -> &Edited {
        &self.edited
    }

    fn into_edited(self) -> Edited {
        self.edited
    }

    /// Returns the form of a rewritten file.
    fn form(&self) -> RepackOptions {
        self.form
    }

    /// Returns the change of the header of an edit in place.
    fn change(&self) -> HeaderChange<'_> {
        HeaderChange::new(&self.old_header, &self.header)
    }

    /// Writes the new header and a copy of everything after the old one into a sink. The kernel copies
    /// the data.
    fn copy_into(
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

/// Returns the only file of a model.
fn only_file(model: &Model) -> Result<(&Header<'_>, &RandomAccess)> {
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

/// The header before the edit.
struct OldHeader<'a> {
    file: &'a Header<'a>,
    edit: HeaderEdit<'a>,
    /// The offset of the data, or of whatever follows the header.
    kept_from: u64,
    /// The data begins at a multiple of this many bytes.
    unit: u64,
}

/// The error for a header that readers reject.
fn refused(error: ggmill_core::Error) -> Error {
    Error::caused(ErrorKind::Edit, error)
}

impl<'a> OldHeader<'a> {
    fn of(file: &'a Header<'a>) -> Self {
        let edit = HeaderEdit::of(file);
        Self { file, edit, kept_from: edit.replaced_len(), unit: edit.unit() }
    }

    /// Returns the header and the padding after it, which is read from the file.
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
                if compact { 0 } else { MIN_ROOM },
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
        self.copy(metadata, len, if compact || !has_tensors { 0 } else { MIN_ROOM }, why)
    }

    /// Plans the header of a copy with at least `room` bytes of free space.
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

    /// Checks, before anything is written, that the new header parses and keeps the offset of every
    /// tensor.
    fn check(&self, plan: &EditPlan) -> Result<()> {
        if self.edit.preserves_tensor_offsets(&plan.header, plan.new_len).map_err(refused)? {
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
