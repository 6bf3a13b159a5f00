//! A file opened to be edited, and the way there and back.

use std::path::Path;

use ggmill_core::{MetadataBuf, Split, keys};
use ggmill_io::{Applied, FileSink, GgufFile, InPlace, Overwrite, Recovery};

use super::Edit;
use super::apply::{Edited, OF_A_SET, edit_metadata, is_shard};
use super::layout::{Destination, EditMethod, EditPlan};
use ggmill_pipeline::GgufCheckpoint;
use ggmill_pipeline::Recipe;
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Report, RunOptions, run};

/// A GGUF file being edited: where it is, or into a copy.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.gguf");
/// # let mut metadata = ggmill_core::MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # metadata.set("general.name", "Tiny");
/// # std::fs::write(&path, ggmill_core::Builder::new().metadata(metadata).plan()?.header())?;
/// use std::ops::ControlFlow;
/// use ggmill_edit::{Edit, Editor};
/// let (mut editor, _) = Editor::open(&path)?;
/// let edited = editor.edit(&[Edit::parse_set("general.name=Tidy")?])?;
/// let plan = editor.plan(&edited)?;
/// println!("{:?}: {} bytes are written", plan.method(), plan.written());
/// editor.apply(plan, &edited, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(ggmill_io::open(&path)?.metadata().str("general.name")?, "Tidy");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Editor {
    file: GgufFile,
    /// `None` when the file is only read.
    place: Option<InPlace>,
}

impl Editor {
    /// Opens a file to edit it where it is, and locks it. An edit that was interrupted is finished or undone first, and told.
    pub fn open(path: impl AsRef<Path>) -> Result<(Self, Recovery)> {
        let path = path.as_ref();
        let (place, found) = InPlace::open(path)?;
        let file = ggmill_io::open(path)?;
        Ok((Self { file, place: Some(place) }, found))
    }

    /// Opens a file to write an edited copy of it.
    pub fn open_source(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { file: ggmill_io::open(path)?, place: None })
    }

    /// The file as it is.
    pub fn file(&self) -> &GgufFile {
        &self.file
    }

    /// Applies edits to the metadata. Writes nothing.
    pub fn edit(&self, edits: &[Edit]) -> Result<Edited> {
        let metadata = MetadataBuf::copy_of(&self.file.metadata()).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let embedding = self.file.tensors().get("token_embd.weight");
        let rows = embedding.and_then(|tensor| tensor.shape().dimensions().get(1).copied());
        let edited = edit_metadata(&metadata, edits, rows)?;
        if is_shard(&metadata) && !is_shard(&edited.metadata) && ggmill_io::shard_name(self.file.path()).is_some() {
            return Err(Error::new(ErrorKind::Edit, OF_A_SET).key(keys::SPLIT_COUNT));
        }
        Ok(edited)
    }

    /// Lays an edit out: in place where that can be, when the file was opened for it. Writes nothing but a file without a name, to see whether the file system
    /// inserts bytes.
    pub fn plan(&self, edited: &Edited) -> Result<EditPlan> {
        let destination =
            self.place.as_ref().map_or(Destination::NewFile, |place| Destination::SameFile { insert_block: place.insert_block(), names: place.names() });
        let plan = EditPlan::new(&self.file, edited, destination)?;
        match plan.method() {
            EditMethod::Rewrite(_) => self.check_rewritable().map(|()| plan),
            _ => Ok(plan),
        }
    }

    /// Does what the plan says to the file itself, and gives the method it used: when the file system will not insert bytes after all, that is a copy.
    pub fn apply(&mut self, plan: EditPlan, edited: &Edited, progress: &mut Report<'_>) -> Result<EditMethod> {
        let place = self.place.as_mut().ok_or_else(|| Error::new(ErrorKind::Misuse, "the file was opened as a source"))?;
        let names = place.names();
        let plan = match plan.method() {
            EditMethod::Unchanged => return Ok(EditMethod::Unchanged),
            EditMethod::InPlace | EditMethod::Insert(_) => match place.apply(plan.change())? {
                Applied::Done => return Ok(plan.method().clone()),
                Applied::CannotGrow => EditPlan::new(&self.file, edited, Destination::SameFile { insert_block: None, names })?,
            },
            _ => plan,
        };
        let sink = FileSink::create(self.file.path(), Overwrite::Replace)?;
        let sink = self.write(&plan, sink, progress)?;
        if let Some(place) = &self.place {
            place.check_unchanged()?;
        }
        sink.commit()?;
        Ok(plan.method().clone())
    }

    /// Writes the edited file into a sink that becomes another file, and gives the sink back.
    pub fn write(&self, plan: &EditPlan, mut sink: FileSink, progress: &mut Report<'_>) -> Result<FileSink> {
        if let EditMethod::Rewrite(_) = plan.method() {
            let (checkpoint, layout) = self.rewrite(plan)?;
            sink.reserve(layout.layout().total_len())?;
            return run(&layout, &checkpoint, sink, &RunOptions::default(), progress);
        }
        sink.reserve(plan.new_len())?;
        let sink = plan.copy_into(&self.file, sink, progress)?;
        self.file.file().refuse_changed()?;
        Ok(sink)
    }

    fn rewrite(&self, plan: &EditPlan) -> Result<(GgufCheckpoint, ggmill_pipeline::Plan)> {
        let checkpoint = GgufCheckpoint::open(self.file.path())?;
        let mut recipe = Recipe::copy_of(&checkpoint)?;
        recipe.metadata = plan.metadata().clone();
        let layout = recipe.plan(&checkpoint)?;
        Ok((checkpoint, layout))
    }

    /// The exact length of the file that a plan leads to.
    pub fn planned_len(&self, plan: &EditPlan) -> Result<u64> {
        match plan.method() {
            EditMethod::Rewrite(_) => Ok(self.rewrite(plan)?.1.layout().total_len()),
            _ => Ok(plan.new_len()),
        }
    }

    /// A rewrite goes through the pipeline, which opens whole sets.
    fn check_rewritable(&self) -> Result<()> {
        let split = Split::of(&self.file.metadata()).ok().flatten();
        if split.is_some_and(|split| split.is_part()) {
            return Err(Error::new(ErrorKind::Unsupported, "one shard of a set cannot be laid out again; merge the set first"));
        }
        Ok(())
    }
}
