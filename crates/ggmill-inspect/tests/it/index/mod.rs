//! Tables of generated, broken and real files.

mod golden;
mod resume;
mod support;
mod tables;
mod values;
