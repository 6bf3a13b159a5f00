//! What is converted: a checkpoint, or a refusal that says what the path leads to instead.

use std::io::Write as _;
use std::path::Path;

use ggmill_arch::{Architecture, Catalogue, VocabularySpec};
use ggmill_convert::{TokenizerFiles, WithTarget};
use ggmill_inspect::FileKind;
use ggmill_io::Directory;
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Checkpoint as _, Pretrained as _};

use crate::arch_file::ARCH_FILE_HINT;
use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::remote;
use crate::source::what_it_is;

/// What `ggmill convert` takes.
const EXPECTED: &str = "expected a directory with config.json and weights, a .safetensors or \
                        PyTorch file with config.json next to it, or a legacy LLaMA file";

/// Opens a checkpoint, of which a conversion of the vocabulary needs no weights.
pub(super) fn open(src: &Path, vocab_only: bool) -> Result<CheckpointDirectory, Failure> {
    if let Some(found) = remote::directory(src) {
        let (directory, file) = found?;
        let opened = if vocab_only && file.is_none() {
            CheckpointDirectory::open_described_in(directory)
        } else {
            CheckpointDirectory::open_in(directory, file)
        };
        return opened.map_err(Failure::new);
    }
    let opened = if vocab_only && src.is_dir() {
        CheckpointDirectory::open_described(src)
    } else {
        CheckpointDirectory::open(src)
    };
    opened.map_err(|error| match what_it_is(src) {
        Some(found) if !is_weights(&found) => {
            Failure::new(format_args!("{}: is not a checkpoint, {EXPECTED}", shown(src)))
                .with_hint(Some(advice(&found, src)))
        }
        None if src.is_file() => Failure::new(&error).with_hint(Some(EXPECTED.to_owned())),
        _ => {
            let hint = error.path().and_then(|path| Some((what_it_is(path)?, path)));
            let hint = hint.filter(|(found, path)| !is_weights(found) && !is_own_json(found, path));
            let hint = hint.map(|(found, path)| advice(&found, path)).or_else(|| beside(src));
            Failure::new(&error).with_hint(hint)
        }
    })
}

/// What to do about what is in the directory of a checkpoint, or is not: weights without a
/// configuration, or GGUF or tokenizer files and no weights.
fn beside(src: &Path) -> Option<String> {
    let parent = src.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = if src.is_dir() { src } else { parent.unwrap_or(Path::new(".")) };
    let has = |endings: &[&str]| has_files(directory, endings);
    if has(WEIGHTS) {
        return (!directory.join("config.json").exists()).then(|| {
            format!(
                "the weights do not identify the model: put the config.json of the checkpoint, and \
                 its tokenizer files, into {}",
                shown(directory)
            )
        });
    }
    if has(&["gguf"]) {
        return Some(
            "the directory has GGUF files, which need no conversion: `ggmill quantize` changes \
             their types"
                .to_owned(),
        );
    }
    if src.is_dir()
        && let Some(below) = Directory::open(src).ok().as_ref().and_then(CheckpointDirectory::below)
    {
        return Some(format!("{} is a checkpoint: name this directory", shown(below.path())));
    }
    let has_tokenizer = TokenizerFiles::open(directory).is_ok_and(|found| found.is_some());
    has_tokenizer.then(|| {
        let (config, rest) = if directory.join("config.json").exists() {
            ("", "")
        } else {
            ("with config.json, ", ", and `ggmill tokenize DIR TEXT` needs only these files")
        };
        format!(
            "the directory has tokenizer files: {config}--vocab-only converts the vocabulary \
             without weights{rest}"
        )
    })
}

/// The extensions of files with weights.
const WEIGHTS: &[&str] = &["safetensors", "bin", "pt", "pth"];

/// Whether a directory has a file with one of these extensions.
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

/// Whether a JSON file is one by its name, too.
fn is_own_json(found: &FileKind, path: &Path) -> bool {
    *found == FileKind::Json && path.extension().is_some_and(|extension| extension == "json")
}

/// What a file is, and what to do about it.
fn advice(found: &FileKind, path: &Path) -> String {
    if is_own_json(found, path) {
        return "this is a JSON file; give the directory that contains it, or the file with the \
                weights"
            .to_owned();
    }
    let advice = found.hint().map(|advice| format!("; {advice}")).unwrap_or_default();
    format!("this is {found}{advice}")
}

/// The name of the repository whose snapshot in a cache of the Hugging Face Hub this directory is:
/// the directory itself is named after a commit.
pub(super) fn name_in_cache(src: &Path) -> Option<String> {
    let path = std::path::absolute(src).ok()?;
    let snapshots = path.parent()?;
    let repository = snapshots.parent()?.file_name()?.to_str()?;
    let name = repository.strip_prefix("models--")?.rsplit("--").next()?;
    (snapshots.file_name()? == "snapshots").then(|| name.to_owned())
}

/// A checkpoint of a class that no description is for. For one of a language model the beginning of
/// a description is printed to the console, where one is given.
pub(super) fn unknown_class(
    error: ggmill_arch::Error,
    is_projector: bool,
    catalogue: &Catalogue,
    checkpoint: &CheckpointDirectory,
    console: Option<Console>,
) -> Result<Failure, Failure> {
    if error.kind() != ggmill_arch::ErrorKind::Unknown {
        return Ok(Failure::new(error));
    }
    let names: Vec<_> =
        checkpoint.tensors().iter().map(|tensor| tensor.name().to_string_lossy()).collect();
    let start = (!is_projector)
        .then(|| catalogue.starting_description(checkpoint.config(), &names))
        .flatten();
    let hint = if let Some(start) = &start {
        let Some(console) = console else {
            let hint = "`ggmill convert SRC > mine.toml` writes a first draft of a description";
            return Ok(Failure::new(error).with_hint(Some(hint.to_owned())));
        };
        let mut out = console.text();
        out.write_all(start.text.as_bytes())?;
        out.flush()?;
        format!(
            "standard output contains a first draft of a description, based on that of {}, whose \
             tensors have the most similar names: save it (`ggmill convert SRC > mine.toml`), \
             complete it with what the comments at its top list, and pass it with --arch-file mine.toml",
            start.nearest
        )
    } else {
        ARCH_FILE_HINT.to_owned()
    };
    Ok(Failure::new(error).with_hint(Some(hint)))
}

/// The model that a checkpoint drafts for, where it is one that does.
pub(super) fn target(
    architecture: &Architecture,
    target: Option<&Path>,
    source: &Path,
) -> Result<Option<CheckpointDirectory>, Failure> {
    match target {
        Some(target) if architecture.needs_target() => {
            CheckpointDirectory::open_described(target).map(Some).map_err(Failure::new)
        }
        Some(_) => Err(Failure::new(format_args!(
            "{}: is not a draft model; --target applies only to draft models",
            shown(source)
        ))),
        None if architecture.needs_target() => Err(Failure::new(format_args!(
            "{}: is a draft model for speculative decoding, and uses the vocabulary of its target \
             model",
            shown(source)
        ))
        .with_hint(Some("--target DIR names the directory of the target model".to_owned()))),
        None => Ok(None),
    }
}

/// How the vocabulary of a draft's target is converted, by the description for the target's class.
pub(super) fn target_vocabulary(
    draft: &WithTarget<'_>,
    target: &serde_json::Value,
    catalogue: &Catalogue,
) -> Result<Option<VocabularySpec>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format_args!("--target: {error}"));
    let architecture = catalogue.for_checkpoint(target).map_err(|error| failed(&error))?;
    draft.vocabulary(architecture).map_err(|error| failed(&error))
}
