//! A model with tensors of others.

use std::collections::BTreeMap;

use ggmill_core::{GgmlType, RawStr, Shape};
use ggmill_pipeline::{
    Checkpoint, Encoding, Error, ErrorKind, Expression, GgufCheckpoint, Joined, Recipe,
    RecipeTensor, Result,
};

use crate::edit::{Edit, edit_metadata};
use crate::reshape::{RepackOptions, whole};

/// A copy of a model with tensors of other models inserted, and its own dropped, renamed or reordered.
///
/// The steps are applied in the order of the calls.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("model.gguf");
/// # std::fs::write(&path, ggmill_core::Builder::new().plan()?.header())?;
/// use ggmill_edit::Graft;
/// use ggmill_pipeline::GgufCheckpoint;
/// let base = GgufCheckpoint::open(&path)?;
/// let mut graft = Graft::new(&base)?;
/// graft.keep(|name| name != "output.weight");
/// let (recipe, sources) = graft.finish();
/// let plan = recipe.plan(&sources)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Graft<'a> {
    recipe: Recipe,
    sources: Joined<'a>,
}

/// The number of tensors taken from a donor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenTensors {
    /// Tensors that replaced one with the same name.
    pub replaced: usize,
    /// Tensors that were appended.
    pub added: usize,
}

impl<'a> Graft<'a> {
    /// Starts with a copy of a model. A set of shards becomes one file.
    pub fn new(base: &'a GgufCheckpoint) -> Result<Self> {
        let recipe = whole(base)?;
        let mut sources = Joined::new();
        sources.add(base);
        Ok(Self { recipe, sources })
    }

    /// Takes the tensors of a donor for which `rename` returns a name, under this name. A tensor with
    /// the name of an existing one replaces it, and is encoded in its type if `keep_types`; others are
    /// appended. Fails if a row is not a multiple of the block size of a kept type.
    pub fn take(
        &mut self,
        donor: &'a dyn Checkpoint,
        keep_types: bool,
        mut rename: impl FnMut(RawStr<'_>) -> Option<Vec<u8>>,
    ) -> Result<TakenTensors> {
        let first = self.sources.add(donor);
        let mut places: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (place, tensor) in self.recipe.tensors.iter().enumerate() {
            places.entry(tensor.name.clone()).or_insert(place);
        }
        let mut taken = TakenTensors::default();
        for (number, tensor) in donor.tensors().iter().enumerate() {
            let Some(name) = rename(tensor.name()) else { continue };
            let mut new =
                RecipeTensor::new(name.clone(), Expression::tensor(&self.sources, first + number)?);
            if let Some(old) =
                places.get(&name).and_then(|&place| self.recipe.tensors.get_mut(place))
            {
                if old.shape() != new.shape() {
                    let note = format!(
                        "tensor {:?} had shape {}, and now has shape {}",
                        RawStr::new(&name),
                        old.shape(),
                        new.shape()
                    );
                    self.recipe.notes.push(note);
                }
                if keep_types {
                    // Values that overflow the other type are an error, not a silent change.
                    let finite = new.expression.ggml_type() != old.ggml_type();
                    new.expression = new
                        .expression
                        .encode(old.ggml_type(), Encoding::new(None, finite))
                        .map_err(|error| error.tensor(&name))?;
                }
                *old = new;
                taken.replaced += 1;
            } else {
                places.insert(name, self.recipe.tensors.len());
                self.recipe.tensors.push(new);
                taken.added += 1;
            }
        }
        Ok(taken)
    }

    /// Removes the tensors for which `keeps` returns `false`, and returns their number.
    pub fn keep(&mut self, mut keeps: impl FnMut(RawStr<'_>) -> bool) -> usize {
        let before = self.recipe.tensors.len();
        self.recipe.tensors.retain(|tensor| keeps(RawStr::new(&tensor.name)));
        before - self.recipe.tensors.len()
    }

    /// Renames the tensors for which `rename` returns a name, and returns their number. Planning fails
    /// if two tensors have the same name.
    pub fn rename(&mut self, mut rename: impl FnMut(RawStr<'_>) -> Option<Vec<u8>>) -> usize {
        let mut renamed = 0;
        for tensor in &mut self.recipe.tensors {
            if let Some(name) = rename(RawStr::new(&tensor.name)) {
                tensor.name = name;
                renamed += 1;
            }
        }
        renamed
    }

    /// Sorts the tensors by rank, stably.
    pub fn order(&mut self, mut rank: impl FnMut(RawStr<'_>) -> usize) {
        self.recipe.tensors.sort_by_cached_key(|tensor| rank(RawStr::new(&tensor.name)));
    }

    /// Returns the type and shape of the tensor with this name.
    pub fn tensor(&self, name: &[u8]) -> Option<(GgmlType, Shape)> {
        self.recipe
            .tensors
            .iter()
            .find(|tensor| tensor.name == name)
            .map(|tensor| (tensor.ggml_type(), *tensor.shape()))
    }

    /// Returns the names of the tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = RawStr<'_>> {
        self.recipe.tensors.iter().map(|tensor| RawStr::new(&tensor.name))
    }

    /// Takes the keys of another model for which `picks` returns `true`: each replaces the present one
    /// or is appended. Returns their number.
    pub fn take_keys(
        &mut self,
        donor: &GgufCheckpoint,
        mut picks: impl FnMut(RawStr<'_>) -> bool,
    ) -> Result<usize> {
        let mut taken = 0;
        for entry in donor.metadata().iter().filter(|entry| picks(entry.key())) {
            let value =
                entry.value().map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
            self.recipe.metadata.set(entry.key().as_bytes(), value);
            taken += 1;
        }
        Ok(taken)
    }

    /// Applies edits to the metadata. Fails like [`edit_metadata`](crate::edit_metadata).
    pub fn edit(&mut self, edits: &[Edit]) -> Result<()> {
        let rows = self
            .tensor(b"token_embd.weight")
            .and_then(|(_, shape)| shape.dimensions().get(1).copied());
        let edited = edit_metadata(&self.recipe.metadata, edits, rows)?;
        // Unchanged keys keep their places; the filler stays too.
        for change in edited.changes() {
            match edited.metadata().get(&change.key) {
                Some(value) => self.recipe.metadata.set(&change.key, value),
                None => drop(self.recipe.metadata.remove(&change.key)),
            }
        }
        self.recipe.notes.extend_from_slice(edited.notes());
        Ok(())
    }

    /// Sets the form of the file.
    pub fn repack(&mut self, options: &RepackOptions) -> Result<()> {
        options.apply(&mut self.recipe)
    }

    /// Returns the recipe, and the sources that it is planned and run with.
    pub fn finish(self) -> (Recipe, Joined<'a>) {
        (self.recipe, self.sources)
    }
}
