use std::collections::BTreeSet;
use std::path::Path;

use crate::{Checkpoint, FileRange, SourceTensor};
use crate::{Error, ErrorKind, Result};
use ggmill_core::{Endian, RawStr, ReadAt as _, Shape};
use ggmill_io::RandomAccess;

use super::container::{Container, begins};
use super::object::{Node, Tensor};
use super::strided::{Dimension, Strided};

/// One PyTorch file (`.bin`, `.pt`, `.pth`) with a state dictionary: its tensors in the order of
/// the dictionary.
///
/// Both forms are read, the archive and the stream of pickles from before PyTorch 1.6. Nothing in
/// the file is executed: a pickle that asks for anything but tensors and what they are made of is
/// refused, and the message names it. Tensors may share storages and may be views of them in any
/// order.
///
/// ```no_run
/// use ggmill_pipeline::formats::TorchFile;
/// use ggmill_pipeline::Checkpoint as _;
/// for tensor in TorchFile::open("pytorch_model.bin")?.tensors() {
///     println!("{} {} {}", tensor.name(), tensor.type_name(), tensor.shape);
/// }
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
#[derive(Debug)]
pub struct TorchFile {
    file: RandomAccess,
    tensors: Vec<SourceTensor>,
    places: Vec<Place>,
}

/// The data of a tensor.
#[derive(Debug)]
struct Place {
    /// Where its first element is.
    start: u64,
    /// Bytes of all elements.
    size: u64,
    /// Where the others are, unless they follow in order.
    strided: Option<Box<Strided>>,
    /// Bytes that are to be reversed; 1 for none.
    swapped: usize,
}

impl TorchFile {
    /// Opens a file. Fails when it is not one of PyTorch, when its pickle describes anything but a
    /// dictionary of tensors, and when a tensor reaches beyond the file. Tensors of types that GGUF
    /// does not have are listed with the type's name ([`SourceTensor::stored_type`]).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(RandomAccess::open(path)?)
    }

    /// Whether a file begins as one of PyTorch does.
    pub(crate) fn begins(file: &RandomAccess) -> bool {
        begins(file)
    }

    /// The file.
    pub(crate) fn file(&self) -> &RandomAccess {
        &self.file
    }

    pub(crate) fn new(file: RandomAccess) -> Result<Self> {
        let (tensors, places) = read(&file).map_err(|error| error.file(file.path()))?;
        Ok(Self { file, tensors, places })
    }

    fn place(&self, number: usize) -> Result<&Place> {
        let misuse = || Error::new(ErrorKind::Misuse, "no tensor has this number");
        self.places.get(number).ok_or_else(misuse)
    }
}

/// The tensors of a file, in the order of its dictionary.
fn read(file: &RandomAccess) -> Result<(Vec<SourceTensor>, Vec<Place>)> {
    let container = Container::open(file)?;
    let pickle = &container.pickle;
    let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
    let Some(entries) = pickle.objects.dict(pickle.root) else {
        let found = pickle.objects.shown(pickle.root);
        return Err(fault(format!("is {found}, expected a dictionary of tensors")));
    };
    let (mut tensors, mut places) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (number, &(key, value)) in entries.iter().enumerate() {
        let Some(name) = pickle.text(key) else {
            let found = pickle.objects.shown(key);
            return Err(fault(format!("entry {number} has {found} as its name")));
        };
        let shown = RawStr::new(name);
        if !seen.insert(name) {
            return Err(fault(format!("tensor {shown:?} is a duplicate in the dictionary")));
        }
        let Some(Node::Tensor(tensor)) = pickle.objects.node(value) else {
            let found = pickle.objects.shown(value);
            return Err(fault(format!(
                "entry {shown:?} is {found}, expected a tensor: the file contains not only the \
                 state dictionary of a model"
            )));
        };
        let shape = Shape::from_row_major(&tensor.size)
            .map_err(|error| fault(format!("tensor {shown:?}: {error}")))?;
        let size = shape.elements().checked_mul(tensor.dtype.size).ok_or_else(|| {
            fault(format!("tensor {shown:?}: shape {shape} has 2^64 bytes or more"))
        })?;
        let base = container.storage(&tensor.storage)?.start;
        let own = SourceTensor::new(name, tensor.dtype.ggml_type, shape);
        tensors.push(match tensor.dtype.stored_type {
            Some(stored_type) => own.of_stored_type(stored_type),
            None => own,
        });
        places.push(Place {
            start: base.saturating_add(if size > 0 {
                tensor.offset.saturating_mul(tensor.dtype.size)
            } else {
                // A tensor without elements may begin anywhere.
                0
            }),
            size,
            strided: strided(tensor, size),
            swapped: if container.endian == Endian::Big { tensor.dtype.unit } else { 1 },
        });
    }
    Ok((tensors, places))
}

fn strided(tensor: &Tensor, size: u64) -> Option<Box<Strided>> {
    if size == 0 {
        return None;
    }
    let pairs = tensor.size.iter().zip(&tensor.stride);
    let dimensions = pairs.rev().map(|(&size, &stride)| Dimension { size, stride }).collect();
    Strided::new(dimensions, tensor.dtype.size).map(Box::new)
}

impl Checkpoint for TorchFile {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let place = self.place(number)?;
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > place.size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor")
                .file(self.file.path()));
        }
        let unit = place.swapped as u64;
        if unit > 1 && !(offset.is_multiple_of(unit) && (out.len() as u64).is_multiple_of(unit)) {
            // Elements that are cut are read whole.
            let begin = offset - offset % unit;
            let end = (offset + out.len() as u64).next_multiple_of(unit).min(place.size);
            let cut = usize::try_from(offset - begin).unwrap_or(usize::MAX);
            let mut whole = vec![0; usize::try_from(end - begin).unwrap_or(usize::MAX)];
            self.read(number, begin, &mut whole)?;
            out.copy_from_slice(&whole[cut..][..out.len()]);
            return Ok(());
        }
        match &place.strided {
            Some(strided) => strided.read(&self.file, place.start, offset, out)?,
            None => self.file.read_at(place.start.saturating_add(offset), out)?,
        }
        if place.swapped > 1 {
            for unit in out.chunks_exact_mut(place.swapped) {
                unit.reverse();
            }
        }
        Ok(())
    }

    fn prefetch(&self, numbers: &[usize]) {
        let places = numbers.iter().filter_map(|&number| self.places.get(number));
        let in_order = places.filter(|place| place.strided.is_none());
        let range = |place: &Place| place.start..place.start.saturating_add(place.size);
        self.file.prefetch(&in_order.map(range).collect::<Vec<_>>());
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        vec![&self.file]
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let place = self.places.get(number).filter(|place| place.strided.is_none())?;
        let endian = if place.swapped > 1 { Endian::Big } else { Endian::Little };
        Some(FileRange::new(&self.file, place.start, endian))
    }
}
