//! Two models side by side: what of their metadata and tensors is not the same.
//!
//! A set of shards is one model, so the keys that say how it is divided are left out. How a file is
//! laid out (version, byte order, alignment, shards) is [shown](Diff::forms) and is not a
//! difference.

pub mod json;
mod metadata;
mod tensors;
pub mod text;

use ggmill_core::{Endian, Model, RawStr, Result, Value};

pub use self::tensors::{DataDiff, NumericDiff, Placed, TensorPair};
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

/// How a model is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Form {
    /// The version of the format, of the first file.
    pub version: u32,
    /// The byte order.
    pub endian: Endian,
    /// The alignment of tensor data, of the first file.
    pub alignment: u32,
    /// Number of files.
    pub shards: usize,
}

/// A key that does not have the same value on both sides.
#[derive(Clone, Debug)]
pub struct KeyDiff<'a> {
    key: RawStr<'a>,
    sides: [Option<Value<'a>>; 2],
    first_difference: Option<u64>,
}

impl<'a> KeyDiff<'a> {
    /// The key.
    pub fn key(&self) -> RawStr<'a> {
        self.key
    }

    /// Its value in A, where it has one.
    pub fn a(&self) -> Option<&Value<'a>> {
        self.sides[0].as_ref()
    }

    /// Its value in B, where it has one.
    pub fn b(&self) -> Option<&Value<'a>> {
        self.sides[1].as_ref()
    }

    /// Where two arrays of one element type part: the index of the first element that is not the
    /// same, or of the first that only one has. Of two strings, the byte.
    pub fn first_difference(&self) -> Option<u64> {
        self.first_difference
    }
}

impl<'a> Diff<'a> {
    /// Compares what the headers say, as far as it is selected. Whether the data of tensors are the
    /// same is not known before [`Diff::set_data`].
    ///
    /// Where a key or a name occurs several times, the first is compared with the first and so on.
    /// Fails when the bytes of a file changed meanwhile.
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

    /// How A and B are laid out.
    pub fn forms(&self) -> &[Form; 2] {
        &self.forms
    }

    /// The keys that differ, those of A in its order and then those of B alone. `None` when
    /// metadata were not selected.
    pub fn metadata(&self) -> Option<&[KeyDiff<'a>]> {
        self.metadata.as_deref()
    }

    /// Number of identical metadata entries.
    pub fn same_keys(&self) -> usize {
        self.same_keys
    }

    /// The first key that is elsewhere among those both have.
    pub fn moved_key(&self) -> Option<RawStr<'a>> {
        self.moved_key
    }

    /// All tensors, those of A in its order and then those of B alone. `None` when tensors were not
    /// selected.
    pub fn tensors(&self) -> Option<&[TensorPair<'a>]> {
        self.tensors.as_deref()
    }

    /// The first tensor that is elsewhere among those both have.
    pub fn moved_tensor(&self) -> Option<RawStr<'a>> {
        self.moved_tensor
    }

    /// Says what comparing the data of tensor number `pair` of [`Diff::tensors`] found.
    pub fn set_data(&mut self, pair: usize, data: DataDiff) {
        if let Some(pair) = self.tensors.as_mut().and_then(|tensors| tensors.get_mut(pair)) {
            pair.data = Some(data);
        }
    }

    /// Whether no difference was found.
    pub fn is_same(&self) -> bool {
        let tensors = self.tensors.as_deref().unwrap_or_default();
        self.metadata.as_deref().unwrap_or_default().is_empty()
            && self.moved_key.is_none()
            && self.moved_tensor.is_none()
            && tensors.iter().all(TensorPair::is_same)
    }
}

fn form(model: &Model) -> Form {
    let index = model.index();
    Form {
        version: index.version(),
        endian: index.endian(),
        alignment: index.alignment().get(),
        shards: model.parts().len(),
    }
}

/// The first that does not come later than the one before it in B, walking along A.
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
