//! Tables of files that are built, broken and real.

mod golden;
mod resume;
mod support;
mod tables;
mod values;
