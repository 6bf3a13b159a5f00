//! Checkpoints, adapters and files from before GGUF become GGUF.

use std::path::{Path, PathBuf};

use ggmill::arch::Catalogue;
use ggmill::check::CheckedPlans;
use ggmill::convert::{
    AutoType, ConvertOptions, LegacyOptions, MetadataOverride, convert_legacy, convert_lora,
    own_type, read_descriptions,
};
use ggmill::formats::{CheckpointDirectory, Legacy, PeftAdapter};
use ggmill::inspect::{FileKind, SNIFFED, sniff};
use ggmill::pipeline::{Checkpoint, Pretrained, Recipe};
use ggmill::quantize::Target;
use ggmill::{FileType, io};
use pyo3::prelude::*;

use super::output::{Output, cut};
use super::quantize::{Types, quantized, target};
use super::shared::SharedPlan;
use crate::error::{Failure, Result};

/// The float types of a conversion, and Q8_0, which is written without a mixture.
const PLAIN: [FileType; 4] = [FileType::F32, FileType::F16, FileType::BF16, FileType::Q8_0];

/// What Python says of a conversion, as its arguments are named.
#[derive(Debug, FromPyObject)]
#[expect(clippy::struct_excessive_bools, reason = "arguments as they are named")]
#[pyo3(from_item_all)]
pub(crate) struct Conversion {
    base: Option<PathBuf>,
    name: Option<String>,
    metadata: Option<String>,
    arch_files: Vec<PathBuf>,
    no_vocab: bool,
    vocab_only: bool,
    mmproj: bool,
    pre: Option<String>,
    check: bool,
}

/// A model to be: its recipe, what it is made of, and the files that are read.
type Prepared = (Recipe, Box<dyn Checkpoint + Send + Sync>, Vec<PathBuf>);

/// Converts a checkpoint, an adapter, or a file from before GGUF; returns the plan as JSON.
#[pyfunction]
#[pyo3(signature = (
    path, output, type_name, types, conversion, *, max_size = None, max_tensors = None,
    overwrite = false, dry_run = false, threads = None, progress = None
))]
pub(crate) fn convert(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    type_name: &str,
    types: Types,
    conversion: Conversion,
    max_size: Option<u64>,
    max_tensors: Option<u64>,
    overwrite: bool,
    dry_run: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    let cut = cut(max_size, max_tensors, false)?;
    let output = Output { path: output, cut, overwrite, dry_run, threads, progress };
    let (recipe, checkpoint, inputs) =
        prepare(py, path, type_name, &types, conversion, &output, dry_run)?;
    output.write(py, recipe, &*checkpoint, &inputs)
}

/// The plan of the same, to be shared out.
#[pyfunction]
#[pyo3(signature = (
    path, output, type_name, types, conversion, *, overwrite = false, threads = None
))]
pub(crate) fn plan_convert(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    type_name: &str,
    types: Types,
    conversion: Conversion,
    overwrite: bool,
    threads: Option<usize>,
) -> Result<SharedPlan> {
    let output = Output::planned(output, overwrite, threads);
    let (recipe, checkpoint, _) = prepare(py, path, type_name, &types, conversion, &output, false)?;
    SharedPlan::new(recipe, checkpoint, &output)
}

fn prepare(
    py: Python<'_>,
    path: PathBuf,
    type_name: &str,
    types: &Types,
    conversion: Conversion,
    output: &Output,
    is_dry_run: bool,
) -> Result<Prepared> {
    let metadata = conversion.metadata.as_ref();
    let metadata = metadata.map(|text| MetadataOverride::from_json(text.as_bytes())).transpose()?;
    let described = read_descriptions(&conversion.arch_files)?;
    let catalogue = described.into_iter().fold(Catalogue::new(), Catalogue::with);
    let rules = conversion.check.then_some(&catalogue);
    let plain = plain(type_name);
    let is_auto = type_name.eq_ignore_ascii_case("auto");
    if is_legacy(&path) {
        if !is_auto {
            let message = "the types of a legacy file cannot be changed, expected \"auto\"";
            return Err(Failure::misuse(message).at(&path));
        }
        let inputs = vec![path];
        output.look_ahead(&inputs)?;
        let legacy = py.detach(|| Legacy::open(&inputs[0]))?;
        let mut options = LegacyOptions::default();
        options.name = conversion.name;
        let recipe = convert_legacy(&legacy, &options)?;
        refuse_errors(&recipe, &legacy, rules, output)?;
        return Ok((recipe, Box::new(legacy), inputs));
    }
    if PeftAdapter::is_at(&path) {
        let file_type = match plain {
            Some(file_type) => file_type,
            None if is_auto => FileType::F32,
            None => {
                return Err(Failure::misuse("an adapter can be F32, F16, BF16 or Q8_0").at(&path));
            }
        };
        let adapter = py.detach(|| PeftAdapter::open(&path))?;
        let base = py.detach(|| adapter.open_base(conversion.base.as_deref()))?;
        let files = adapter.files().chain(base.files()).map(Path::to_owned);
        let inputs: Vec<PathBuf> = files.chain(conversion.arch_files).collect();
        output.look_ahead(&inputs)?;
        let mut options = ConvertOptions::new(file_type);
        options.name = conversion.name;
        options.metadata = metadata;
        let architecture = catalogue.for_checkpoint(base.config())?;
        let recipe = py.detach(|| convert_lora(&adapter, &base, architecture, &options))?;
        return Ok((recipe, Box::new(adapter), inputs));
    }
    if conversion.base.is_some() {
        return Err(Failure::misuse("a base was given, but this is not an adapter").at(&path));
    }

    let checkpoint = py.detach(|| CheckpointDirectory::open(&path))?;
    let architecture = if conversion.mmproj {
        catalogue.for_projector(checkpoint.config())?
    } else {
        catalogue.for_checkpoint(checkpoint.config())?
    };
    let is_chosen = types.goal().is_some() || types.has_plan();
    let quantizes = is_chosen || (plain.is_none() && !is_auto);
    let file_type = match plain {
        _ if quantizes => own_type(&checkpoint),
        Some(file_type) => file_type,
        None => AutoType::of(&checkpoint).file_type,
    };
    let own = checkpoint.files().map(Path::to_owned);
    let inputs: Vec<PathBuf> = own.chain(conversion.arch_files).chain(types.files()).collect();
    output.look_ahead(&inputs)?;
    let mut options = ConvertOptions::new(file_type);
    options.name = conversion.name;
    options.no_vocab = conversion.no_vocab;
    options.vocab_only = conversion.vocab_only;
    options.pre = conversion.pre;
    options.metadata = metadata;
    let mut recipe = py.detach(|| ggmill::convert::convert(&checkpoint, architecture, &options))?;
    if quantizes {
        let target = if is_chosen { Target::copy() } else { target(type_name)? };
        let mut options = types.options(target)?;
        recipe = quantized(py, &recipe, &checkpoint, &mut options, types, output, is_dry_run)?;
    }
    refuse_errors(&recipe, &checkpoint, rules, output)?;
    Ok((recipe, Box::new(checkpoint), inputs))
}

/// Refuses a model that the rules find an error in.
fn refuse_errors(
    recipe: &Recipe,
    checkpoint: &dyn Checkpoint,
    rules: Option<&Catalogue>,
    output: &Output,
) -> Result<()> {
    let Some(catalogue) = rules else { return Ok(()) };
    let plan = recipe.clone().plan(checkpoint)?;
    let checked = CheckedPlans::of(&[&plan], catalogue)?;
    let Some(error) = checked.refusal() else { return Ok(()) };
    let (code, subject) = (error.rule.code, &error.subject);
    let message = format!("{subject}: {} ({code}); the file was not written", error.message);
    Err(Failure::new("check", message).at(&output.path))
}

fn plain(name: &str) -> Option<FileType> {
    name.parse().ok().filter(|found| PLAIN.contains(found))
}

fn is_legacy(path: &Path) -> bool {
    let beginning = io::RandomAccess::open(path).and_then(|file| file.beginning(SNIFFED));
    beginning.is_ok_and(|found| matches!(sniff(&found, None), Some(FileKind::LegacyGgml { .. })))
}
