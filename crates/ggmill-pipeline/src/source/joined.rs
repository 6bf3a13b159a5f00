use ggmill_io::RandomAccess;

use crate::error::{Error, ErrorKind, Result};
use crate::source::{Checkpoint, FileRange, SourceTensor};

/// Several checkpoints as one: the tensors of the first, then those of the second and so on.
#[derive(Debug, Default)]
pub struct Joined<'a> {
    sources: Vec<&'a dyn Checkpoint>,
    tensors: Vec<SourceTensor>,
    /// For each tensor its source and its number there.
    places: Vec<(usize, usize)>,
}

impl<'a> Joined<'a> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a checkpoint, and says which number its first tensor has.
    pub fn add(&mut self, source: &'a dyn Checkpoint) -> usize {
        let first = self.tensors.len();
        self.places.extend((0..source.tensors().len()).map(|number| (self.sources.len(), number)));
        self.tensors.extend_from_slice(source.tensors());
        self.sources.push(source);
        first
    }

    fn place(&self, number: usize) -> Option<(&'a dyn Checkpoint, usize)> {
        let &(source, number) = self.places.get(number)?;
        Some((*self.sources.get(source)?, number))
    }
}

impl Checkpoint for Joined<'_> {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (source, number) = self
            .place(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        source.read(number, offset, out)
    }

    fn prefetch(&self, numbers: &[usize]) {
        for (place, source) in self.sources.iter().enumerate() {
            let places = numbers.iter().filter_map(|&number| self.places.get(number));
            let theirs = places.filter(|(source, _)| *source == place).map(|(_, number)| *number);
            source.prefetch(&theirs.collect::<Vec<_>>());
        }
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.sources.iter().flat_map(|source| source.sources()).collect()
    }

    fn verify(&self) -> Result<()> {
        self.sources.iter().try_for_each(|source| source.verify())
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let (source, number) = self.place(number)?;
        source.range(number)
    }
}
