//! Descriptions through their public door: against the reference, on configurations that are wrong,
//! and as a user writes them.

#![allow(
    clippy::format_collect,
    clippy::unwrap_used,
    clippy::panic,
    reason = "sources are short, and a test stops where something is missing"
)]

mod file;
mod graph;
mod hostile;
mod llama;
mod reference;
mod stored;
mod user_file;
mod view;

use ggmill_arch::Architecture;

/// The description under test.
fn llama() -> &'static Architecture {
    Architecture::builtin("llama").unwrap()
}
