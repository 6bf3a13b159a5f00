//! The extension module `ggmill._native`: the libraries of ggmill for Python.
//!
//! What is here is as little as possible: files, numbers and bytes. The package in `python/ggmill`
//! makes an interface for people of it, and is where types and words are documented.

mod array;
mod blocks;
mod error;
mod filled;
#[expect(unsafe_code, reason = "memory that Python and Rust share; the reasons are beside it")]
mod memory;
mod model;
mod operations;
mod progress;
mod strings;
mod template;
mod tensor;
mod threads;
mod tokenizer;
mod value;
mod write;

use pyo3::prelude::*;

/// The extension module.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::blocks::{dequantize, quantize, swap_bytes, types};
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::model::OpenModel;
    #[pymodule_export]
    use crate::operations::check::check;
    #[pymodule_export]
    use crate::operations::convert::{convert, plan_convert};
    #[pymodule_export]
    use crate::operations::diff::diff;
    #[pymodule_export]
    use crate::operations::edit::edit;
    #[pymodule_export]
    use crate::operations::estimate::estimate;
    #[pymodule_export]
    use crate::operations::extract::extract;
    #[pymodule_export]
    use crate::operations::hash::hash;
    #[pymodule_export]
    use crate::operations::measure::{
        imatrix, imatrix_bytes, measure, measurement, merge_imatrices, merge_scores, save_imatrix,
    };
    #[pymodule_export]
    use crate::operations::quantize::{plan_quantize, quantize_file};
    #[pymodule_export]
    use crate::operations::shards::{merge, split};
    #[pymodule_export]
    use crate::operations::shared::SharedPlan;
    #[pymodule_export]
    use crate::strings::string_offsets;
    #[pymodule_export]
    use crate::template::{Rendered, Template, template_tokens, templates, templates_of_text};
    #[pymodule_export]
    use crate::tensor::Tensor;
    #[pymodule_export]
    use crate::tokenizer::Tokenizer;
    #[pymodule_export]
    use crate::write::{header, rename_no_replace, write_file};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
