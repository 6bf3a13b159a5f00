//! Models of smaller types.

use std::path::{Path, PathBuf};

use ggmill::pipeline::{Checkpoint, GgufCheckpoint, Recipe};
use ggmill::quantize::{
    Goal, Imatrix, Importance, ImportanceFilter, QuantizeOptions, Target, TensorType, TypePlan,
    fit_recipe, quantize_recipe, weight_type,
};
use pyo3::prelude::*;

use super::output::{Output, cut, files, open};
use super::shared::SharedPlan;
use crate::error::{Failure, Result};
use crate::progress::reporting;
use crate::threads;

/// What Python says of types, as its arguments are named.
#[derive(Debug, FromPyObject)]
#[expect(clippy::struct_field_names, reason = "arguments as they are named")]
#[pyo3(from_item_all)]
pub(crate) struct Types {
    imatrix: Option<PathBuf>,
    pure: bool,
    allow_requantize: bool,
    leave_output_tensor: bool,
    output_tensor_type: Option<String>,
    token_embedding_type: Option<String>,
    tensor_types: Vec<(String, String)>,
    prune_layers: Vec<u64>,
    target_size: Option<u64>,
    target_bpw: Option<f64>,
    /// The types of all tensors, in JSON, as plans have them.
    type_plan: Option<String>,
}

impl Types {
    /// The files that are read.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.imatrix.iter().cloned().collect()
    }

    /// The size asked for, where one was.
    pub(super) fn goal(&self) -> Option<Goal> {
        self.target_size.map(Goal::Size).or(self.target_bpw.map(Goal::BitsPerWeight))
    }

    /// Whether the types of all tensors are given.
    pub(super) fn has_plan(&self) -> bool {
        self.type_plan.is_some()
    }

    pub(super) fn options(&self, target: Target) -> Result<QuantizeOptions> {
        let mut options = QuantizeOptions::new(target);
        options.pure = self.pure;
        options.allow_requantize = self.allow_requantize;
        options.leave_output_tensor = self.leave_output_tensor;
        options.output_tensor_type = one_type(self.output_tensor_type.as_deref())?;
        options.token_embedding_type = one_type(self.token_embedding_type.as_deref())?;
        options.prune_layers = self.prune_layers.iter().copied().collect();
        for (pattern, name) in &self.tensor_types {
            options.tensor_types.push(format!("{pattern}={name}").parse::<TensorType>()?);
        }
        if let Some(json) = &self.type_plan {
            options.types = Some(TypePlan::parse(json.as_bytes())?);
        }
        if let Some(path) = &self.imatrix {
            options.importance = importance(path)?;
        }
        Ok(options)
    }
}

fn importance(path: &Path) -> Result<Option<Importance>> {
    let imatrix = Imatrix::open(path)?;
    Ok(Importance::new(&imatrix, Some(&path.to_string_lossy()), &ImportanceFilter::All))
}

fn one_type(name: Option<&str>) -> Result<Option<ggmill::GgmlType>> {
    let Some(name) = name else { return Ok(None) };
    let found = weight_type(name);
    found.map(Some).ok_or_else(|| Failure::misuse(format!("{name:?} is not a type for weights")))
}

/// The target that a name means.
pub(super) fn target(name: &str) -> Result<Target> {
    name.parse::<Target>().map_err(|_| {
        Failure::misuse(format!("{name:?} is not a type to quantize to, such as Q4_K_M"))
    })
}

/// A recipe with its tensors in smaller types.
pub(super) fn quantized(
    py: Python<'_>,
    recipe: &Recipe,
    checkpoint: &dyn Checkpoint,
    options: &mut QuantizeOptions,
    types: &Types,
    output: &Output,
    is_dry_run: bool,
) -> Result<Recipe> {
    if let Some(goal) = types.goal() {
        let run = threads::run_options(output.threads);
        let fit = reporting(py, None, |report| {
            fit_recipe(recipe, checkpoint, options, output.cut.as_ref(), goal, &run, report)
        })?;
        options.types = Some(fit.types);
    }
    options.dry_run = is_dry_run;
    Ok(py.detach(|| quantize_recipe(recipe, options))?)
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
    let cut = cut(max_size, max_tensors, false)?;
    let output = Output { path: output, cut, overwrite, dry_run, threads, progress };
    let name = type_name.as_deref();
    let (recipe, checkpoint, inputs) = prepare(py, &path, name, &types, &output, dry_run)?;
    output.write(py, recipe, &checkpoint, &inputs)
}

/// The plan of the same, to be shared out.
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
    let output = Output::planned(output, overwrite, threads);
    let name = type_name.as_deref();
    let (recipe, checkpoint, _) = prepare(py, &path, name, &types, &output, false)?;
    SharedPlan::new(recipe, Box::new(checkpoint), &output)
}

fn prepare(
    py: Python<'_>,
    path: &Path,
    type_name: Option<&str>,
    types: &Types,
    output: &Output,
    is_dry_run: bool,
) -> Result<(Recipe, GgufCheckpoint, Vec<PathBuf>)> {
    let target = match (type_name, types.goal()) {
        (Some(name), None) => target(name)?,
        (None, Some(_)) => Target::copy(),
        (None, None) if types.type_plan.is_some() => Target::copy(),
        _ => return Err(Failure::misuse("expected either a type or a size")),
    };
    let checkpoint = py.detach(|| open(path))?;
    let mut inputs = files(&checkpoint);
    inputs.extend(types.files());
    output.look_ahead(&inputs)?;
    let mut options = types.options(target)?;
    let recipe = Recipe::copy_of(&checkpoint)?;
    let recipe = quantized(py, &recipe, &checkpoint, &mut options, types, output, is_dry_run)?;
    Ok((recipe, checkpoint, inputs))
}
