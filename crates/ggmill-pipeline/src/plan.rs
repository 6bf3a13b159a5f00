//! The work laid out: offsets and sizes from the core, and for each tensor where its numbers come from.

use ggmill_core::{Endian, GgmlType, Shape};

use crate::recipe::Encoding;
use crate::rows::RowMap;

/// A conversion laid out to the byte, before any tensor data are read.
#[derive(Clone, Debug)]
pub struct Plan {
    pub layout: ggmill_core::Plan,
    pub jobs: Vec<Job>,
    pub endian: Endian,
    pub notes: Vec<String>,
}

/// The work for one tensor: the same number as the tensor in the layout.
#[derive(Clone, Debug)]
pub struct Job {
    pub work: Work,
    pub to: GgmlType,
    pub shape: Shape,
    pub encoding: Encoding,
}

/// Where the numbers of one tensor come from.
#[derive(Clone, Debug)]
pub enum Work {
    /// From tensors of the checkpoint, of one type, along a map.
    Gather { from: GgmlType, sources: Vec<usize>, map: RowMap },
    /// From a computation: the values themselves.
    Values(Vec<f32>),
}

impl Plan {
    /// The file as it will be: header, offsets, sizes.
    pub fn layout(&self) -> &ggmill_core::Plan {
        &self.layout
    }

    /// What a person should know of the choices made.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
