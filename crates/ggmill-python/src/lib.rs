//! The extension module `ggmill._native`, thin over the crate `ggmill`.
//!
//! Its interface is files, numbers and bytes. The package in `python/ggmill` makes the public
//! interface of it, and documents types and arguments.

mod blocks;
mod calls;
mod error;
#[expect(unsafe_code, reason = "memory that Python and Rust share")]
mod memory;
mod model;
mod operations;
mod text;
mod value;
mod write;

use pyo3::prelude::*;

/// The extension module.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::blocks::{dequantize, quantize, swap_bytes, types};
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::model::{Array, OpenModel, Tensor};
    #[pymodule_export]
    use crate::operations::edit::{edit, extract, merge, split};
    #[pymodule_export]
    use crate::operations::measure::{
        imatrix, imatrix_bytes, measure, measurement, merge_imatrices, merge_scores, save_imatrix,
    };
    #[pymodule_export]
    use crate::operations::quantize::{
        SharedPlan, convert, plan_convert, plan_quantize, quantize_file,
    };
    #[pymodule_export]
    use crate::operations::report::{check, diff, estimate, hash, verify, vet};
    #[pymodule_export]
    use crate::text::{
        Rendered, Template, Tokenizer, template_tokens, templates, templates_of_text,
    };
    #[pymodule_export]
    use crate::value::string_offsets;
    #[pymodule_export]
    use crate::write::{header, rename_no_replace, write_file};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
