use std::path::Path;

use ggmill_io::RandomAccess;
use ggmill_pipeline::{Checkpoint, Result};

use crate::safetensors::SafetensorsFile;
use crate::torch::TorchFile;

/// One file of weights.
#[derive(Debug)]
pub(super) enum Part {
    Safetensors(SafetensorsFile),
    Torch(TorchFile),
}

impl Part {
    /// Opens a file as what it begins as.
    pub(super) fn open(file: RandomAccess) -> Result<Self> {
        if TorchFile::begins(&file) {
            return Ok(Self::Torch(TorchFile::new(file)?));
        }
        Ok(Self::Safetensors(SafetensorsFile::new(file)?))
    }

    pub(super) fn checkpoint(&self) -> &dyn Checkpoint {
        match self {
            Self::Safetensors(file) => file,
            Self::Torch(file) => file,
        }
    }

    pub(super) fn file(&self) -> &RandomAccess {
        match self {
            Self::Safetensors(part) => part.file(),
            Self::Torch(part) => part.file(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.file().path()
    }
}
