//! A model with tensors of others.

use std::collections::BTreeMap;

use ggmill_core::{GgmlType, RawStr, Shape};

use crate::edit::{Edit, edit_metadata};
use crate::merge::whole;
use crate::repack::RepackOptions;
use ggmill_pipeline::{Checkpoint, GgufCheckpoint, Joined};
use ggmill_pipeline::{Encoding, Expression, Recipe, RecipeTensor};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// A copy of a model that takes tensors from others, drops, renames or reorders its own.
///
/// Its steps are taken in the order in which they are called.
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

/// How many tensors were taken from a donor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// Those that took the place of one of the same name.
    pub replaced: usize,
    /// Those that came after the last.
    pub added: usize,
}

impl<'a> Graft<'a> {
    /// Begins with a copy of this model. A set of shards becomes one file.
    pub fn new(base: &'a GgufCheckpoint) -> Result<Self> {
        let recipe = whole(base)?;
        let mut sources = Joined::new();
        sources.add(base);
        Ok(Self { recipe, sources })
    }

    /// Takes tensors from a donor, under the names that `rename` gives them; those it gives none
    /// are left. A tensor of a name that already exists takes its place, and when `keep_types` its
    /// type, in which it is encoded; others come after the last. Fails when the row length is not a
    /// multiple of the block size of a type that is kept.
    pub fn take(
        &mut self,
        donor: &'a dyn Checkpoint,
        keep_types: bool,
        mut rename: impl FnMut(RawStr<'_>) -> Option<Vec<u8>>,
    ) -> Result<Taken> {
        let first = self.sources.add(donor);
        let mut places: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (place, tensor) in self.recipe.tensors.iter().enumerate() {
            places.entry(tensor.name.clone()).or_insert(place);
        }
        let mut taken = Taken::default();
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
                    // Numbers of another type must fit, or the model would be quietly another one.
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

    /// Keeps the tensors of which `keeps` says so, and says how many are gone.
    pub fn keep(&mut self, mut keeps: impl FnMut(RawStr<'_>) -> bool) -> usize {
        let before = self.recipe.tensors.len();
        self.recipe.tensors.retain(|tensor| keeps(RawStr::new(&tensor.name)));
        before - self.recipe.tensors.len()
    }

    /// Gives tensors new names where `rename` has one, and says how many have. Two of one name are
    /// refused when the file is planned.
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

    /// Puts tensors of a lower rank first; those of one rank stay in order.
    pub fn order(&mut self, mut rank: impl FnMut(RawStr<'_>) -> usize) {
        self.recipe.tensors.sort_by_cached_key(|tensor| rank(RawStr::new(&tensor.name)));
    }

    /// The tensor of this name, if there is one.
    pub fn tensor(&self, name: &[u8]) -> Option<(GgmlType, Shape)> {
        self.recipe
            .tensors
            .iter()
            .find(|tensor| tensor.name == name)
            .map(|tensor| (tensor.ggml_type(), *tensor.shape()))
    }

    /// The names of the tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = RawStr<'_>> {
        self.recipe.tensors.iter().map(|tensor| RawStr::new(&tensor.name))
    }

    /// Takes the keys that `picks` admits from another model: each in its place, or after the last.
    /// Says how many were taken.
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

    /// Applies edits to the metadata. Fails as [`edit_metadata`](crate::edit_metadata) does.
    pub fn edit(&mut self, edits: &[Edit]) -> Result<()> {
        let rows = self
            .tensor(b"token_embd.weight")
            .and_then(|(_, shape)| shape.dimensions().get(1).copied());
        let edited = edit_metadata(&self.recipe.metadata, edits, rows)?;
        // What was not changed stays where it is, room for later edits included.
        for change in edited.changes() {
            match edited.metadata().get(&change.key) {
                Some(value) => self.recipe.metadata.set(&change.key, value),
                None => drop(self.recipe.metadata.remove(&change.key)),
            }
        }
        self.recipe.notes.extend_from_slice(edited.notes());
        Ok(())
    }

    /// Gives the file another form.
    pub fn repack(&mut self, options: &RepackOptions) -> Result<()> {
        options.apply(&mut self.recipe)
    }

    /// The recipe, and the sources it is planned and run with.
    pub fn finish(self) -> (Recipe, Joined<'a>) {
        (self.recipe, self.sources)
    }
}
