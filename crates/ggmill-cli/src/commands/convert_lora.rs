//! A PEFT adapter becomes a GGUF adapter: what `ggmill convert` does with a directory that has
//! `adapter_config.json`.

use std::path::{Path, PathBuf};

use ggmill_convert::{ConvertOptions, convert_lora};
use ggmill_core::FileType;
use ggmill_formats::{CheckpointDirectory, Configuration, PeftAdapter};
use ggmill_pipeline::Pretrained;

use crate::arch_file::{ARCH_FILE_HINT, catalogue};
use crate::console::Console;
use crate::making::Making;
use crate::metadata_file::metadata_override;
use crate::outcome::{Failure, Status};
use crate::outputs::Output;
use crate::paths::shown;

/// A conversion of an adapter.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) src: PathBuf,
    pub(crate) base: Option<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    /// The type; F32, as the reference has it, where none is asked for.
    pub(crate) file_type: Option<FileType>,
    pub(crate) name: Option<String>,
    pub(crate) metadata: Option<PathBuf>,
    pub(crate) arch_file: Vec<PathBuf>,
    pub(crate) force: bool,
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
}

pub(crate) fn run(request: Request, console: Console) -> Result<Status, Failure> {
    let Request { src, base, output, file_type, name, metadata, arch_file, force, dry_run, json } =
        request;
    let file_type = file_type.unwrap_or(FileType::F32);
    let adapter = PeftAdapter::open(&src).map_err(Failure::new)?;
    let (base, base_files) = base_of(&adapter, base)?;
    let catalogue = catalogue(&arch_file)?;
    let architecture = catalogue
        .for_checkpoint(base.config())
        .map_err(|error| Failure::new(error).with_hint(Some(ARCH_FILE_HINT.to_owned())))?;
    let output = output.unwrap_or_else(|| {
        PathBuf::from(format!("{}-{file_type}.gguf", adapter.name().unwrap_or("adapter")))
    });
    let inputs: Vec<PathBuf> = adapter
        .files()
        .map(Path::to_owned)
        .chain(base_files)
        .chain(arch_file)
        .chain(metadata.clone())
        .collect();
    let output = Output::new(&output, &inputs, force, dry_run)?;
    let mut options = ConvertOptions::new(file_type);
    options.name = name;
    options.metadata = metadata.as_deref().map(metadata_override).transpose()?;
    let recipe = convert_lora(&adapter, &*base, architecture, &options).map_err(Failure::new)?;
    let plan = recipe.plan(&adapter).map_err(Failure::new)?;
    Making { output, inputs: &inputs, json }.run(&plan, &adapter, console)
}

/// The base of an adapter, with its files: the directory that was given, or the one that the
/// adapter names.
fn base_of(
    adapter: &PeftAdapter,
    given: Option<PathBuf>,
) -> Result<(Box<dyn Pretrained>, Vec<PathBuf>), Failure> {
    let hint = "--base DIR names the directory of the base model; config.json alone is enough";
    let path = match (given, adapter.base()) {
        (Some(given), _) => given,
        (None, Some(named)) if Path::new(named).is_dir() => named.into(),
        (None, named) => {
            let message = match named {
                Some(named) => format!(
                    "the base of the adapter is {:?}, which is not a directory here",
                    ggmill_core::RawStr::from(named)
                ),
                None => "the adapter does not name its base".to_owned(),
            };
            return Err(Failure::new(message).with_hint(Some(hint.to_owned())));
        }
    };
    if path.is_file() {
        let message = format!("{}: is a file, expected a directory", shown(&path));
        return Err(Failure::new(message).with_hint(Some(hint.to_owned())));
    }
    // Some architectures are told apart by their tensors.
    if CheckpointDirectory::is_at(&path) {
        let checkpoint = CheckpointDirectory::open(&path).map_err(Failure::new)?;
        let files = checkpoint.files().map(Path::to_owned).collect();
        return Ok((Box::new(checkpoint), files));
    }
    let configuration = Configuration::open(&path).map_err(Failure::new)?;
    let file = configuration.file();
    Ok((Box::new(configuration), vec![file]))
}
