//! The memory that a model takes to run.

use std::path::{Path, PathBuf};

use ggmill::arch::{Architecture, Catalogue};
use ggmill::core::Model;
use ggmill::estimate::{self as library, Beside, Options, Placement, TensorOverride};
use ggmill::{GgmlType, io};
use pyo3::prelude::*;

use super::output::json;
use crate::error::{Failure, Result};

/// How a model is to be run, as keywords of Python.
#[derive(FromPyObject)]
pub(crate) struct Run {
    #[pyo3(item)]
    context: Option<u64>,
    #[pyo3(item)]
    sequences: u64,
    #[pyo3(item)]
    batch: u64,
    #[pyo3(item)]
    micro_batch: u64,
    #[pyo3(item)]
    unified: bool,
    #[pyo3(item)]
    key_type: String,
    #[pyo3(item)]
    value_type: String,
    #[pyo3(item)]
    flash_attention: String,
    #[pyo3(item)]
    full_windows: bool,
    #[pyo3(item)]
    layers: u64,
    #[pyo3(item)]
    shares: Vec<f32>,
    #[pyo3(item)]
    overrides: Vec<String>,
    #[pyo3(item)]
    context_on_host: bool,
}

impl Run {
    fn options(&self, model: &Model) -> Result<Options> {
        let cache_type = |text: &String| {
            text.parse::<GgmlType>().map_err(|error| Failure::misuse(format!("{text:?}: {error}")))
        };
        let overrides = self.overrides.iter().map(|text| text.parse::<TensorOverride>());
        let overrides = overrides.collect::<Result<Vec<_>, _>>()?;
        let mut options = Options::default();
        options.context = self.context;
        options.sequences = self.sequences;
        options.batch = self.batch;
        options.micro_batch = self.micro_batch;
        options.unified = self.unified;
        options.key_type = cache_type(&self.key_type)?;
        options.value_type = cache_type(&self.value_type)?;
        options.flash_attention = self.flash_attention.parse()?;
        options.full_windows = self.full_windows;
        options.placement = Placement::of(model, self.layers, &self.shares, &overrides);
        options.placement.context_on_host = self.context_on_host;
        Ok(options)
    }
}

/// The document of `ggmill estimate --json` for one case. With `fit`, sizes of devices in bytes,
/// the case that these have room for.
#[pyfunction]
#[pyo3(signature = (path, run, *, fit = None, projector = None, adapters = vec![], draft = None))]
pub(crate) fn estimate(
    py: Python<'_>,
    path: PathBuf,
    run: Run,
    fit: Option<Vec<u64>>,
    projector: Option<PathBuf>,
    adapters: Vec<PathBuf>,
    draft: Option<PathBuf>,
) -> Result<String> {
    py.detach(|| {
        let catalogue = Catalogue::new();
        let model = io::open(&path)?;
        let projector = projector.map(io::open).transpose()?;
        let adapters = adapters.iter().map(io::open).collect::<Result<Vec<_>, _>>()?;
        let draft = draft.map(io::open).transpose()?;
        let mut beside = Beside::default();
        beside.projector = projector.as_ref();
        beside.adapters = adapters.iter().collect();
        beside.draft =
            draft.as_ref().map(|draft| (draft, catalogue.for_metadata(draft.metadata())));
        let options = run.options(&model)?;
        let description = catalogue.for_metadata(model.metadata());
        let found = of(&model, description, &options, fit.as_deref(), &beside);
        let (options, found) = found.map_err(|failure| failure.at(Path::new(&path)))?;
        let architecture = model.metadata().str(ggmill::keys::GENERAL_ARCHITECTURE).ok();
        json(&library::json::document(architecture, [(&options, &found)]))
    })
}

fn of(
    model: &Model,
    description: Option<&Architecture>,
    options: &Options,
    sizes: Option<&[u64]>,
    beside: &Beside<'_>,
) -> Result<(Options, library::Estimate)> {
    let Some(sizes) = sizes else {
        let found = beside.estimate(model, description, options)?;
        return Ok((options.clone(), found));
    };
    let fit = library::fit(model, description, options, sizes, beside)?.ok_or_else(|| {
        Failure::new("unsupported", "the sizes of the model's caches are unknown")
    })?;
    Ok((fit.options, fit.estimate))
}
