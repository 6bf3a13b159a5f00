//! Models of smaller types.

use std::path::{Path, PathBuf};

use ggmill::quantize::TensorType;
use ggmill::{Model, Planned, Quantize};
use pyo3::prelude::*;

use super::output::{cut, json};
use super::shared::SharedPlan;
use crate::error::{Failure, Result};
use crate::progress::Told;
use crate::threads;

/// What Python says of types, as its arguments are named.
#[derive(Debug, FromPyObject)]
#[expect(clippy::struct_field_names, reason = "arguments as they are named")]
#[pyo3(from_item_all)]
pub(crate) struct Types {
    pub(super) imatrix: Option<PathBuf>,
    pub(super) pure: bool,
    pub(super) allow_requantize: bool,
    pub(super) leave_output_tensor: bool,
    pub(super) output_tensor_type: Option<String>,
    pub(super) token_embedding_type: Option<String>,
    pub(super) tensor_types: Vec<(String, String)>,
    pub(super) prune_layers: Vec<u64>,
    pub(super) target_size: Option<u64>,
    pub(super) target_bpw: Option<f64>,
    /// The types of all tensors, in JSON, as plans have them.
    pub(super) type_plan: Option<String>,
}

impl Types {
    /// Whether types are chosen for a size, or given.
    pub(super) fn are_chosen(&self) -> bool {
        self.target_size.is_some() || self.target_bpw.is_some() || self.type_plan.is_some()
    }

    pub(super) fn rules(&self) -> ggmill::Result<Vec<TensorType>> {
        let rule = |(pattern, name): &(String, String)| {
            Ok(format!("{pattern}={name}").parse::<TensorType>()?)
        };
        self.tensor_types.iter().map(rule).collect()
    }
}

/// Passes what Python says of types to a builder.
macro_rules! with_types {
    ($types:expr, $builder:expr) => {{
        let types: &$crate::operations::quantize::Types = $types;
        let mut builder = $builder
            .pure(types.pure)
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
        builder
    }};
}
pub(super) use with_types;

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
    let name = type_of(type_name.as_deref(), &types)?;
    let told = Told::new(progress);
    let document = py.detach(|| {
        let mut builder = builder(&path, name, &types, threads, &told)?.overwrite(overwrite);
        if let Some(cut) = cut {
            builder = builder.split(cut.limit);
        }
        let planned = builder.plan(&output)?;
        if dry_run {
            planned.check_outputs()?;
            return planned.document();
        }
        planned.write()?.document()
    });
    json(&told.outcome(document)?)
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
    let name = type_of(type_name.as_deref(), &types)?;
    let told = Told::new(None);
    let planned = py.detach(|| -> ggmill::Result<Planned<'_>> {
        let builder = builder(&path, name, &types, threads, &told)?.overwrite(overwrite);
        builder.plan(&output)?.into_planned()
    });
    SharedPlan::of(told.outcome(planned)?)
}

/// The type that was asked for, where types are not chosen otherwise.
fn type_of<'t>(name: Option<&'t str>, types: &Types) -> Result<&'t str> {
    let has_goal = types.target_size.is_some() || types.target_bpw.is_some();
    match name {
        Some(name) if !has_goal => Ok(name),
        None if types.are_chosen() => Ok("COPY"),
        _ => Err(Failure::misuse("expected either a type or a size")),
    }
}

fn builder<'a>(
    path: &Path,
    name: &str,
    types: &Types,
    threads: Option<usize>,
    told: &Told,
) -> ggmill::Result<Quantize<'a>> {
    let model = Model::open(path)?;
    let told = told.clone();
    let builder = ggmill::quantize(&model, name)?
        .allow_requantize(types.allow_requantize)
        .prune_layers(types.prune_layers.iter().copied())
        .threads(threads::count(threads))
        .on_progress(move |progress| told.show(progress));
    Ok(with_types!(types, builder))
}
