#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod calibrated;
mod choice;
mod fit;
mod imatrix;
mod layers;
mod loss;
mod mixture;
mod options;
mod quantize;
mod remarks;
mod role;
mod scales;
mod sensitivity;
mod target;
mod types;

pub use calibrated::{Hessian, Inputs, Rounded, Rounding};
pub use fit::{Fit, Goal, fit, fit_recipe, to_measure};
pub use imatrix::{Imatrix, ImatrixEntry, ImatrixForm, ImatrixRun, ResumeError};
pub use loss::{Losses, TensorLoss, loss};
pub use options::{Importance, ImportanceFilter, Override, QuantizeOptions, TensorType};
pub use quantize::{quantize, quantize_recipe, quantize_shards};
pub use remarks::is_failure;
pub use role::RoleRule;
pub use scales::add_scales;
pub use sensitivity::{Sensitivities, ToMeasure, Weighing};
pub use target::{NearTargets, Target, UnknownTarget};
pub use types::{TypePlan, weight_type, weight_types};
