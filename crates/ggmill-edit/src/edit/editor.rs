//! A file opened to be edited, and the way there and back.

use std::path::{Path, PathBuf};

use ggmill_core::{MetadataBuf, Model, Split, keys};
use ggmill_io::{Applied, FileSink, InPlace, Overwrite};

use super::Edit;
use super::apply::{Edited, OF_A_SET, edit_metadata, is_shard};
use super::error::EditError;
use super::layout::{Destination, EditMethod, EditPlan};
use crate::repack::RepackOptions;
use ggmill_pipeline::GgufCheckpoint;
use ggmill_pipeline::Recipe;
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Report, RunOptions, run};

/// A GGUF file being edited: where it is, or into a copy.
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
    /// `None` when the file is only read.
    place: Option<InPlace>,
}

impl Editor {
    /// Opens a file to edit it where it is, and locks it. Fails when an edit of it was interrupted:
    /// [`InPlace::recover`] goes on with that.
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

    /// The file as it is.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The path it was opened by.
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

    /// Lays an edit out: in place where that can be, when the file was opened for it. Writes
    /// nothing but a file without a name, to see whether the file system inserts bytes.
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

    /// Plans to write the whole file again, with these edits where there are any: as version 3,
    /// with the tensors in order, aligned, and padded with zeros. Writes nothing.
    ///
    /// Fails for one shard of a set.
    pub fn plan_rewrite(&self, edited: Edited) -> Result<EditPlan> {
        self.check_rewritable()?;
        let plan = EditPlan::new(&self.model, edited, Destination::NewFile)?;
        let form = RepackOptions { version: Some(3), ..RepackOptions::default() };
        Ok(plan.rewritten(form, "the tensors must be in order"))
    }

    /// Metadata that stay as they are.
    #[cfg(feature = "fix")]
    pub(crate) fn unchanged(&self) -> Result<Edited> {
        MetadataBuf::copy_of(&self.model.metadata())
            .map(Edited::unchanged)
            .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))
    }

    /// Does what the plan says to the file itself, and gives the method it used: when the file
    /// system will not insert bytes after all, that is a copy.
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

    /// Writes the edited file into a sink that becomes another file, and gives the sink back.
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

    /// The header of the edited file, whatever the way it gets there.
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

    /// The exact length of the file that a plan leads to.
    pub fn planned_len(&self, plan: &EditPlan) -> Result<u64> {
        match plan.method() {
            EditMethod::Rewrite(_) => Ok(self.rewrite(plan)?.1.layout().total_len()),
            _ => Ok(plan.new_len()),
        }
    }

    /// A shard that is rewritten would no longer be what the others of its set say it is.
    fn check_rewritable(&self) -> Result<()> {
        let split = Split::of(&self.model.metadata()).ok().flatten();
        if split.is_some_and(|split| split.is_part()) {
            return Err(Error::caused(ErrorKind::Unsupported, EditError::OneShard));
        }
        Ok(())
    }
}
