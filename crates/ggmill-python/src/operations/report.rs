//! Reports about models: findings, differences, hashes, memory.

use std::path::{Path, PathBuf};

use ggmill::arch::{Architecture, Catalogue};
use ggmill::check::{Profile, Selector, render};
use ggmill::estimate::{self as library, Companions, Options, Placement, TensorOverride};
use ggmill::hash::{HashKind, HashSubject};
use ggmill::{GgmlType, Model, inspect};
use pyo3::prelude::*;

use super::{globs, json};
use crate::calls::{self, thread_count};
use crate::error::{Failure, Result};
use crate::value::string;

/// Checks a file, or all shards of its set; returns the JSON document of `ggmill check`, and its text.
#[pyfunction]
#[pyo3(signature = (
    path, *, data = false, profile = "all", select = vec![], ignore = vec![], most = 20,
    threads = None, progress = None
))]
pub(crate) fn check(
    py: Python<'_>,
    path: PathBuf,
    data: bool,
    profile: &str,
    select: Vec<String>,
    ignore: Vec<String>,
    most: usize,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<(String, String)> {
    let profile: Profile = profile
        .parse()
        .map_err(|error| Failure::misuse(format!("profile {profile:?}, {error}")))?;
    let (select, ignore) = (selectors(&select)?, selectors(&ignore)?);
    // The library reads standard input for this name.
    let path = if path.as_os_str() == "-" { Path::new(".").join(path) } else { path };
    let checked = calls::run(py, progress, |reporter| {
        ggmill::check(&path)?
            .profile(profile)
            .select(select)
            .ignore(ignore)
            .findings_per_rule(most)
            .data(data)
            .threads(thread_count(threads).get())
            .on_progress(move |progress| reporter.progress(progress))
            .run()
    })?;
    let mut reports = Vec::new();
    for file in checked.into_files() {
        let path = file.path().to_string_lossy().into_owned();
        match file.into_parts() {
            (Some(report), _) => reports.push((path, report)),
            (None, Some(error)) => return Err(error.into()),
            (None, None) => {}
        }
    }
    let checked: Vec<_> =
        reports.iter().map(|(path, report)| render::Checked::new(path, report)).collect();
    let mut page = Vec::new();
    let mut text = render::Text::new(false, None);
    for checked in &checked {
        text.file(&mut page, checked)?;
    }
    Ok((json(&render::json(&checked))?, String::from_utf8_lossy(&page).into_owned()))
}

/// Says whether a file, or all shards of its set, are safe to hand to a loader; returns the JSON document
/// of the verdict.
#[pyfunction]
#[pyo3(signature = (path, *, progress = None))]
pub(crate) fn vet(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> Result<String> {
    // The library reads standard input for this name.
    let path = if path.as_os_str() == "-" { Path::new(".").join(path) } else { path };
    let verdict = calls::run(py, progress, |_| ggmill::vet(&path))?;
    json(&verdict.json())
}

/// Verifies that a file is what its source gives; returns the JSON document of `ggmill verify`.
#[pyfunction]
#[pyo3(signature = (path, source, *, imatrix = None, threads = None, progress = None))]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    source: PathBuf,
    imatrix: Option<PathBuf>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    calls::run(py, progress, |reporter| -> Result<_> {
        let model = Model::open(&path)?;
        let mut builder = ggmill::verify(&model, &source)?
            .threads(thread_count(threads).get())
            .on_progress(move |progress| reporter.progress(progress));
        if let Some(imatrix) = &imatrix {
            builder = builder.imatrix(imatrix)?;
        }
        json(&builder.run()?.document()?)
    })
}

fn selectors(codes: &[String]) -> Result<Vec<Selector>> {
    let selector = |code: &String| {
        code.parse::<Selector>().map_err(|error| Failure::misuse(format!("{code:?}: {error}")))
    };
    codes.iter().map(selector).collect()
}

/// Compares two models; returns whether they are the same, the JSON document of `ggmill diff`, and its
/// text.
#[pyfunction]
#[pyo3(signature = (
    a, b, *, metadata = true, tensors = true, keys = vec![], names = vec![], data = false,
    full = false, threads = None, progress = None
))]
pub(crate) fn diff(
    py: Python<'_>,
    a: PathBuf,
    b: PathBuf,
    metadata: bool,
    tensors: bool,
    keys: Vec<String>,
    names: Vec<String>,
    data: bool,
    full: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<(bool, String, String)> {
    if !metadata && !tensors {
        return Err(Failure::misuse("expected metadata, tensors or both"));
    }
    let (keys, names) = (globs(&keys)?, globs(&names)?);
    let shown = [a.to_string_lossy(), b.to_string_lossy()];
    let shown = [&*shown[0], &*shown[1]];
    calls::run(py, progress, |reporter| -> Result<_> {
        let (a, b) = (Model::open(&a)?, Model::open(&b)?);
        let mut builder = ggmill::diff(&a, &b)?
            .numeric(data)
            .threads(thread_count(threads).get())
            .on_progress(move |progress| reporter.progress(progress));
        if metadata {
            builder = builder.metadata().keys(keys);
        }
        if tensors {
            builder = builder.tensors(names);
        }
        let diff = builder.run()?;
        let arrays =
            if full { inspect::json::Arrays::Full } else { inspect::json::Arrays::Shortened };
        let (mut document, mut page) = (Vec::new(), Vec::new());
        inspect::diff::json::write(&mut document, &diff, shown, arrays)?;
        let options = inspect::text::Options::default().with_full(full);
        inspect::diff::text::write(&mut page, &diff, shown, &options)?;
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((diff.is_same(), lossy(&document), lossy(&page)))
    })
}

/// A hash: its kind, its digest in hexadecimal, and the tensor (`None`: the model).
type Line<'py> = (&'static str, String, Option<Bound<'py, PyAny>>);

/// Hashes the weights of a model and, with `tensors`, of each tensor.
#[pyfunction]
#[pyo3(signature = (path, kinds, *, tensors = true, threads = None, progress = None))]
pub(crate) fn hash(
    py: Python<'_>,
    path: PathBuf,
    kinds: Vec<String>,
    tensors: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<Vec<Line<'_>>> {
    let kind = |name: &String| {
        HashKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let all: Vec<_> = HashKind::ALL.into_iter().map(HashKind::name).collect();
            Failure::misuse(format!("hash {name:?}, expected one of {}", all.join(", ")))
        })
    };
    let kinds = kinds.iter().map(kind).collect::<Result<Vec<_>>>()?;
    let model = py.detach(|| Model::open(&path))?;
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    let report = calls::run(py, progress, |reporter| {
        ggmill::hash(&model)?
            .kinds(&kinds)
            .tensors(tensors)
            .threads(thread_count(threads).get())
            .on_progress(move |progress| reporter.progress(progress))
            .run()
    })?;
    let line = |line: &ggmill::hash::HashLine<'_>| {
        let tensor = match &line.subject {
            HashSubject::Tensor(name) => Some(string(py, *name)?),
            _ => None,
        };
        Ok((line.kind.name(), line.digest.clone(), tensor))
    };
    report.lines().iter().map(line).collect()
}

/// How a model is run, named like the arguments of `ggmill.estimate`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Run {
    context: Option<u64>,
    sequences: u64,
    batch: u64,
    micro_batch: u64,
    unified: bool,
    key_type: String,
    value_type: String,
    flash_attention: String,
    full_windows: bool,
    layers: u64,
    shares: Vec<f32>,
    overrides: Vec<String>,
    context_on_host: bool,
}

impl Run {
    fn options(&self, model: &ggmill::core::Model) -> Result<Options> {
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

/// Returns the JSON document of `ggmill estimate` for one configuration; with `fit`, the memory of each
/// device in bytes, for the largest configuration that fits.
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
        let model = Model::open(&path)?;
        let projector = projector.map(Model::open).transpose()?;
        let adapters = adapters.iter().map(Model::open).collect::<ggmill::Result<Vec<_>>>()?;
        let draft = draft.map(Model::open).transpose()?;
        let mut companions = Companions::default();
        companions.projector = projector.as_ref().map(Model::core);
        companions.adapters = adapters.iter().map(Model::core).collect();
        companions.draft =
            draft.as_ref().map(|draft| (draft.core(), catalogue.for_metadata(draft.metadata())));
        let options = run.options(model.core())?;
        let description = catalogue.for_metadata(model.metadata());
        let found = of(model.core(), description, &options, fit.as_deref(), &companions);
        let (options, found) = found.map_err(|failure| failure.at(&path))?;
        let architecture = model.metadata().str(ggmill::keys::GENERAL_ARCHITECTURE).ok();
        json(&library::json::document(architecture, [(&options, &found)]))
    })
}

fn of(
    model: &ggmill::core::Model,
    description: Option<&Architecture>,
    options: &Options,
    sizes: Option<&[u64]>,
    companions: &Companions<'_>,
) -> Result<(Options, library::Estimate)> {
    let Some(sizes) = sizes else {
        let found = companions.estimate(model, description, options)?;
        return Ok((options.clone(), found));
    };
    let fit = library::fit(model, description, options, sizes, companions)?
        .ok_or_else(|| Failure::unsupported("the sizes of the model's caches are unknown"))?;
    Ok((fit.options, fit.estimate))
}
