//! Numbers that no source has.

use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};

use super::{Expression, Kind};
use crate::error::{Error, ErrorKind, Result};

/// Stored numbers, or numbers computed element by element on demand.
#[derive(Clone)]
pub(super) enum Values {
    Floats(Arc<[f32]>),
    Integers(Arc<[i32]>),
    ComputedFloats(Arc<dyn Fn(u64) -> f32 + Send + Sync>),
    ComputedIntegers(Arc<dyn Fn(u64) -> i32 + Send + Sync>),
}

impl Expression {
    /// These numbers, of type F32. Fails when they are not as many as the shape has elements.
    pub fn floats(shape: Shape, values: Vec<f32>) -> Result<Self> {
        count(values.len(), &shape)?;
        Self::new(shape, GgmlType::F32, Kind::Values(Values::Floats(values.into())))
    }

    /// These numbers, of type I32. Fails when they are not as many as the shape has elements.
    pub fn integers(shape: Shape, values: Vec<i32>) -> Result<Self> {
        count(values.len(), &shape)?;
        Self::new(shape, GgmlType::I32, Kind::Values(Values::Integers(values.into())))
    }

    /// Numbers of type F32 that are computed when they are wanted, each from its place in stored
    /// order. The same place must always give the same number.
    pub fn computed(
        shape: Shape,
        value: impl Fn(u64) -> f32 + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::new(shape, GgmlType::F32, Kind::Values(Values::ComputedFloats(Arc::new(value))))
    }

    /// The same with numbers of type I32.
    pub fn computed_integers(
        shape: Shape,
        value: impl Fn(u64) -> i32 + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::new(shape, GgmlType::I32, Kind::Values(Values::ComputedIntegers(Arc::new(value))))
    }

    /// Zeros of a type without blocks. Fails for a quantized type.
    pub fn zeros(ggml_type: GgmlType, shape: Shape) -> Result<Self> {
        if ggml_type.is_quantized() {
            return Err(Error::new(
                ErrorKind::Misuse,
                format!("zeros of {ggml_type}, expected a type without blocks"),
            ));
        }
        Self::new(shape, ggml_type, Kind::Zeros)
    }
}

fn count(values: usize, shape: &Shape) -> Result<()> {
    if values as u64 == shape.elements() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Misuse, format!("{values} values, expected {}", shape.elements())))
}
