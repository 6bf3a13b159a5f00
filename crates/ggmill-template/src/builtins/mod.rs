//! Callables in templates: functions, methods, filters and tests.

mod args;
mod filters;
mod format;
mod functions;
mod methods;
mod sequences;
mod tests;
mod text;

pub(crate) use args::Args;
pub(crate) use format::percent;
pub(crate) use functions::{call_function, function};
pub(crate) use methods::{call_method, method_name};
pub(crate) use tests::apply_test;

use crate::error::Result;
use crate::run::Run;
use crate::value::Value;

/// What a filter makes of a value.
pub(crate) fn apply_filter(
    name: &str,
    value: &Value,
    args: Args,
    run: &mut Run<'_>,
) -> Result<Value> {
    if sequences::NAMES.contains(&name) {
        return sequences::apply(name, value, args, run);
    }
    filters::apply(name, value, args, run)
}

/// Whether Jinja has a filter.
fn is_filter(name: &str) -> bool {
    [filters::NAMES, filters::UNSUPPORTED, sequences::NAMES]
        .iter()
        .any(|names| names.contains(&name))
}
