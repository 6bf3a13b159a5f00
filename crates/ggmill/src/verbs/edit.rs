//! `edit`: edits the metadata of a file, in place if that is safe, or in a copy.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use ggmill_core::{MetadataBuf, RawStr, ShardName, Split as ShardSplit};
use ggmill_edit::{
    Edit, EditError, EditFindings, EditMethod, EditPlan, EditValue, Edited, Editor, TypedValue,
    broken_templates, edit_findings, misspelled_keys, similar_pattern,
};
use ggmill_io::{InPlace, Recovery};

use super::running::described_program;
use crate::error::Kind;
use crate::open::refuse_interrupted;
use crate::output::start;
use crate::paths::is_remote;
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Hint, Model, Note, Result, catalogue, read_patch};

/// Edits the metadata of a file: in place if its header has enough free space or the file system can
/// insert space, otherwise by replacing the file with an edited copy.
///
/// The metadata of a split model is in its first shard. The edit is atomic: after a crash, [`recover`]
/// finishes or undoes it.
///
/// ```no_run
/// ggmill::edit("model.gguf")?.set("general.name", "My model")?.apply()?;
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn edit<'a>(path: impl AsRef<Path>) -> Result<FileEdit<'a>> {
    let path = path.as_ref();
    if is_remote(path) {
        let message = "remote files can be read, but not edited";
        let error = Error::new(Kind::Unsupported, "remote", message).at(path);
        return Err(error.with_hint(Hint::UseCopy));
    }
    Ok(FileEdit {
        path: path.to_owned(),
        call: Call::default(),
        edits: Vec::new(),
        inputs: Vec::new(),
        graph: None,
        no_padding: false,
        check: true,
        force: false,
    })
}

/// Finishes or undoes an interrupted edit of a file in place.
pub fn recover(path: impl AsRef<Path>) -> Result<Recovery> {
    InPlace::recover(path.as_ref()).map_err(Error::of_recovery)
}

/// The options of [`edit()`].
#[derive(Debug)]
pub struct FileEdit<'a> {
    path: PathBuf,
    call: Call<'a>,
    edits: Vec<Edit>,
    inputs: Vec<PathBuf>,
    /// Descriptions of architectures, if the computation graph is to be added.
    graph: Option<Vec<PathBuf>>,
    no_padding: bool,
    check: bool,
    force: bool,
}

impl<'a> FileEdit<'a> {
    call_options!(overwrite);

    /// Sets a key to a value, given as text. Its type is that of the present value, else the type of
    /// the key in the specification or the architecture, else inferred from the text; `KEY:TYPE` sets
    /// it explicitly, and `KEY[5]` sets an element of an array.
    pub fn set(mut self, key: &str, value: &str) -> Result<Self> {
        self.edits.push(Edit::parse_set(&format!("{key}={value}"))?);
        Ok(self)
    }

    /// Removes the keys that match a pattern, such as `general.base_model.*`.
    pub fn unset(mut self, pattern: &str) -> Result<Self> {
        self.edits.push(Edit::parse_unset(pattern)?);
        Ok(self)
    }

    /// Renames a key.
    #[must_use]
    pub fn rename(mut self, from: &str, to: &str) -> Self {
        self.edits.push(Edit::Rename { from: from.to_owned(), to: to.to_owned() });
        self
    }

    /// Sets the chat template: Jinja, or the text of a `tokenizer_config.json`.
    pub fn chat_template(mut self, text: &str) -> Result<Self> {
        self.edits.extend(Edit::chat_template(text)?);
        Ok(self)
    }

    /// Sets the keys in a JSON or TOML document; null removes a key.
    pub fn patch(mut self, path: impl AsRef<Path>) -> Result<Self> {
        self.edits.extend(read_patch(path.as_ref())?);
        self.inputs.push(path.as_ref().to_owned());
        Ok(self)
    }

    /// Adds edits.
    #[must_use]
    pub fn edits(mut self, edits: impl IntoIterator<Item = Edit>) -> Self {
        self.edits.extend(edits);
        self
    }

    /// Adds files that values were read from, which the output must not overwrite.
    #[must_use]
    pub fn inputs(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.inputs.extend(paths);
        self
    }

    /// Writes the computation graph of the model into the file, from the built-in description of the
    /// architecture or from a description in these files.
    #[must_use]
    pub fn add_graph(mut self, architectures: &[PathBuf]) -> Self {
        self.graph = Some(architectures.to_vec());
        self
    }

    /// Reserves no space for later edits, and removes space that is reserved.
    #[must_use]
    pub fn no_padding(mut self, no_padding: bool) -> Self {
        self.no_padding = no_padding;
        self
    }

    /// Checks the changed keys, and refuses edits that cause errors. On by default. Chat templates
    /// are checked in any case.
    #[must_use]
    pub fn check(mut self, check: bool) -> Self {
        self.check = check;
        self
    }

    /// Makes an edit that would be refused: one that causes errors, sets a key that looks misspelled,
    /// or a chat template that does not parse.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Edits the file itself: `plan()?.apply()`.
    pub fn apply(self) -> Result<EditSummary> {
        self.plan()?.apply()
    }

    /// Writes an edited copy: `plan_copy(out)?.apply()`.
    pub fn write(self, out: impl AsRef<Path>) -> Result<EditSummary> {
        self.plan_copy(out)?.apply()
    }

    /// Plans the edit of the file itself, and writes nothing. The file is locked until the plan is
    /// dropped.
    pub fn plan(self) -> Result<PlannedEdit<'a>> {
        let editor = Editor::open(&self.path).map_err(Error::of_edit)?;
        self.planned(editor, None)
    }

    /// Plans an edited copy, and writes nothing.
    pub fn plan_copy(self, out: impl AsRef<Path>) -> Result<PlannedEdit<'a>> {
        let out = out.as_ref();
        refuse_interrupted(&[&self.path])?;
        ggmill_io::refuse_inputs(out, std::slice::from_ref(&self.path))
            .map_err(|error| Error::from(error).with_hint(Hint::EditInPlace))?;
        let inputs: Vec<PathBuf> =
            std::iter::once(&self.path).chain(&self.inputs).cloned().collect();
        drop(start(out, &inputs, self.call.overwrite, 0)?);
        let editor = Editor::open_source(&self.path).map_err(Error::of_edit)?;
        self.planned(editor, Some((out.to_owned(), inputs)))
    }

    fn planned(
        mut self,
        editor: Editor,
        copy: Option<(PathBuf, Vec<PathBuf>)>,
    ) -> Result<PlannedEdit<'a>> {
        self.note_shards(&editor)?;
        if let Some(architectures) = &self.graph {
            if !self.edits.is_empty() {
                let message = "the graph is made from the metadata in the file, so it cannot be \
                               combined with other edits";
                return Err(Error::misuse(message).with_hint(Hint::GraphLast));
            }
            self.edits = graph_edits(&self.path, architectures)?;
        }
        let mut edited = editor.edit(&self.edits).map_err(|error| no_match(error, &editor))?;
        if self.no_padding {
            edited = edited.without_padding();
        }
        let plan = editor.plan(edited).map_err(Error::of_edit)?;
        let file_len = editor.planned_len(&plan).map_err(Error::of_edit)?;
        let before = MetadataBuf::copy_of(&editor.model().metadata())?;
        let broken = broken_templates(plan.edited());
        if let Some((key, fault)) = broken.first().filter(|_| !self.force) {
            let message = format_args!("{key}: does not parse: {fault}");
            let error = Error::new(Kind::Refused, "template", message);
            return Err(error.with_hint(Hint::ForceTemplate));
        }
        let findings = if self.check {
            edit_findings(&editor, &plan).map_err(Error::of_edit)?
        } else {
            EditFindings::default()
        };
        if let Some(why) = findings.refusal().filter(|_| !self.force) {
            let error = Error::new(Kind::Refused, "edit", why).at(&self.path);
            return Err(error.with_hint(Hint::ForceEdit));
        }
        let (output, inputs) = match copy {
            Some((output, inputs)) => (output, Some(inputs)),
            None => (self.path.clone(), None),
        };
        let method = plan.method().clone();
        let path = self.path;
        let summary = EditSummary {
            path,
            output,
            method,
            is_written: false,
            plan,
            file_len,
            before,
            findings,
        };
        let planned = PlannedEdit { editor, inputs, call: self.call, summary };
        if planned.inputs.is_none() && planned.summary.is_replaced() {
            drop(start(&planned.summary.path, &[], true, 0)?);
        }
        Ok(planned)
    }

    /// Adds a note for the first shard of a set, and fails for other shards.
    fn note_shards(&mut self, editor: &Editor) -> Result<()> {
        let split = ShardSplit::of(&editor.model().metadata()).ok().flatten();
        let Some(split) = split.filter(ShardSplit::is_part) else { return Ok(()) };
        if split.number == 0 {
            self.call.note(Note::FirstShard(split.count));
            return Ok(());
        }
        let name = self.path.file_name().and_then(|name| name.to_str());
        // A renamed shard belongs to no set: sets are found by file name.
        let Some(name) = name.and_then(ShardName::parse) else { return Ok(()) };
        let message = format_args!(
            "is shard {} of {}, expected the first",
            split.number.saturating_add(1),
            split.count
        );
        let error = Error::misuse(message).at(&self.path);
        Err(error.with_hint(Hint::FirstShard(name.sibling(1))))
    }
}

/// Converts an error of applying the edits. If a pattern matches no key, the hint is a similar pattern.
fn no_match(error: ggmill_pipeline::Error, editor: &Editor) -> Error {
    let meant = match error.cause().and_then(|cause| cause.downcast_ref::<EditError>()) {
        Some(EditError::NoMatch(pattern)) => pattern.parse().ok().and_then(|typed| {
            similar_pattern(&typed, || editor.model().metadata().iter().map(|entry| entry.key()))
        }),
        _ => None,
    };
    Error::of_edit(error).with_hint(meant.map(Hint::Pattern))
}

/// Returns the edits that write the computation graph of a model into its metadata.
fn graph_edits(path: &Path, architectures: &[PathBuf]) -> Result<Vec<Edit>> {
    let model = Model::open(path).map_err(|error| error.replace_hint(None))?;
    let catalogue = catalogue(architectures)?;
    let program = described_program(&model, &catalogue)?;
    let mut entries = MetadataBuf::new();
    program.graph().write(&mut entries).map_err(|error| Error::from(error).within(path))?;
    let edits = entries.iter().map(|(key, value)| Edit::Set {
        key: key.to_string(),
        key_type: None,
        value: EditValue::Typed(TypedValue::new(&value)),
    });
    Ok(edits.collect())
}

/// A planned edit: an [`EditSummary`]. Nothing is written yet.
#[derive(Debug)]
pub struct PlannedEdit<'a> {
    editor: Editor,
    /// The inputs of a copy, which it must not overwrite; `None` if the file itself is edited.
    inputs: Option<Vec<PathBuf>>,
    call: Call<'a>,
    summary: EditSummary,
}

impl Deref for PlannedEdit<'_> {
    type Target = EditSummary;

    fn deref(&self) -> &EditSummary {
        &self.summary
    }
}

impl PlannedEdit<'_> {
    /// Fails if [`apply`](Self::apply) would, for example because the disk is full. Writes nothing.
    pub fn check_outputs(&self) -> Result<()> {
        let (path, len) = (&self.summary.output, self.summary.file_len);
        match &self.inputs {
            Some(inputs) => start(path, inputs, self.call.overwrite, len).map(drop),
            None if self.summary.is_replaced() => start(path, &[], true, len).map(drop),
            None => Ok(()),
        }
    }

    /// Applies the edit.
    pub fn apply(self) -> Result<EditSummary> {
        let Self { mut editor, inputs, mut call, mut summary } = self;
        if let Some(inputs) = inputs {
            let sink = start(&summary.output, &inputs, call.overwrite, summary.file_len)?;
            let sink = call
                .with_report(Stage::Writing, |_, report| editor.write(&summary.plan, sink, report));
            sink.map_err(Error::of_edit)?.commit().map_err(Error::of_recovery)?;
        } else {
            let plan = summary.plan.clone();
            let method = call.with_report(Stage::Writing, |_, report| editor.apply(plan, report));
            summary.method = method.map_err(Error::of_edit)?;
        }
        summary.is_written = true;
        Ok(summary)
    }
}

/// The changes of an edit, and the method.
#[derive(Debug)]
pub struct EditSummary {
    path: PathBuf,
    output: PathBuf,
    method: EditMethod,
    is_written: bool,
    plan: EditPlan,
    file_len: u64,
    before: MetadataBuf,
    findings: EditFindings,
}

impl EditSummary {
    /// Returns the file that is edited.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file that is written: the edited one, or the copy.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Returns the method. An edit that was planned in place is made in a copy if the file system
    /// cannot insert space.
    pub fn method(&self) -> &EditMethod {
        &self.method
    }

    /// Returns `true` if the edit was applied, `false` if it is only planned.
    pub fn is_written(&self) -> bool {
        self.is_written
    }

    /// Returns the edited header and its costs.
    pub fn plan(&self) -> &EditPlan {
        &self.plan
    }

    /// Returns the edited metadata, and the changes.
    pub fn edited(&self) -> &Edited {
        self.plan.edited()
    }

    /// Returns the metadata before the edit.
    pub fn before(&self) -> &MetadataBuf {
        &self.before
    }

    /// Returns the length of the edited file, in bytes.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the findings about the changed keys; none if they were not checked.
    pub fn findings(&self) -> &EditFindings {
        &self.findings
    }

    /// Returns the keys that are new.
    pub fn new_keys(&self) -> impl Iterator<Item = RawStr<'_>> {
        let changes = self.edited().changes().iter();
        changes.filter(|change| !change.before).map(|change| RawStr::new(&change.key))
    }

    /// Returns `true` if a new key looks like a misspelled one, whether that was checked or not.
    pub fn has_misspelled_keys(&self) -> bool {
        !misspelled_keys(self.edited()).is_empty()
    }

    /// Returns `true` if the file is replaced by a copy.
    fn is_replaced(&self) -> bool {
        matches!(self.method, EditMethod::Copy(_) | EditMethod::Rewrite(_))
    }
}
