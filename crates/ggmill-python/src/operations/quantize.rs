//! Quantization and conversion: whole files, and plans that several processes share.

use std::path::{Path, PathBuf};

use ggmill::pipeline::{Checkpoint, Plan, Progress, RunOptions, run_range};
use ggmill::quantize::TensorType;
use ggmill::{Convert, Model, Planned, Quantize, RunText};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{json, shard_limit};
use crate::calls::{self, Reporter, thread_count};
use crate::error::{Class, Failure, Result};

/// The options for tensor types, named like the arguments of `ggmill.quantize`.
#[derive(Debug, FromPyObject)]
#[expect(
    clippy::struct_field_names,
    clippy::struct_excessive_bools,
    reason = "arguments as they are named"
)]
#[pyo3(from_item_all)]
pub(crate) struct Types {
    imatrix: Option<PathBuf>,
    pure: bool,
    allow_requantize: bool,
    allow_zeros: bool,
    leave_output_tensor: bool,
    output_tensor_type: Option<String>,
    token_embedding_type: Option<String>,
    tensor_types: Vec<(String, String)>,
    prune_layers: Vec<u64>,
    target_size: Option<u64>,
    target_bpw: Option<f64>,
    /// The JSON document of a plan, whose tensor types are used.
    type_plan: Option<String>,
    calibrate_text: Option<String>,
    calibrate_tokens: Option<Vec<u32>>,
    calibrate_context: usize,
    calibrate_memory: u64,
}

impl Types {
    fn rules(&self) -> ggmill::Result<Vec<TensorType>> {
        let rule = |(pattern, name): &(String, String)| {
            Ok(format!("{pattern}={name}").parse::<TensorType>()?)
        };
        self.tensor_types.iter().map(rule).collect()
    }

    /// Returns the text for calibrated rounding.
    fn calibration(&self) -> Option<RunText> {
        let text = self.calibrate_text.as_ref().map(|text| match text.as_str() {
            "auto" => RunText::built_in(),
            text => RunText::text(text),
        });
        let text = text.or_else(|| self.calibrate_tokens.clone().map(RunText::tokens))?;
        Some(text.context(self.calibrate_context))
    }

    /// Returns the type to quantize to, which is not given if types are chosen otherwise.
    fn target<'t>(&self, name: Option<&'t str>) -> Result<&'t str> {
        let has_size = self.target_size.is_some() || self.target_bpw.is_some();
        match name {
            Some(name) if !has_size => Ok(name),
            None if has_size || self.type_plan.is_some() => Ok("COPY"),
            _ => Err(Failure::misuse("expected either a type or a size")),
        }
    }
}

/// Passes the options for tensor types to a builder of either verb.
macro_rules! with_types {
    ($types:expr, $builder:expr) => {{
        let types: &Types = $types;
        let mut builder = $builder
            .pure(types.pure)
            .allow_zeros(types.allow_zeros)
            .leave_output_tensor(types.leave_output_tensor)
            .tensor_rules(types.rules()?);
        if let Some(path) = &types.imatrix {
            builder = builder.imatrix(path)?;
        }
        if let Some(name) = &types.output_tensor_type {
            builder = builder.output_tensor_type(name)?;
        }
        if let Some(name) = &types.token_embedding_type {
            builder = builder.token_embedding_type(name)?;
        }
        if let Some(bytes) = types.target_size {
            builder = builder.target_size(bytes);
        }
        if let Some(bits) = types.target_bpw {
            builder = builder.target_bpw(bits);
        }
        if let Some(json) = &types.type_plan {
            builder = builder.type_plan_json(json)?;
        }
        if let Some(text) = types.calibration() {
            builder = builder.calibrate(text, Some(types.calibrate_memory));
        }
        builder
    }};
}

/// The other options of a conversion, named like the arguments of `ggmill.convert`.
#[derive(Debug, FromPyObject)]
#[expect(clippy::struct_excessive_bools, reason = "arguments as they are named")]
#[pyo3(from_item_all)]
pub(crate) struct Conversion {
    base: Option<PathBuf>,
    name: Option<String>,
    /// Metadata as JSON.
    metadata: Option<String>,
    arch_files: Vec<PathBuf>,
    no_vocab: bool,
    assume_defaults: bool,
    vocab_only: bool,
    mmproj: bool,
    pre: Option<String>,
    check: bool,
}

/// Quantizes a model; returns the plan as JSON.
#[pyfunction]
#[pyo3(signature = (
    path, output, type_name, types, *, max_size = None, max_tensors = None, overwrite = false,
    dry_run = false, threads = None, progress = None
))]
pub(crate) fn quantize_file(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    type_name: Option<String>,
    types: Types,
    max_size: Option<u64>,
    max_tensors: Option<u64>,
    overwrite: bool,
    dry_run: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    let limit = shard_limit(max_size, max_tensors)?;
    let name = types.target(type_name.as_deref())?;
    let document = calls::run(py, progress, |reporter| {
        let mut builder = quantization(&path, name, &types, threads, reporter)?;
        if let Some(limit) = limit {
            builder = builder.split(limit);
        }
        write(builder.overwrite(overwrite).plan(&output)?.into_planned()?, dry_run)
    })?;
    json(&document)
}

/// Plans a quantization that several processes share.
#[pyfunction]
#[pyo3(signature = (path, output, type_name, types, *, overwrite = false, threads = None))]
pub(crate) fn plan_quantize(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    type_name: Option<String>,
    types: Types,
    overwrite: bool,
    threads: Option<usize>,
) -> Result<SharedPlan> {
    let name = types.target(type_name.as_deref())?;
    calls::run(py, None, |reporter| {
        let builder = quantization(&path, name, &types, threads, reporter)?;
        let planned = builder.overwrite(overwrite).plan(&output)?.into_planned()?;
        SharedPlan::new(planned, types.allow_zeros)
    })
}

fn quantization<'a>(
    path: &Path,
    name: &str,
    types: &Types,
    threads: Option<usize>,
    reporter: Reporter,
) -> ggmill::Result<Quantize<'a>> {
    let model = Model::open(path)?;
    let builder = ggmill::quantize(&model, name)?
        .allow_requantize(types.allow_requantize)
        .prune_layers(types.prune_layers.iter().copied())
        .threads(thread_count(threads).get())
        .on_progress(move |progress| reporter.progress(progress));
    Ok(with_types!(types, builder))
}

/// Converts a checkpoint, an adapter, or a file in a legacy format; returns the plan as JSON.
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
    let limit = shard_limit(max_size, max_tensors)?;
    let document = calls::run(py, progress, |reporter| -> Result<_> {
        let mut builder = converter(&path, type_name, &types, conversion, threads, reporter)?;
        if let Some(limit) = limit {
            builder = builder.split(limit);
        }
        let planned = builder.overwrite(overwrite).plan(&output)?;
        refuse_findings(&planned)?;
        Ok(write(planned.into_planned()?, dry_run)?)
    })?;
    json(&document)
}

/// Plans a conversion that several processes share.
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
    calls::run(py, None, |reporter| {
        let builder = converter(&path, type_name, &types, conversion, threads, reporter)?;
        let planned = builder.overwrite(overwrite).plan(&output)?.into_planned()?;
        refuse_findings(&planned)?;
        SharedPlan::new(planned, types.allow_zeros)
    })
}

fn converter<'a>(
    path: &Path,
    type_name: &str,
    types: &Types,
    conversion: Conversion,
    threads: Option<usize>,
    reporter: Reporter,
) -> ggmill::Result<Convert<'a>> {
    let mut builder = ggmill::convert(path)?
        .no_vocab(conversion.no_vocab)
        .assume_defaults(conversion.assume_defaults)
        .vocab_only(conversion.vocab_only)
        .mmproj(conversion.mmproj)
        .check(conversion.check)
        .architectures(&conversion.arch_files)?
        .threads(thread_count(threads).get())
        .on_progress(move |progress| reporter.progress(progress))
        .to(type_name)?;
    if let Some(base) = conversion.base {
        builder = builder.base(base);
    }
    if let Some(name) = conversion.name {
        builder = builder.name(name);
    }
    if let Some(json) = &conversion.metadata {
        builder = builder.metadata_json(json)?;
    }
    if let Some(name) = conversion.pre {
        builder = builder.pre(name);
    }
    Ok(with_types!(types, builder))
}

/// Refuses a model in which the rules find an error, with the first of them.
fn refuse_findings(planned: &Planned<'_>) -> Result<()> {
    let (Some(found), Some(path)) = (planned.check_error(), planned.paths().first()) else {
        return Ok(());
    };
    let (code, subject) = (found.rule.code, &found.subject);
    let message = format!("{subject}: {} ({code}); the file was not written", found.message);
    Err(Failure::new(Class::FormatError, "check", message).at(path))
}

/// Writes a planned model, unless only its plan is wanted; returns the plan as JSON
/// (`docs/formats/plan.md`).
pub(super) fn write(planned: Planned<'_>, dry_run: bool) -> ggmill::Result<serde_json::Value> {
    if dry_run {
        planned.check_outputs()?;
        return planned.document();
    }
    planned.write()?.document()
}

/// The plan of one file, of which any process can compute any range.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct SharedPlan {
    plan: Plan,
    checkpoint: Box<dyn Checkpoint + Send + Sync>,
    document: String,
    allow_zeros: bool,
}

impl SharedPlan {
    fn new(planned: Planned<'_>, allow_zeros: bool) -> Result<Self> {
        let document = json(&planned.document()?)?;
        let (mut plans, checkpoint) = planned.into_plans();
        let plan = plans.pop().ok_or_else(|| Failure::misuse("there is no plan"))?;
        Ok(Self { plan, checkpoint, document, allow_zeros })
    }
}

#[pymethods]
impl SharedPlan {
    /// Returns the plan as JSON (`docs/formats/plan.md`).
    fn document(&self) -> &str {
        &self.document
    }

    /// Returns the header of the file.
    fn header<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.plan.layout().header())
    }

    /// Computes bytes `start` to `stop` (exclusive) of the file.
    #[pyo3(signature = (start, stop, *, threads = None, progress = None))]
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyBytes>> {
        let mut options = RunOptions::with_threads(thread_count(threads).get());
        options.allow_zeros = self.allow_zeros;
        let bytes = calls::run(py, progress, |reporter| {
            let mut report =
                |now: Progress<'_>| reporter.report(true, now.written, now.total, now.tensor);
            let sink = Vec::new();
            run_range(&self.plan, &*self.checkpoint, start..stop, sink, &options, &mut report)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}
