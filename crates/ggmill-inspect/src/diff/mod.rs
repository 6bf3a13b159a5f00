//! Comparison of the metadata and tensors of two models.
//!
//! A set of shards is one model, so the keys about the division into shards are left out. The layout of
//! the files (version, byte order, alignment, shards) is [reported](Diff::forms) but is not a
//! difference.

pub mod json;
pub mod text;

use std::collections::BTreeMap;

use ggmill_core::{Array, Endian, Entry, Model, RawStr, Result, Tensor, Value, keys};

use crate::Selection;

/// The differences between two models, A and B.
///
/// ```
/// use ggmill_core::{Builder, MetadataBuf, Model};
/// use ggmill_inspect::diff::Diff;
/// use ggmill_inspect::Selection;
/// let file = |name: &str| {
///     let mut metadata = MetadataBuf::new();
///     metadata.set("general.architecture", "llama");
///     metadata.set("general.name", name);
///     Model::open(Builder::new().metadata(metadata).plan()?.header().to_vec())
/// };
/// let (a, b) = (file("Old")?, file("New")?);
/// let diff = Diff::of(&a, &b, &Selection::default())?;
/// assert!(!diff.is_same());
/// assert_eq!(diff.metadata().unwrap()[0].key(), "general.name");
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Diff<'a> {
    forms: [Form; 2],
    metadata: Option<Vec<KeyDiff<'a>>>,
    same_keys: usize,
    moved_key: Option<RawStr<'a>>,
    tensors: Option<Vec<TensorPair<'a>>>,
    moved_tensor: Option<RawStr<'a>>,
}

/// The layout of the files of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Form {
    /// The format version of the first file.
    pub version: u32,
    /// The byte order.
    pub endian: Endian,
    /// The alignment of tensor data in the first file.
    pub alignment: u32,
    /// Number of files.
    pub shards: usize,
}

/// A key whose values differ, or which only one model has.
#[derive(Clone, Debug)]
pub struct KeyDiff<'a> {
    key: RawStr<'a>,
    sides: [Option<Value<'a>>; 2],
    first_difference: Option<u64>,
}

impl<'a> KeyDiff<'a> {
    /// Returns the key.
    pub fn key(&self) -> RawStr<'a> {
        self.key
    }

    /// Returns the value in A, if there is one.
    pub fn a(&self) -> Option<&Value<'a>> {
        self.sides[0].as_ref()
    }

    /// Returns the value in B, if there is one.
    pub fn b(&self) -> Option<&Value<'a>> {
        self.sides[1].as_ref()
    }

    /// Returns the index of the first element that differs or that only one array has, for two arrays
    /// with the same element type; for two strings, the byte.
    pub fn first_difference(&self) -> Option<u64> {
        self.first_difference
    }
}

impl<'a> Diff<'a> {
    /// Compares the selected parts of the headers. Tensor data counts as equal until
    /// [`Diff::set_data`].
    ///
    /// Duplicate keys and names are compared in order, the first with the first and so on. Fails if a
    /// file changed since it was opened.
    pub fn of(a: &'a Model, b: &'a Model, selection: &Selection) -> Result<Self> {
        let mut this = Self {
            forms: [form(a), form(b)],
            metadata: None,
            same_keys: 0,
            moved_key: None,
            tensors: None,
            moved_tensor: None,
        };
        if selection.metadata {
            this.compare_metadata(a, b, selection)?;
        }
        if selection.tensors {
            this.compare_tensors(a, b, selection);
        }
        Ok(this)
    }

    /// Returns the layouts of A and B.
    pub fn forms(&self) -> &[Form; 2] {
        &self.forms
    }

    /// Returns the keys that differ: those of A in its order, then those that only B has. `None` if
    /// metadata was not selected.
    pub fn metadata(&self) -> Option<&[KeyDiff<'a>]> {
        self.metadata.as_deref()
    }

    /// Returns the number of identical metadata entries.
    pub fn same_keys(&self) -> usize {
        self.same_keys
    }

    /// Returns the first common key that is in another order in B.
    pub fn moved_key(&self) -> Option<RawStr<'a>> {
        self.moved_key
    }

    /// Returns all tensors: those of A in its order, then those that only B has. `None` if tensors were
    /// not selected.
    pub fn tensors(&self) -> Option<&[TensorPair<'a>]> {
        self.tensors.as_deref()
    }

    /// Returns the first common tensor that is in another order in B.
    pub fn moved_tensor(&self) -> Option<RawStr<'a>> {
        self.moved_tensor
    }

    /// Sets the result of comparing the data of tensor number `pair` of [`Diff::tensors`].
    pub fn set_data(&mut self, pair: usize, data: DataDiff) {
        if let Some(pair) = self.tensors.as_mut().and_then(|tensors| tensors.get_mut(pair)) {
            pair.data = Some(data);
        }
    }

    /// Returns `true` if no difference was found.
    pub fn is_same(&self) -> bool {
        let tensors = self.tensors.as_deref().unwrap_or_default();
        self.metadata.as_deref().unwrap_or_default().is_empty()
            && self.moved_key.is_none()
            && self.moved_tensor.is_none()
            && tensors.iter().all(TensorPair::is_same)
    }
}

fn form(model: &Model) -> Form {
    let header = model.header();
    Form {
        version: header.version(),
        endian: header.endian(),
        alignment: header.alignment().get(),
        shards: model.parts().len(),
    }
}

/// Returns the first item of A whose position in B is before that of its predecessor.
fn first_moved<T: Copy>(places: impl Iterator<Item = (T, usize)>) -> Option<T> {
    let mut last = None;
    for (what, place) in places {
        if last.is_some_and(|last| place < last) {
            return Some(what);
        }
        last = Some(place);
    }
    None
}

impl<'a> Diff<'a> {
    fn compare_metadata(
        &mut self,
        a: &'a Model,
        b: &'a Model,
        selection: &Selection,
    ) -> Result<()> {
        let (a, b) = (entries(a, selection), entries(b, selection));
        let mut in_b: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (number, entry) in b.iter().enumerate().rev() {
            in_b.entry(entry.key().as_bytes()).or_default().push(number);
        }
        let mut taken = vec![false; b.len()];
        let mut places = Vec::new();
        let mut found = Vec::new();
        for entry in &a {
            let other = in_b.get_mut(entry.key().as_bytes()).and_then(Vec::pop);
            let (before, mut after) = (entry.value()?, None);
            if let Some(number) = other {
                places.push((entry.key(), number));
                if let (Some(taken), Some(entry)) = (taken.get_mut(number), b.get(number)) {
                    *taken = true;
                    after = Some(entry.value()?);
                }
            }
            match &after {
                Some(after) if values_equal(&before, after) => self.same_keys += 1,
                _ => {
                    let first_difference =
                        after.as_ref().and_then(|after| first_difference(&before, after));
                    found.push(KeyDiff {
                        key: entry.key(),
                        sides: [Some(before), after],
                        first_difference,
                    });
                }
            }
        }
        for (entry, _) in b.iter().zip(&taken).filter(|(_, taken)| !**taken) {
            found.push(KeyDiff {
                key: entry.key(),
                sides: [None, Some(entry.value()?)],
                first_difference: None,
            });
        }
        self.moved_key = first_moved(places.into_iter());
        self.metadata = Some(found);
        Ok(())
    }
}

/// Returns the selected entries of a model, without those of the division into shards and the padding
/// reserved by edits.
fn entries<'a>(model: &'a Model, selection: &Selection) -> Vec<Entry<'a>> {
    let is_set = model.parts().len() > 1;
    let admitted = |entry: &Entry<'_>| {
        let key = entry.key().as_bytes();
        selection.has_key(entry.key())
            && key != keys::GGMILL_PADDING.as_bytes()
            && !(is_set && key.starts_with(b"split."))
    };
    model.metadata().iter().filter(admitted).collect()
}

/// Returns `true` if two values have the same type and are equal, floats bit for bit.
fn values_equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Value::Array(b)) => {
            a.element_type() == b.element_type()
                && a.len() == b.len()
                && first_of_arrays(a, b).is_none()
        }
        _ => a == b,
    }
}

fn first_difference(a: &Value<'_>, b: &Value<'_>) -> Option<u64> {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if a.element_type() == b.element_type() => {
            first_of_arrays(a, b)
        }
        (Value::Str(a), Value::Str(b)) => {
            Some(a.as_bytes().iter().zip(b.as_bytes()).take_while(|(a, b)| a == b).count() as u64)
        }
        _ => None,
    }
}

fn first_of_arrays(a: &Array<'_>, b: &Array<'_>) -> Option<u64> {
    let differ = a
        .iter()
        .zip(b.iter())
        .position(|pair| !matches!(pair, (Ok(a), Ok(b)) if values_equal(&a, &b)));
    differ.map(|index| index as u64).or_else(|| (a.len() != b.len()).then(|| a.len().min(b.len())))
}

/// A tensor of A, of B, or of both by its name.
#[derive(Clone, Debug)]
pub struct TensorPair<'a> {
    name: RawStr<'a>,
    sides: [Option<Placed<'a>>; 2],
    data: Option<DataDiff>,
}

/// A tensor and its number in the model.
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
    /// The first byte that differs, if type and shape are the same.
    pub first_byte: Option<u64>,
    /// The number of bytes that differ, if type and shape are the same.
    pub different_bytes: u64,
    /// The numeric difference, if values were compared.
    pub numeric: Option<NumericDiff>,
}

/// The numeric difference of two tensors. Elements that are not finite on either side are not part of the
/// errors.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "built by a program that compares")]
pub struct NumericDiff {
    /// The largest absolute difference between two elements.
    pub max_abs: f64,
    /// The index of that element, in stored order; `None` if no elements differ.
    pub max_at: Option<u64>,
    /// The root mean square error (RMSE).
    pub rmse: f64,
    /// The RMSE divided by the root mean square of A; `None` if all elements of A are 0.
    pub relative: Option<f64>,
    /// The cosine similarity of the two tensors; `None` if all elements of one are 0.
    pub cosine: Option<f64>,
    /// The number of elements of which only one is finite, or which are not finite and differ.
    pub non_finite: u64,
}

impl<'a> TensorPair<'a> {
    /// Returns the name.
    pub fn name(&self) -> RawStr<'a> {
        self.name
    }

    /// Returns the tensor in A, if there is one.
    pub fn a(&self) -> Option<&Placed<'a>> {
        self.sides[0].as_ref()
    }

    /// Returns the tensor in B, if there is one.
    pub fn b(&self) -> Option<&Placed<'a>> {
        self.sides[1].as_ref()
    }

    /// Returns the comparison of the data.
    pub fn data(&self) -> Option<&DataDiff> {
        self.data.as_ref()
    }

    /// Returns both tensors, if there are two.
    pub fn both(&self) -> Option<(&Placed<'a>, &Placed<'a>)> {
        self.a().zip(self.b())
    }

    /// Returns `true` if both exist and have the same type.
    pub fn has_same_type(&self) -> bool {
        self.both().is_some_and(|(a, b)| a.tensor.ggml_type() == b.tensor.ggml_type())
    }

    /// Returns `true` if both exist and have the same shape.
    pub fn has_same_shape(&self) -> bool {
        self.both().is_some_and(|(a, b)| a.tensor.shape() == b.tensor.shape())
    }

    /// Returns `true` if no difference is known.
    pub fn is_same(&self) -> bool {
        self.has_same_type()
            && self.has_same_shape()
            && self.data.is_none_or(|data| data.first_byte.is_none())
    }
}

impl<'a> Diff<'a> {
    fn compare_tensors(&mut self, a: &'a Model, b: &'a Model, selection: &Selection) {
        let (a, b) = (selected_tensors(a, selection), selected_tensors(b, selection));
        let mut in_b: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (place, found) in b.iter().enumerate().rev() {
            in_b.entry(found.tensor.name().as_bytes()).or_default().push(place);
        }
        let mut unmatched: Vec<Option<Placed<'a>>> = b.iter().cloned().map(Some).collect();
        let mut places = Vec::new();
        let mut pairs = Vec::with_capacity(a.len().max(b.len()));
        for found in a {
            let name = found.tensor.name();
            let index = in_b.get_mut(name.as_bytes()).and_then(Vec::pop);
            places.extend(index.map(|index| (name, index)));
            let other = index.and_then(|index| unmatched.get_mut(index).and_then(Option::take));
            pairs.push(TensorPair { name, sides: [Some(found), other], data: None });
        }
        pairs.extend(unmatched.into_iter().flatten().map(|found| TensorPair {
            name: found.tensor.name(),
            sides: [None, Some(found)],
            data: None,
        }));
        self.moved_tensor = first_moved(places.into_iter());
        self.tensors = Some(pairs);
    }
}

fn selected_tensors<'a>(model: &'a Model, selection: &Selection) -> Vec<Placed<'a>> {
    let all = model.tensors().iter().enumerate().map(|(number, tensor)| Placed { number, tensor });
    all.filter(|found| selection.has_name(found.tensor.name())).collect()
}
