//! PyTorch files: an archive, or the stream of pickles of PyTorch before 1.6. Both have a pickle
//! that describes the tensors ([`pickle`]) and the bytes of their storages ([`container`]).

use std::collections::BTreeSet;
use std::path::Path;

use ggmill_core::{Endian, RawStr, ReadAt as _, Shape};
use ggmill_io::RandomAccess;

use crate::formats::torch::container::{Container, begins};
use crate::formats::torch::object::{Node, Tensor};
use crate::{Checkpoint, Error, ErrorKind, FileRange, Result, SourceTensor, zeroed};

mod container;
mod object;
mod pickle;

/// A PyTorch file (`.bin`, `.pt`, `.pth`) with a state dictionary, with its tensors in dictionary
/// order.
///
/// It can be an archive, or a stream of pickles as before PyTorch 1.6. Nothing in the file is
/// executed: a pickle that uses globals other than those of tensors is refused, and the message
/// names them. Tensors may share storages and be strided views of them.
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

/// The location of a tensor's data.
#[derive(Debug)]
struct Place {
    /// The offset of its first element.
    start: u64,
    /// Its size in bytes.
    size: u64,
    /// The strides, unless the elements are contiguous.
    strided: Option<Box<Strided>>,
    /// Size of the units to byte-swap; 1 for none.
    swap_unit: usize,
}

impl TorchFile {
    /// Opens a file. Fails if it is not a PyTorch file, if its pickle is not a dictionary of
    /// tensors, and if a tensor exceeds the file. Tensors of types that GGUF does not have are
    /// listed with the name of the type ([`SourceTensor::stored_type`]).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(RandomAccess::open(path)?)
    }

    /// Returns `true` if a file begins like a PyTorch file.
    pub(crate) fn begins(file: &RandomAccess) -> bool {
        begins(file)
    }

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
        let found = pickle.objects.describe(pickle.root);
        return Err(fault(format!("is {found}, expected a dictionary of tensors")));
    };
    let (mut tensors, mut places) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (number, &(key, value)) in entries.iter().enumerate() {
        let Some(name) = pickle.text(key) else {
            let found = pickle.objects.describe(key);
            return Err(fault(format!("entry {number} has {found} as its name")));
        };
        let shown = RawStr::new(name);
        if !seen.insert(name) {
            return Err(fault(format!("tensor {shown:?} is a duplicate in the dictionary")));
        }
        let Some(Node::Tensor(tensor)) = pickle.objects.node(value) else {
            let found = pickle.objects.describe(value);
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
            Some(stored_type) => own.with_stored_type(stored_type),
            None => own,
        });
        places.push(Place {
            start: base.saturating_add(if size > 0 {
                tensor.offset.saturating_mul(tensor.dtype.size)
            } else {
                // The offset of a tensor without elements is unchecked.
                0
            }),
            size,
            strided: strided(tensor, size),
            swap_unit: if container.endian == Endian::Big { tensor.dtype.unit } else { 1 },
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
        let storage = self.place(number)?;
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > storage.size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor")
                .file(self.file.path()));
        }
        let unit = storage.swap_unit as u64;
        if unit > 1 && !(offset.is_multiple_of(unit) && (out.len() as u64).is_multiple_of(unit)) {
            // Cut elements are read whole, to swap their bytes.
            let begin = offset - offset % unit;
            let end = (offset + out.len() as u64).next_multiple_of(unit).min(storage.size);
            let cut = usize::try_from(offset - begin).unwrap_or(usize::MAX);
            let mut whole = vec![0; usize::try_from(end - begin).unwrap_or(usize::MAX)];
            self.read(number, begin, &mut whole)?;
            out.copy_from_slice(&whole[cut..][..out.len()]);
            return Ok(());
        }
        match &storage.strided {
            Some(strided) => strided.read(&self.file, storage.start, offset, out)?,
            None => self.file.read_at(storage.start.saturating_add(offset), out)?,
        }
        if storage.swap_unit > 1 {
            for unit in out.chunks_exact_mut(storage.swap_unit) {
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
        let endian = if place.swap_unit > 1 { Endian::Big } else { Endian::Little };
        Some(FileRange::new(&self.file, place.start, endian))
    }
}

/// Bytes of one read, if enough of them are requested.
const WINDOW: u64 = 1 << 20;
/// A range of up to this many bytes is always read in one call, because a system call costs more.
const GAP: u64 = 4096;
/// A range is read in one call if at least 1 in this many elements is requested.
const SHARE: u64 = 8;

/// A dimension of a view.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    size: u64,
    /// The stride in elements of the storage.
    stride: u64,
}

/// A loop of a box of elements, with its strides in the storage and in the output.
#[derive(Clone, Copy, Debug)]
struct Loop {
    count: u64,
    stride: u64,
    to: u64,
}

/// A view that is not contiguous.
#[derive(Debug)]
struct Strided {
    /// The dimensions, fastest first.
    dimensions: Vec<Dimension>,
    /// Bytes per element.
    unit: u64,
}

impl Strided {
    /// Creates a view from its dimensions, fastest first; `None` if it is contiguous.
    fn new(dimensions: Vec<Dimension>, unit: u64) -> Option<Self> {
        let mut next = 1;
        for dimension in dimensions.iter().filter(|dimension| dimension.size != 1) {
            if dimension.stride != next {
                return Some(Self { dimensions, unit });
            }
            // The caller has checked the number of elements for overflow.
            next = dimension.size.saturating_mul(next);
        }
        None
    }

    /// Fills `out` with the bytes of the view from `offset` on. `start` is the offset of its first
    /// element in the file, which must contain the whole view.
    fn read(&self, file: &RandomAccess, start: u64, offset: u64, out: &mut [u8]) -> Result<()> {
        let unit = self.unit.max(1);
        let end = offset.saturating_add(out.len() as u64);
        let (first, last) = (offset / unit, end.div_ceil(unit));
        if first * unit == offset && last * unit == end {
            return Gather { file, unit }.fill(&self.dimensions, start, first, last - first, out);
        }
        // Cut elements are read whole.
        let whole = last.saturating_sub(first).saturating_mul(unit);
        let mut bytes = zeroed(usize::try_from(whole).unwrap_or(usize::MAX))?;
        Gather { file, unit }.fill(&self.dimensions, start, first, last - first, &mut bytes)?;
        let skip = usize::try_from(offset - first * unit).unwrap_or(usize::MAX);
        for (to, from) in out.iter_mut().zip(bytes.get(skip..).unwrap_or_default()) {
            *to = *from;
        }
        Ok(())
    }
}

struct Gather<'a> {
    file: &'a RandomAccess,
    unit: u64,
}

impl Gather<'_> {
    /// Reads elements `first..first + count` of a view that begins at `start` in the file: partial
    /// rows one by one, and the whole rows between them as a box.
    fn fill(
        &self,
        dimensions: &[Dimension],
        start: u64,
        first: u64,
        count: u64,
        mut out: &mut [u8],
    ) -> Result<()> {
        let Some((&slowest, faster)) = dimensions.split_last() else {
            return self.gather(&[], start, out);
        };
        let inner: u64 = faster.iter().map(|dimension| dimension.size).product();
        let (mut first, mut count) = (first, count);
        while count > 0 && inner > 0 {
            let (index, skipped) = (first / inner, first % inner);
            let at = start.saturating_add(index * slowest.stride * self.unit);
            let whole = if skipped == 0 { count / inner } else { 0 };
            let taken = if whole > 0 { whole * inner } else { count.min(inner - skipped) };
            let bytes = usize::try_from(taken * self.unit).unwrap_or(usize::MAX);
            let (part, rest) = out.split_at_mut(bytes.min(out.len()));
            if whole > 0 {
                let mut to = 1;
                let counts = faster.iter().map(|dimension| (dimension.size, dimension.stride));
                let loops: Vec<Loop> = counts
                    .chain([(whole, slowest.stride)])
                    .map(|(count, stride)| {
                        let this = Loop { count, stride, to };
                        to *= count;
                        this
                    })
                    .filter(|this| this.count > 1)
                    .collect();
                self.gather(&loops, at, part)?;
            } else {
                self.fill(faster, at, skipped, taken, part)?;
            }
            (first, count, out) = (first + taken, count - taken, rest);
        }
        Ok(())
    }

    /// Reads a box: its span in one call, or each half recursively.
    fn gather(&self, loops: &[Loop], start: u64, out: &mut [u8]) -> Result<()> {
        let span: u64 = loops.iter().map(|this| (this.count - 1) * this.stride).sum::<u64>() + 1;
        let requested: u64 = loops.iter().map(|this| this.count).product();
        let bytes = span.saturating_mul(self.unit);
        let is_dense = requested.saturating_mul(SHARE) >= span || bytes <= GAP;
        let widest = (0..loops.len()).max_by_key(|&number| {
            loops.get(number).map_or(0, |this| (this.count - 1) * this.stride)
        });
        let widest = widest.filter(|_| !is_dense || bytes > WINDOW).and_then(|number| {
            let this = *loops.get(number)?;
            (this.count > 1 && this.stride > 0).then_some((number, this))
        });
        let Some((number, this)) = widest else {
            let mut piece = zeroed(usize::try_from(bytes).unwrap_or(usize::MAX))?;
            self.file.read_at(start, &mut piece)?;
            scatter(loops, usize::try_from(self.unit).unwrap_or(1), &piece, out);
            return Ok(());
        };
        let half = this.count / 2;
        for (from, count) in [(0, half), (half, this.count - half)] {
            let mut part = loops.to_vec();
            if let Some(own) = part.get_mut(number) {
                own.count = count;
            }
            let to = usize::try_from(from * this.to * self.unit).unwrap_or(usize::MAX);
            let start = start.saturating_add(from * this.stride * self.unit);
            self.gather(&part, start, out.get_mut(to..).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Copies the elements of a box from the bytes of its span to their positions in the output.
fn scatter(loops: &[Loop], unit: usize, from: &[u8], out: &mut [u8]) {
    let Some((slowest, faster)) = loops.split_last() else {
        if let (Some(to), Some(from)) = (out.get_mut(..unit), from.get(..unit)) {
            to.copy_from_slice(from);
        }
        return;
    };
    let to_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    if faster.is_empty() && slowest.stride == 1 {
        let bytes = to_usize(slowest.count).saturating_mul(unit);
        if let (Some(to), Some(from)) = (out.get_mut(..bytes), from.get(..bytes)) {
            to.copy_from_slice(from);
        }
        return;
    }
    for index in 0..slowest.count {
        let (from_at, to_at) = (to_usize(index * slowest.stride), to_usize(index * slowest.to));
        let from = from.get(from_at.saturating_mul(unit)..).unwrap_or_default();
        let out = out.get_mut(to_at.saturating_mul(unit)..).unwrap_or_default();
        scatter(faster, unit, from, out);
    }
}
