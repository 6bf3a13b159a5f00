//! Fixtures and helpers.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, Header};
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Error, ErrorKind, GgufCheckpoint, Pretrained as _, RunOptions, run};
use ggmill_quantize::{Imatrix, Importance, ImportanceFilter, QuantizeOptions, Target, quantize};
use ggmill_testdata::models::{Model, models};

/// Converts a checkpoint directory to a file of this type.
pub(crate) fn converted(directory: &Path, file_type: FileType) -> Result<Vec<u8>, Error> {
    let checkpoint = CheckpointDirectory::open(directory)?;
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).expect("a known architecture");
    let plan =
        convert(&checkpoint, architecture, &ConvertOptions::new(file_type))?.plan(&checkpoint)?;
    run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
}

/// A model of ggmill-testdata in a temporary file.
pub(crate) struct Fixture {
    pub(crate) model: Model,
    pub(crate) directory: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new(name: &str) -> Self {
        let model = models().into_iter().find(|model| model.name == name).unwrap();
        let this = Self { model, directory: tempfile::tempdir().unwrap() };
        std::fs::write(this.path(), &this.model.file).unwrap();
        this
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("model.gguf")
    }

    /// Returns the offset of a tensor's data in the file.
    pub(crate) fn data(&self, name: &str) -> usize {
        usize::try_from(Header::parse(&self.model.file).unwrap().tensor(name).unwrap().offset())
            .unwrap()
    }

    pub(crate) fn importance(&self, filter: &ImportanceFilter) -> Importance {
        Importance::new(&Imatrix::parse(&self.model.imatrix()).unwrap(), Some("imatrix"), filter)
            .unwrap()
    }
}

/// Returns an importance matrix of the legacy form with these entries and one call.
pub(crate) fn legacy_imatrix(entries: &[(String, Vec<f32>)]) -> Imatrix {
    let number = |number: usize| i32::try_from(number).unwrap().to_le_bytes();
    let mut file = number(entries.len()).to_vec();
    for (name, weights) in entries {
        file.extend(number(name.len()));
        file.extend(name.as_bytes());
        file.extend([1, weights.len()].into_iter().flat_map(number));
        file.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
    }
    Imatrix::parse(&file).unwrap()
}

pub(crate) fn options(target: &str) -> QuantizeOptions {
    QuantizeOptions::new(target.parse::<Target>().unwrap())
}

pub(crate) fn quantized(path: &Path, options: &QuantizeOptions) -> Result<Vec<u8>, Error> {
    let checkpoint = GgufCheckpoint::open(path)?;
    let plan = quantize(&checkpoint, options)?.plan(&checkpoint)?;
    run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
}

pub(crate) fn refusal(path: &Path, options: &QuantizeOptions) -> (ErrorKind, String) {
    let error = quantized(path, options).expect_err("a refusal");
    (error.kind(), error.to_string())
}
