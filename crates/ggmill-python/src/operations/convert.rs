//! Checkpoints, adapters and files from before GGUF become GGUF.

use std::path::{Path, PathBuf};

use ggmill::arch::{Architecture, Catalogue};
use ggmill::check::{Options, Severity, check_plans};
use ggmill::convert::{
    ConvertOptions, LegacyOptions, MetadataOverride, auto_type, convert_legacy, convert_lora,
    own_type,
};
use ggmill::formats::{CheckpointDirectory, Configuration, Legacy, PeftAdapter};
use ggmill::inspect::{FileKind, sniff};
use ggmill::pipeline::{Checkpoint, Pretrained, Recipe};
use ggmill::quantize::Target;
use ggmill::{FileType, io, keys};
use pyo3::prelude::*;

use super::output::{Output, cut};
use super::quantize::{Types, quantized, target};
use super::shared::SharedPlan;
use crate::error::{Failure, Result};

/// The float types of a conversion, and Q8_0, which is written without a mixture.
const PLAIN: [FileType; 4] = [FileType::F32, FileType::F16, FileType::BF16, FileType::Q8_0];

/// What Python says of a conversion, as its arguments are named.
#[derive(Debug, FromPyObject)]
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
    let catalogue = catalogue(&conversion.arch_files)?;
    let rules = conversion.check.then_some(&catalogue);
    let plain = plain(type_name);
    let is_auto = type_name.eq_ignore_ascii_case("auto");
    if is_legacy(&path) {
        if !is_auto {
            let message = "a file from before GGUF keeps its types, expected \"auto\"";
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
            None => return Err(Failure::misuse("an adapter is F32, F16, BF16 or Q8_0").at(&path)),
        };
        let adapter = py.detach(|| PeftAdapter::open(&path))?;
        let (base, base_files) = base_of(&adapter, conversion.base, &path)?;
        let own = adapter.files().map(Path::to_owned);
        let inputs: Vec<PathBuf> = own.chain(base_files).chain(conversion.arch_files).collect();
        output.look_ahead(&inputs)?;
        let mut options = ConvertOptions::new(file_type);
        options.name = conversion.name;
        options.metadata = metadata;
        let architecture = catalogue.for_checkpoint(base.config())?;
        let recipe = py.detach(|| convert_lora(&adapter, &*base, architecture, &options))?;
        return Ok((recipe, Box::new(adapter), inputs));
    }
    if conversion.base.is_some() {
        return Err(Failure::misuse("a base is for adapters, and this is none").at(&path));
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
        None => auto_type(&checkpoint),
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

/// Refuses a model that the rules find an error in. A part of a model, such as one without its
/// vocabulary, is not refused: what is missing was left out.
fn refuse_errors(
    recipe: &Recipe,
    checkpoint: &dyn Checkpoint,
    rules: Option<&Catalogue>,
    output: &Output,
) -> Result<()> {
    let vocabulary = recipe.metadata().get(keys::TOKENIZER_MODEL);
    let has_vocabulary = vocabulary.is_some_and(|model| model.as_str() != Some("none"));
    let is_part = recipe.tensors.is_empty() || !has_vocabulary;
    let Some(catalogue) = rules.filter(|_| !is_part) else { return Ok(()) };
    let plan = recipe.clone().plan(checkpoint)?;
    let reports = check_plans(&[&plan], catalogue, &Options::default())?;
    let mut found = reports.iter().flat_map(ggmill::check::Report::diagnostics);
    match found.find(|found| found.severity == Severity::Error) {
        None => Ok(()),
        Some(error) => {
            let (code, subject) = (error.rule.code, &error.subject);
            let message = format!("{subject}: {} ({code}); it is not written", error.message);
            Err(Failure::new("check", message).at(&output.path))
        }
    }
}

fn plain(name: &str) -> Option<FileType> {
    name.parse().ok().filter(|found| PLAIN.contains(found))
}

fn is_legacy(path: &Path) -> bool {
    let Ok(file) = io::RandomAccess::open(path) else { return false };
    let mut beginning = [0; 4096];
    let len = usize::try_from(file.len()).map_or(beginning.len(), |len| len.min(beginning.len()));
    let Some(beginning) = beginning.get_mut(..len) else { return false };
    file.read_at(0, beginning).is_ok()
        && matches!(sniff(beginning, None), Some(FileKind::LegacyGgml { .. }))
}

fn catalogue(files: &[PathBuf]) -> Result<Catalogue> {
    files.iter().try_fold(Catalogue::new(), |catalogue, path| {
        let file = io::RandomAccess::open(path)?;
        let too_long = || Failure::new("limit", "too long for a description").at(path);
        let len = usize::try_from(file.len()).map_err(|_| too_long())?;
        if len > Architecture::MAX_LEN {
            return Err(too_long());
        }
        let mut text = vec![0; len];
        file.read_at(0, &mut text)?;
        let text = String::from_utf8(text)
            .map_err(|_| Failure::new("architecture", "is not UTF-8").at(path))?;
        let described =
            Architecture::parse(&text).map_err(|error| Failure::from(error).at(path))?;
        Ok(catalogue.with(described))
    })
}

/// The base of an adapter with its files: the directory given, or the one that the adapter names.
fn base_of(
    adapter: &PeftAdapter,
    given: Option<PathBuf>,
    path: &Path,
) -> Result<(Box<dyn Pretrained>, Vec<PathBuf>)> {
    let named = || adapter.base().map(PathBuf::from).filter(|named| named.is_dir());
    let Some(base) = given.or_else(named) else {
        let message = "the adapter names no directory that is here as its base; give one";
        return Err(Failure::misuse(message).at(path));
    };
    if CheckpointDirectory::is_at(&base) {
        let checkpoint = CheckpointDirectory::open(&base)?;
        let files = checkpoint.files().map(Path::to_owned).collect();
        return Ok((Box::new(checkpoint), files));
    }
    let configuration = Configuration::open(&base)?;
    let file = configuration.file();
    Ok((Box::new(configuration), vec![file]))
}
