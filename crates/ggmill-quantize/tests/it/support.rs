use std::ops::ControlFlow;
use std::path::Path;

use ggmill_arch::Catalogue;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::FileType;
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Error, Pretrained as _, RunOptions, run};

/// A checkpoint directory as a file of this type.
pub(crate) fn converted(directory: &Path, file_type: FileType) -> Result<Vec<u8>, Error> {
    let checkpoint = CheckpointDirectory::open(directory)?;
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).expect("a known architecture");
    let plan =
        convert(&checkpoint, architecture, &ConvertOptions::new(file_type))?.plan(&checkpoint)?;
    run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
}
