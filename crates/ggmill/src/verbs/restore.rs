//! `restore`: converts a GGUF file back to a checkpoint.

use std::fmt;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue};
use ggmill_convert::{RestoreOptions, RestoredCheckpoint, check_restorable, restore_checkpoint};
use ggmill_core::{GgmlType, RawStr, keys};
use ggmill_io::NewDirectory;
use ggmill_pipeline::{Checkpoint as _, ErrorKind, GgufCheckpoint, ShardLimit};

use crate::error::Kind;
use crate::open::refuse_interrupted;
use crate::output::start_directory;
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Hint, Model, Note, Result, read_architectures};

/// Restores the checkpoint that a model was converted from: a directory with `config.json`, weights
/// as safetensors, and tokenizer files.
///
/// The description of the architecture is applied in reverse. If the file lacks data that a tensor
/// of the checkpoint needs, restoring fails and names the tensor.
///
/// ```no_run
/// let model = ggmill::Model::open("model.gguf")?;
/// let restored = ggmill::restore(&model)?.write("checkpoint/")?;
/// println!("{}", restored.class());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn restore<'a>(model: &Model) -> Result<Restore<'a>> {
    Ok(Restore {
        model: model.clone(),
        call: Call::default(),
        options: RestoreOptions::default(),
        vocab_only: false,
        limit: ShardLimit::Bytes(RestoredCheckpoint::SHARD_BYTES),
        catalogue: Catalogue::new(),
    })
}

/// The options of [`restore()`].
#[derive(Debug)]
pub struct Restore<'a> {
    model: Model,
    call: Call<'a>,
    options: RestoreOptions,
    vocab_only: bool,
    limit: ShardLimit,
    catalogue: Catalogue,
}

impl<'a> Restore<'a> {
    call_options!(encoding);

    /// Sets the type of the tensors: F32, F16 or BF16. By default they keep their types if possible.
    #[must_use]
    pub fn ggml_type(mut self, ggml_type: GgmlType) -> Self {
        self.options.ggml_type = Some(ggml_type);
        self
    }

    /// Sets the model class. The default is the best match.
    #[must_use]
    pub fn class(mut self, name: impl Into<String>) -> Self {
        self.options.class = Some(name.into());
        self
    }

    /// Writes no tokenizer.
    #[must_use]
    pub fn no_vocab(mut self, no_vocab: bool) -> Self {
        self.options.no_vocab = no_vocab;
        self
    }

    /// Writes only the tokenizer.
    #[must_use]
    pub fn vocab_only(mut self, vocab_only: bool) -> Self {
        self.vocab_only = vocab_only;
        self
    }

    /// Sets the size limit for each file of weights.
    #[must_use]
    pub fn split(mut self, limit: ShardLimit) -> Self {
        self.limit = limit;
        self
    }

    /// Reads descriptions of architectures, in addition to the built-in ones.
    pub fn architectures(mut self, paths: &[PathBuf]) -> Result<Self> {
        let read = read_architectures(paths)?;
        self.catalogue = read.into_iter().fold(self.catalogue, Catalogue::with);
        Ok(self)
    }

    /// Restores the checkpoint into a directory that must not exist.
    pub fn write(self, directory: impl AsRef<Path>) -> Result<Restored> {
        self.start(directory.as_ref(), false)?.write()
    }

    /// Plans the checkpoint, and writes nothing.
    pub fn plan(self, directory: impl AsRef<Path>) -> Result<RestorePlan<'a>> {
        self.start(directory.as_ref(), true)
    }

    fn start(self, path: &Path, dry_run: bool) -> Result<RestorePlan<'a>> {
        let Self { model, call, options, vocab_only, limit, catalogue } = self;
        let checkpoint = model.checkpoint()?;
        refuse_interrupted(&model.files())?;
        let architecture =
            if vocab_only { None } else { Some(architecture_of(&model, &catalogue)?) };
        let directory = start_directory(path, dry_run)?;
        let restored = match architecture {
            None => RestoredCheckpoint::from_vocabulary(checkpoint.metadata()),
            Some(architecture) => restore_checkpoint(&checkpoint, architecture, &options),
        };
        let checkpoint_files = restored.map_err(|error| {
            let is_vocabulary =
                matches!(error.kind(), ErrorKind::Vocabulary | ErrorKind::PreTokenizer);
            let hint = (is_vocabulary && !vocab_only).then_some(Hint::OmitTokenizer);
            located(error, &model).replace_hint(hint)
        })?;
        let path = path.to_owned();
        Ok(RestorePlan { restored: checkpoint_files, limit, path, directory, checkpoint, call })
    }
}

/// A planned checkpoint.
pub struct RestorePlan<'a> {
    restored: RestoredCheckpoint,
    limit: ShardLimit,
    path: PathBuf,
    directory: Option<NewDirectory>,
    checkpoint: GgufCheckpoint,
    call: Call<'a>,
}

impl fmt::Debug for RestorePlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestorePlan").field("path", &self.path).finish_non_exhaustive()
    }
}

impl RestorePlan<'_> {
    /// Returns the checkpoint: its class, tensors and files.
    pub fn checkpoint(&self) -> &RestoredCheckpoint {
        &self.restored
    }

    /// Returns the names of the files of weights, each with the number of its tensors.
    pub fn shards(&self) -> Vec<(String, usize)> {
        let shards = self.restored.shards(self.limit).into_iter();
        shards.map(|(name, tensors)| (name, tensors.len())).collect()
    }

    /// Returns the facts worth knowing about the checkpoint.
    pub fn notes(&self) -> Vec<Note> {
        self.restored.notes.iter().cloned().map(Note::Plan).collect()
    }

    /// Writes the directory, completely or not at all.
    pub fn write(mut self) -> Result<Restored> {
        let notes = self.notes();
        let Self { restored, limit, path, directory, checkpoint, call } = &mut self;
        let directory = match directory.take() {
            Some(directory) => directory,
            None => NewDirectory::create(&*path)?,
        };
        let class = restored.class.clone();
        let (restored, limit) = (restored.clone(), *limit);
        call.with_report(Stage::Writing, |run, report| {
            restored.write(checkpoint, limit, directory, run, report)
        })?;
        Ok(Restored { path: self.path, class, notes })
    }
}

/// A restored checkpoint.
#[derive(Debug)]
pub struct Restored {
    path: PathBuf,
    class: String,
    notes: Vec<Note>,
}

impl Restored {
    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the model class; empty if only the tokenizer was written.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// Returns the facts worth knowing about the checkpoint.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// Returns the description of a model's architecture. Fails for files such as adapters, which have none.
pub(super) fn architecture_of<'c>(
    model: &Model,
    catalogue: &'c Catalogue,
) -> Result<&'c Architecture> {
    let checkpoint = model.checkpoint()?;
    check_restorable(&checkpoint).map_err(|error| {
        let has_vocabulary = model.metadata().get(keys::TOKENIZER_MODEL).is_some();
        let hint =
            (checkpoint.tensors().is_empty() && has_vocabulary).then_some(Hint::VocabularyOnly);
        located(error, model).replace_hint(hint)
    })?;
    let name = model.metadata().str(keys::GENERAL_ARCHITECTURE)?;
    catalogue.by_name(name).ok_or_else(|| {
        let name = RawStr::from(name);
        let message = format_args!("there is no description of the architecture {name:?}");
        let error = Error::new(Kind::Unsupported, "architecture", message);
        let error = match model.path() {
            Some(path) => error.at(path),
            None => error,
        };
        error.with_hint(Hint::DescribeThis)
    })
}

/// Converts an error about a model, and adds its path unless the error names a file.
pub(super) fn located(error: ggmill_pipeline::Error, model: &Model) -> Error {
    let error = Error::from(error);
    match model.path() {
        Some(path) => error.at(path),
        None => error,
    }
}
