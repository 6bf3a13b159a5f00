//! A draft model for speculative decoding, with its target model.

use ggmill_arch::{Architecture, VocabularySpec};
use ggmill_io::RandomAccess;
use ggmill_pipeline::{
    Checkpoint, Error, ErrorKind, FileRange, Pretrained, Result, SideFiles, SourceTensor,
};
use serde_json::Value;

use crate::facts::{Facts, documents};
use crate::weights::{Quantization, Weights};

/// Files that describe the draft itself; they are never read from the target.
const DRAFT_FILES: [&str; 4] =
    ["config.json", "generation_config.json", "README.md", "mask_embedding.pt"];

/// Prefix by which descriptions address the target's files.
const TARGET_PREFIX: &str = "target/";

/// A draft checkpoint for speculative decoding with its *target* checkpoint: the weights and the
/// configuration are the draft's, the tokenizer is the target's. Descriptions address files of the
/// target by names that begin with `target/`.
///
/// [`Architecture::needs_target`](ggmill_arch::Architecture::needs_target) says whether an
/// architecture is a draft.
#[derive(Clone, Copy, Debug)]
pub struct WithTarget<'a> {
    draft: &'a dyn Pretrained,
    target: &'a dyn Pretrained,
    files: Files<'a>,
}

impl<'a> WithTarget<'a> {
    /// Combines a draft with its target.
    pub fn new(draft: &'a dyn Pretrained, target: &'a dyn Pretrained) -> Self {
        let files = Files { draft: draft.side_files(), target: target.side_files() };
        Self { draft, target, files }
    }

    /// Returns how the vocabulary of the target is converted, by the description of its
    /// architecture, or `None` if that description does not cover vocabularies. Fails as
    /// [`resolve_checkpoint`](Architecture::resolve_checkpoint) does.
    pub fn vocabulary(&self, architecture: &Architecture) -> Result<Option<VocabularySpec>> {
        let quantization = Quantization::of(self.target)?;
        let weights = Weights::of(self.target, quantization.as_ref())?;
        let facts = Facts::of(&weights, architecture);
        let documents = documents(self.target, architecture)?;
        let resolved = architecture
            .resolve_checkpoint(self.target.config(), &documents, &facts)
            .map_err(|error| Error::caused(ErrorKind::Architecture, error))?;
        Ok(resolved.vocabulary().cloned())
    }
}

impl Checkpoint for WithTarget<'_> {
    fn tensors(&self) -> &[SourceTensor] {
        self.draft.tensors()
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.draft.read(number, offset, out)
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.draft.range(number)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.draft.sources()
    }

    fn verify(&self) -> Result<()> {
        self.draft.verify()
    }
}

impl Pretrained for WithTarget<'_> {
    fn config(&self) -> &Value {
        self.draft.config()
    }

    fn name(&self) -> Option<&str> {
        self.draft.name()
    }

    fn side_files(&self) -> &dyn SideFiles {
        &self.files
    }

    fn notes(&self) -> &[String] {
        self.draft.notes()
    }
}

/// The side files of both models.
#[derive(Clone, Copy, Debug)]
struct Files<'a> {
    draft: &'a dyn SideFiles,
    target: &'a dyn SideFiles,
}

impl<'a> Files<'a> {
    /// Returns the owner of a file and the file's name in the owner's directory.
    fn resolve<'n>(&self, name: &'n str) -> (&'a dyn SideFiles, &'n str) {
        match name.strip_prefix(TARGET_PREFIX) {
            Some(name) => (self.target, name),
            None if DRAFT_FILES.contains(&name) => (self.draft, name),
            None => (self.target, name),
        }
    }
}

impl SideFiles for Files<'_> {
    fn has(&self, name: &str) -> bool {
        let (files, name) = self.resolve(name);
        files.has(name)
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let (files, name) = self.resolve(name);
        files.read(name, limit)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.target.list(directory)
    }
}
