//! Tensors held side by side.

use std::collections::BTreeMap;

use ggmill_core::{Model, RawStr, Tensor};

use super::{Diff, first_moved};
use crate::Selection;

/// A tensor of A, of B or, by its name, of both.
#[derive(Clone, Debug)]
pub struct TensorPair<'a> {
    name: RawStr<'a>,
    sides: [Option<Placed<'a>>; 2],
    pub(super) data: Option<DataDiff>,
}

/// A tensor and its number among those of its model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Placed<'a> {
    /// The number, counted through all shards from 0.
    pub number: usize,
    /// Its tensor info.
    pub tensor: Tensor<'a>,
}

/// The result of comparing the data of two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built by a program that compares")]
pub struct DataDiff {
    /// The first byte that differs, of data of one type and shape.
    pub first_byte: Option<u64>,
    /// How many bytes differ, of data of one type and shape.
    pub different_bytes: u64,
    /// How far the numbers are apart, where they were compared.
    pub numeric: Option<NumericDiff>,
}

/// How far the numbers of two tensors are apart. Numbers that are infinite or none on either side
/// have no part in the errors.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "built by a program that compares")]
pub struct NumericDiff {
    /// The largest absolute difference between two elements.
    pub max_abs: f64,
    /// The index of that element, in stored order; `None` if no elements differ.
    pub max_at: Option<u64>,
    /// The root mean square error (RMSE).
    pub rmse: f64,
    /// That, divided by the root mean square of A's numbers; `None` when they are all 0.
    pub relative: Option<f64>,
    /// The cosine similarity of the two tensors; `None` if all elements of one are 0.
    pub cosine: Option<f64>,
    /// Elements of which only one is finite, or that are not finite and not the same.
    pub non_finite: u64,
}

impl<'a> TensorPair<'a> {
    /// The name.
    pub fn name(&self) -> RawStr<'a> {
        self.name
    }

    /// The tensor in A, where it has it.
    pub fn a(&self) -> Option<&Placed<'a>> {
        self.sides[0].as_ref()
    }

    /// The tensor in B, where it has it.
    pub fn b(&self) -> Option<&Placed<'a>> {
        self.sides[1].as_ref()
    }

    /// The comparison of their data.
    pub fn data(&self) -> Option<&DataDiff> {
        self.data.as_ref()
    }

    /// Both, where there are two of them.
    pub fn both(&self) -> Option<(&Placed<'a>, &Placed<'a>)> {
        self.a().zip(self.b())
    }

    /// Whether both are there and have the same type.
    pub fn has_same_type(&self) -> bool {
        self.both().is_some_and(|(a, b)| a.tensor.ggml_type() == b.tensor.ggml_type())
    }

    /// Whether both are there and have the same shape.
    pub fn has_same_shape(&self) -> bool {
        self.both().is_some_and(|(a, b)| a.tensor.shape() == b.tensor.shape())
    }

    /// Whether no difference is known of.
    pub fn is_same(&self) -> bool {
        self.has_same_type()
            && self.has_same_shape()
            && self.data.is_none_or(|data| data.first_byte.is_none())
    }
}

impl<'a> Diff<'a> {
    pub(super) fn compare_tensors(&mut self, a: &'a Model, b: &'a Model, selection: &Selection) {
        let (a, b) = (placed(a, selection), placed(b, selection));
        let mut in_b: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (place, found) in b.iter().enumerate().rev() {
            in_b.entry(found.tensor.name().as_bytes()).or_default().push(place);
        }
        let mut left: Vec<Option<Placed<'a>>> = b.iter().cloned().map(Some).collect();
        let mut places = Vec::new();
        let mut pairs = Vec::with_capacity(a.len().max(b.len()));
        for found in a {
            let name = found.tensor.name();
            let place = in_b.get_mut(name.as_bytes()).and_then(Vec::pop);
            places.extend(place.map(|place| (name, place)));
            let other = place.and_then(|place| left.get_mut(place).and_then(Option::take));
            pairs.push(TensorPair { name, sides: [Some(found), other], data: None });
        }
        pairs.extend(left.into_iter().flatten().map(|found| TensorPair {
            name: found.tensor.name(),
            sides: [None, Some(found)],
            data: None,
        }));
        self.moved_tensor = first_moved(places.into_iter());
        self.tensors = Some(pairs);
    }
}

fn placed<'a>(model: &'a Model, selection: &Selection) -> Vec<Placed<'a>> {
    let all = model.tensors().iter().enumerate().map(|(number, tensor)| Placed { number, tensor });
    all.filter(|found| selection.has_name(found.tensor.name())).collect()
}
