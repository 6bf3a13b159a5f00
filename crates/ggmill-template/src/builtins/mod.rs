//! What templates can call: functions, methods, filters and tests.

mod args;
mod filters;
mod format;
mod functions;
mod methods;
mod sequences;
mod tests;
mod text;

pub(crate) use args::Args;
pub(crate) use filters::apply_filter;
pub(crate) use format::percent;
pub(crate) use functions::{call_function, function};
pub(crate) use methods::{call_method, method_name};
pub(crate) use tests::apply_test;
