//! A PEFT adapter becomes a GGUF adapter: what `ggmill convert` does with a directory that has
//! `adapter_config.json`.

use std::path::{Path, PathBuf};

use ggmill_convert::{ConvertOptions, RestoreOptions, convert_lora, restore_checkpoint};
use ggmill_core::FileType;
use ggmill_formats::PeftAdapter;
use ggmill_pipeline::Pretrained;

use crate::arch_file::{ARCH_FILE_HINT, catalogue};
use crate::commands::convert_back;
use crate::commands::convert_write::Place;
use crate::console::Console;
use crate::making::Making;
use crate::metadata_file::metadata_override;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, inputs_of};
use crate::source::open_checkpoint;

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
    let catalogue = catalogue(&arch_file)?;
    let file = base.as_deref().filter(|base| base.is_file());
    // A file of the base says what its directory did, as far as it has a way back.
    let file = file.map(|path| Ok::<_, Failure>((path, open_checkpoint(path)?))).transpose()?;
    let (architecture, base, base_files): (_, Box<dyn Pretrained>, Vec<PathBuf>) =
        if let Some((path, file)) = &file {
            let architecture = convert_back::architecture(path, file, &catalogue)?;
            let mut options = RestoreOptions::default();
            options.no_vocab = true;
            let base = restore_checkpoint(file, architecture, &options)
                .and_then(|restored| restored.into_checkpoint(file))
                .map_err(|error| {
                    convert_back::about(path, &error).with_hint(Some(HINT.to_owned()))
                })?;
            (architecture, Box::new(base), inputs_of(file)?)
        } else {
            let base = adapter
                .open_base(base.as_deref())
                .map_err(|error| Failure::new(error).with_hint(Some(HINT.to_owned())))?;
            let architecture = catalogue
                .for_checkpoint(base.config())
                .map_err(|error| Failure::new(error).with_hint(Some(ARCH_FILE_HINT.to_owned())))?;
            let files = base.files().map(Path::to_owned).collect();
            (architecture, Box::new(base), files)
        };
    let output = Place::of(output.as_deref())
        .path(|| format!("{}-{file_type}.gguf", adapter.name().unwrap_or("adapter")));
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

/// What to do about a base that cannot be used.
const HINT: &str = "--base names the base model: its GGUF file, or its directory, in which \
                    config.json is sufficient";
