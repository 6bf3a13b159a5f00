use std::path::Path;

use crate::{Checkpoint, Result};
use ggmill_io::RandomAccess;
use serde_json::Value;

use crate::formats::llama2c::Llama2c;
use crate::formats::safetensors::SafetensorsFile;
use crate::formats::torch::TorchFile;

/// One file of weights.
#[derive(Debug)]
pub(crate) enum Part {
    Safetensors(SafetensorsFile),
    Torch(TorchFile),
    Llama2c(Llama2c),
}

impl Part {
    /// Opens a file as what it begins as.
    pub(crate) fn open(file: RandomAccess) -> Result<Self> {
        if TorchFile::begins(&file) {
            return Ok(Self::Torch(TorchFile::new(file)?));
        }
        Ok(Self::Safetensors(SafetensorsFile::new(file)?))
    }

    /// A file that has its configuration itself, with that; `None` for another.
    pub(crate) fn with_configuration(file: RandomAccess) -> Result<Option<(Self, Value)>> {
        if !Llama2c::begins(&file) {
            return Ok(None);
        }
        let (file, config) = Llama2c::new(file)?;
        Ok(Some((Self::Llama2c(file), config)))
    }

    pub(crate) fn checkpoint(&self) -> &dyn Checkpoint {
        match self {
            Self::Safetensors(file) => file,
            Self::Torch(file) => file,
            Self::Llama2c(file) => file,
        }
    }

    pub(crate) fn file(&self) -> &RandomAccess {
        match self {
            Self::Safetensors(part) => part.file(),
            Self::Torch(part) => part.file(),
            Self::Llama2c(part) => part.file(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file().path()
    }
}
