//! Reading the checkpoint of a conversion: opens it, and explains paths that are not checkpoints.

use std::path::Path;

use ggmill_arch::{Architecture, Catalogue, VocabularySpec};
use ggmill_convert::{TokenizerFiles, WithTarget};
use ggmill_inspect::FileKind;
use ggmill_io::Directory;
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Checkpoint as _, Pretrained as _};

use crate::error::Kind;
use crate::open::kind_of_file;
use crate::{Error, Hint, OpenOptions, Result};

/// Opens a checkpoint: a directory, a file of weights with its configuration, or a repository. With
/// `vocab_only`, a directory needs no weights.
pub(super) fn open_checkpoint(
    path: &Path,
    vocab_only: bool,
    options: &OpenOptions,
) -> Result<CheckpointDirectory> {
    if let Some((directory, file)) = options.remote_directory(path)? {
        return Ok(if vocab_only && file.is_none() {
            CheckpointDirectory::open_described_in(directory)?
        } else {
            CheckpointDirectory::open_in(directory, file)?
        });
    }
    let opened = if vocab_only && path.is_dir() {
        CheckpointDirectory::open_described(path)
    } else {
        CheckpointDirectory::open(path)
    };
    opened.map_err(|error| not_opened(error, path))
}

/// Opens the target model of a draft model at `path`. Fails if a draft model has no target, or another
/// model has one.
pub(super) fn open_target(
    path: &Path,
    target: Option<&Path>,
    architecture: &Architecture,
) -> Result<Option<CheckpointDirectory>> {
    match target {
        Some(target) if architecture.needs_target() => {
            Ok(Some(CheckpointDirectory::open_described(target)?))
        }
        Some(_) => {
            let message = "is not a draft model";
            Err(Error::misuse(message).at(path).with_hint(Hint::OnlyDrafts))
        }
        None if architecture.needs_target() => {
            let message = "is a draft model for speculative decoding, and uses the vocabulary of \
                           its target model";
            Err(Error::misuse(message).at(path).with_hint(Hint::NameTarget))
        }
        None => Ok(None),
    }
}

/// Converts an error of opening a checkpoint, and adds a hint with the kind of the path.
fn not_opened(error: ggmill_pipeline::Error, path: &Path) -> Error {
    match kind_of_file(path) {
        Some(found) if !is_weights(&found) => {
            let message = format_args!("is not a checkpoint, {}", Hint::ExpectCheckpoint);
            Error::malformed(message).at(path).with_hint(hint_for_kind(found, path))
        }
        None if path.is_file() => Error::from(error).with_hint(Hint::ExpectCheckpoint),
        _ => {
            let found = error.path().and_then(|path| Some((kind_of_file(path)?, path)));
            let found =
                found.filter(|(found, path)| !is_weights(found) && !is_named_json(found, path));
            let hint = found.map(|(found, path)| hint_for_kind(found, path));
            let hint = hint.or_else(|| hint_for_directory(path));
            Error::from(error).with_hint(hint)
        }
    }
}

/// Returns the hint for a directory that has weights without a configuration, or GGUF files or tokenizer
/// files without weights.
fn hint_for_directory(path: &Path) -> Option<Hint> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = if path.is_dir() { path } else { parent.unwrap_or(Path::new(".")) };
    let has_config = directory.join("config.json").exists();
    if has_files(directory, &["safetensors", "bin", "pt", "pth"]) {
        return (!has_config).then(|| Hint::AddConfiguration(directory.to_owned()));
    }
    if has_files(directory, &["gguf"]) {
        return Some(Hint::NeedsNoConversion);
    }
    if path.is_dir()
        && let Some(below) =
            Directory::open(path).ok().as_ref().and_then(CheckpointDirectory::below)
    {
        return Some(Hint::CheckpointBelow(below.path().to_owned()));
    }
    let has_tokenizer = TokenizerFiles::open(directory).is_ok_and(|found| found.is_some());
    has_tokenizer.then_some(Hint::TokenizerFiles(has_config))
}

/// Returns `true` if a directory has a file with one of these extensions.
fn has_files(directory: &Path, extensions: &[&str]) -> bool {
    let mut names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    names.any(|entry| {
        let path = entry.path();
        extensions.iter().any(|extension| path.extension().is_some_and(|found| found == *extension))
    })
}

fn is_weights(found: &FileKind) -> bool {
    matches!(found, FileKind::Safetensors | FileKind::PytorchZip | FileKind::PytorchLegacy)
}

/// Returns `true` for a JSON file with the extension `.json`, such as `config.json`.
fn is_named_json(found: &FileKind, path: &Path) -> bool {
    *found == FileKind::Json && path.extension().is_some_and(|extension| extension == "json")
}

fn hint_for_kind(found: FileKind, path: &Path) -> Hint {
    if is_named_json(&found, path) { Hint::NameDirectory } else { Hint::Content(found) }
}

/// Converts the error for a checkpoint of a class without a description. For a language model, the hint
/// has the draft of a description.
pub(super) fn unknown_class(
    error: ggmill_arch::Error,
    is_projector: bool,
    catalogue: &Catalogue,
    checkpoint: &CheckpointDirectory,
) -> Error {
    if error.kind() != ggmill_arch::ErrorKind::Unknown {
        return error.into();
    }
    let names: Vec<_> =
        checkpoint.tensors().iter().map(|tensor| tensor.name().to_string_lossy()).collect();
    let draft = (!is_projector)
        .then(|| catalogue.starting_description(checkpoint.config(), &names))
        .flatten();
    let hint = match draft {
        Some(draft) => Hint::DraftDescription { nearest: draft.nearest, text: draft.text },
        None => Hint::DescribeArchitecture,
    };
    Error::from(error).replace_hint(hint)
}

/// Returns how the vocabulary of a draft model's target is converted, from the description of the
/// target.
pub(super) fn target_vocabulary(
    draft: &WithTarget<'_>,
    target: &serde_json::Value,
    catalogue: &Catalogue,
) -> Result<Option<VocabularySpec>> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(Kind::Unsupported, "target", format_args!("target: {error}"))
    };
    let architecture = catalogue.for_checkpoint(target).map_err(|error| failed(&error))?;
    draft.vocabulary(architecture).map_err(|error| failed(&error))
}

/// Returns the repository name of a snapshot in the cache of the Hugging Face Hub, whose directory is
/// named after a commit; `None` for another directory.
pub(super) fn name_in_cache(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let snapshots = path.parent()?;
    let repository = snapshots.parent()?.file_name()?.to_str()?;
    let name = repository.strip_prefix("models--")?.rsplit("--").next()?;
    (snapshots.file_name()? == "snapshots").then(|| name.to_owned())
}
