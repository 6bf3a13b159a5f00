//! The tensors of a file, in the order of its tensor infos: shapes, alignment, data.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;
use core::ops::Range;

use crate::byte_order::swap_bytes;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::header::{Index, TensorEntry};
use crate::{Endian, GgmlType, RawStr};

/// The alignment of tensor data in bytes: a positive multiple of 8 (specification,
/// `general.alignment`), 32 by default.
///
/// The C reader accepts only powers of two ([`Alignment::is_power_of_two`]).
///
/// ```
/// use ggmill_core::Alignment;
/// let alignment = Alignment::new(24)?;
/// assert_eq!(alignment.pad(25), Some(23));
/// assert!(!alignment.is_power_of_two());
/// assert!(Alignment::new(12).is_err());
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alignment(u32);

impl Alignment {
    /// The default for a file without `general.alignment`.
    pub const DEFAULT: Self = Self(32);

    /// Creates an alignment. Fails if it is not a positive multiple of 8 that fits in 32 bits.
    pub fn new(alignment: u64) -> Result<Self> {
        match u32::try_from(alignment) {
            Ok(small) if small > 0 && small.is_multiple_of(8) => Ok(Self(small)),
            _ => {
                Err(Error::new(ErrorKind::Malformed, Detail::Alignment { found: alignment.into() }))
            }
        }
    }

    /// Returns the alignment in bytes.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the bytes of padding from `offset` to the next multiple, or `None` if that exceeds `u64`.
    pub fn pad(self, offset: u64) -> Option<u64> {
        offset.checked_next_multiple_of(u64::from(self.0))?.checked_sub(offset)
    }

    /// Rounds `offset` up to a multiple, or returns `None` if that exceeds `u64`.
    pub fn align(self, offset: u64) -> Option<u64> {
        offset.checked_next_multiple_of(u64::from(self.0))
    }

    /// Returns `true` for a power of two, which is an alignment that the C reader accepts.
    pub const fn is_power_of_two(self) -> bool {
        self.0.is_power_of_two()
    }
}

impl Default for Alignment {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The dimensions of a tensor in stored order: first `ne[0]`, along which elements are contiguous.
///
/// PyTorch and NumPy list dimensions in reverse order ([`Shape::row_major`]). A shape without
/// dimensions is a scalar with one element. The number of elements always fits in a `u64`.
///
/// ```
/// use ggmill_core::Shape;
/// let shape = Shape::new(&[4096, 32000])?;
/// assert_eq!((shape.row_len(), shape.rows()), (4096, 32000));
/// assert_eq!(shape.to_string(), "4096 × 32000");
/// assert_eq!(Shape::from_row_major(&[32000, 4096])?, shape);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dimensions: [u64; Self::MAX_DIMENSIONS],
    len: u8,
}

impl Shape {
    /// The maximum number of dimensions of a shape. ggml supports four; the format allows more.
    pub const MAX_DIMENSIONS: usize = 8;

    /// Creates a shape from dimensions in stored order. Fails if there are more than
    /// [`Shape::MAX_DIMENSIONS`] or their product exceeds `u64`.
    pub fn new(dimensions: &[u64]) -> Result<Self> {
        let mut own = [0; Self::MAX_DIMENSIONS];
        let too_many = || {
            let (found, limit) = (dimensions.len() as u64, Self::MAX_DIMENSIONS as u64);
            Error::new(ErrorKind::Limit, Detail::Limit { what: "dimensions", found, limit })
        };
        own.get_mut(..dimensions.len()).ok_or_else(too_many)?.copy_from_slice(dimensions);
        let len = u8::try_from(dimensions.len()).map_err(|_| too_many())?;
        let shape = Self { dimensions: own, len };
        match shape.product() {
            Some(_) => Ok(shape),
            None => Err(Error::new(ErrorKind::Malformed, Detail::Elements)),
        }
    }

    /// Creates a shape from dimensions in row-major order, as in PyTorch, NumPy and safetensors.
    pub fn from_row_major(dimensions: &[u64]) -> Result<Self> {
        let mut shape = Self::new(dimensions)?;
        if let Some(used) = shape.dimensions.get_mut(..dimensions.len()) {
            used.reverse();
        }
        Ok(shape)
    }

    /// Returns the product of the dimensions: 0 if any is 0, and otherwise `None` if it exceeds `u64`.
    fn product(&self) -> Option<u64> {
        let dimensions = self.dimensions();
        if dimensions.contains(&0) {
            return Some(0);
        }
        dimensions.iter().try_fold(1u64, |product, &dimension| product.checked_mul(dimension))
    }

    /// Returns the dimensions in stored order.
    pub fn dimensions(&self) -> &[u64] {
        self.dimensions.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns the dimensions in row-major order, as in PyTorch, NumPy and safetensors.
    pub fn row_major(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.dimensions().iter().rev().copied()
    }

    /// Returns the number of elements, 1 for a scalar.
    pub fn elements(&self) -> u64 {
        // `new` has checked that the product fits.
        self.product().unwrap_or(u64::MAX)
    }

    /// Returns the number of elements in a row: `ne[0]`, or 1 for a scalar.
    pub fn row_len(&self) -> u64 {
        self.dimensions().first().copied().unwrap_or(1)
    }

    /// Returns the number of rows: the product of all dimensions but the first, or 0 for an empty
    /// tensor.
    pub fn rows(&self) -> u64 {
        self.elements().checked_div(self.row_len()).unwrap_or(0)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        let mut shown = String::new();
        for (i, dimension) in self.dimensions().iter().enumerate() {
            write!(shown, "{}{dimension}", if i == 0 { "" } else { " × " })?;
        }
        f.pad(if shown.is_empty() { "scalar" } else { &shown })
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dimensions(), f)
    }
}

/// The concatenated tensors of several files.
pub(crate) trait Directory: fmt::Debug + Sync {
    /// Returns the index of the first tensor of each file. There is at least one file.
    fn starts(&self) -> &[usize];

    /// Returns the number of tensors.
    fn count(&self) -> usize;

    /// Returns the tensors of one file.
    fn part(&self, part: usize) -> Option<Tensors<'_>>;
}

/// The tensors of a file, or of all files of a model in order.
#[derive(Clone, Copy, Debug)]
pub struct Tensors<'a>(Files<'a>);

#[derive(Clone, Copy, Debug)]
enum Files<'a> {
    One { index: &'a Index, bytes: &'a [u8], part: usize },
    Several(&'a dyn Directory),
}

impl<'a> Tensors<'a> {
    pub(crate) fn new(index: &'a Index, bytes: &'a [u8], part: usize) -> Self {
        Self(Files::One { index, bytes, part })
    }

    pub(crate) fn of_files(files: &'a dyn Directory) -> Self {
        Self(Files::Several(files))
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        match self.0 {
            Files::One { index, .. } => index.tensors.len(),
            Files::Several(files) => files.count(),
        }
    }

    /// Returns `true` if there are no tensors, as in a vocabulary file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over the tensors in the order of the file.
    pub fn iter(&self) -> TensorIter<'a> {
        TensorIter { tensors: *self, range: 0..self.len() }
    }

    /// Returns the tensor at `index` in the order of the file.
    pub fn nth(&self, index: usize) -> Option<Tensor<'a>> {
        match self.0 {
            Files::One { index: file, bytes, part } => file
                .tensors
                .get(index)
                .map(|entry| Tensor { entry, bytes, endian: file.encoding.endian, part }),
            Files::Several(files) => {
                let starts = files.starts();
                // A file without tensors has the start of the next file.
                let part = starts.partition_point(|&start| start <= index).checked_sub(1)?;
                files.part(part)?.nth(index.checked_sub(*starts.get(part)?)?)
            }
        }
    }

    /// Returns the tensor with this name, by binary search. If the name is not unique, returns the
    /// first tensor with it.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<Tensor<'a>> {
        let name = name.as_ref();
        match self.0 {
            Files::One { index, .. } => {
                let by_name = &index.tensors_by_name;
                let tensor = |number: u32| self.nth(usize::try_from(number).ok()?);
                let at = by_name.partition_point(|&number| {
                    tensor(number).is_some_and(|tensor| tensor.name().as_bytes() < name)
                });
                by_name
                    .get(at)
                    .and_then(|&number| tensor(number))
                    .filter(|tensor| tensor.name().as_bytes() == name)
            }
            Files::Several(files) => {
                (0..files.starts().len()).find_map(|part| files.part(part)?.get(name))
            }
        }
    }

    /// Returns the tensor with this name. Fails with [`ErrorKind::Missing`] if there is none.
    pub(crate) fn require(&self, name: &[u8]) -> Result<Tensor<'a>> {
        self.get(name)
            .ok_or_else(|| Error::new(ErrorKind::Missing, Detail::TensorMissing).tensor(name))
    }
}

/// The iterator over [`Tensors`].
#[derive(Clone, Debug)]
pub struct TensorIter<'a> {
    tensors: Tensors<'a>,
    range: Range<usize>,
}

impl<'a> Iterator for TensorIter<'a> {
    type Item = Tensor<'a>;

    fn next(&mut self) -> Option<Tensor<'a>> {
        self.tensors.nth(self.range.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for TensorIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.tensors.nth(self.range.next_back()?)
    }
}

impl ExactSizeIterator for TensorIter<'_> {}

impl<'a> IntoIterator for &Tensors<'a> {
    type Item = Tensor<'a>;
    type IntoIter = TensorIter<'a>;
    fn into_iter(self) -> TensorIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for Tensors<'a> {
    type Item = Tensor<'a>;
    type IntoIter = TensorIter<'a>;
    fn into_iter(self) -> TensorIter<'a> {
        self.iter()
    }
}

/// A tensor of a file: name, type, shape, offset, and data without a copy if the file is in memory.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    entry: &'a TensorEntry,
    bytes: &'a [u8],
    endian: Endian,
    part: usize,
}

impl<'a> Tensor<'a> {
    /// Returns the name.
    pub fn name(&self) -> RawStr<'a> {
        RawStr::new(self.entry.name.of(self.bytes))
    }

    /// Returns the tensor type, which can be an unknown number.
    pub fn ggml_type(&self) -> GgmlType {
        self.entry.ggml_type
    }

    /// Returns the dimensions in stored order.
    pub fn shape(&self) -> &'a Shape {
        &self.entry.shape
    }

    /// Returns the offset of the tensor info in the file.
    pub fn info_offset(&self) -> u64 {
        self.entry.info
    }

    /// Returns the offset of the data in the file.
    pub fn offset(&self) -> u64 {
        self.entry.start
    }

    /// Returns the size of the data in bytes, or `None` for an unknown type.
    pub fn size(&self) -> Option<u64> {
        self.entry.size
    }

    /// Returns the index of its file in [`Model::parts`](crate::Model::parts).
    pub fn part(&self) -> usize {
        self.part
    }

    /// Returns the byte order of the stored data.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    pub(crate) fn fail(&self, kind: ErrorKind, detail: Detail) -> Error {
        Error::new(kind, detail).at(self.entry.start).tensor(self.name().as_bytes())
    }

    /// Returns the size of the data in bytes. Fails for an unknown type.
    pub(crate) fn known_size(&self) -> Result<u64> {
        self.entry.size.ok_or_else(|| {
            self.fail(
                ErrorKind::Unsupported,
                Detail::UnknownTensorType { found: self.entry.ggml_type },
            )
        })
    }

    /// Returns the data as little-endian blocks, regardless of the byte order of the file.
    ///
    /// The result is borrowed if the file is little-endian. Fails for an unknown type, for a retired
    /// type whose blocks cannot be byte-swapped, and if only the header is in memory;
    /// [`Model::read_tensor`](crate::Model::read_tensor) reads data that is not in memory.
    pub fn data(&self) -> Result<Cow<'a, [u8]>> {
        self.little_endian(self.raw_data()?)
    }

    /// Returns the data of row `row`, `ne[0]` elements, as [`data`](Self::data) does.
    pub fn row(&self, row: u64) -> Result<Cow<'a, [u8]>> {
        self.little_endian(self.raw_row(row)?)
    }

    fn little_endian(&self, raw: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        if self.endian == Endian::Little {
            return Ok(Cow::Borrowed(raw));
        }
        let mut blocks = raw.to_vec();
        swap_bytes(self.entry.ggml_type, &mut blocks)
            .map_err(|error| error.at(self.entry.start).tensor(self.name().as_bytes()))?;
        Ok(Cow::Owned(blocks))
    }

    /// Returns the data in the byte order of the file. Fails for an unknown type, and if only the
    /// header is in memory.
    pub fn raw_data(&self) -> Result<&'a [u8]> {
        let size = self.known_size()?;
        let found = || {
            self.bytes
                .get(usize::try_from(self.entry.start).ok()?..)?
                .get(..usize::try_from(size).ok()?)
        };
        if size == 0 {
            return Ok(&[]);
        }
        found().ok_or_else(|| {
            let (start, end) = (self.entry.start, self.entry.start.saturating_add(size));
            self.fail(
                ErrorKind::Misuse,
                Detail::NotLoaded { start, end, loaded: self.bytes.len() as u64 },
            )
        })
    }

    /// Returns the data of row `row`, `ne[0]` elements, in the byte order of the file.
    pub fn raw_row(&self, row: u64) -> Result<&'a [u8]> {
        let data = self.raw_data()?;
        let rows = self.entry.shape.rows();
        let found = || {
            let size = usize::try_from((data.len() as u64).checked_div(rows)?).ok()?;
            let start = usize::try_from(row).ok()?.checked_mul(size)?;
            data.get(start..)?.get(..size)
        };
        found().ok_or_else(|| self.fail(ErrorKind::Misuse, Detail::Row { row, rows }))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn products_are_checked() {
        assert_eq!(Shape::new(&[1 << 32, 1 << 31]).unwrap().elements(), 1 << 63);
        assert_eq!(Shape::new(&[1 << 32, 1 << 32]).unwrap_err().kind(), ErrorKind::Malformed);
        assert_eq!(Shape::new(&[1; 9]).unwrap_err().kind(), ErrorKind::Limit);
    }

    #[test]
    fn a_zero_dimension_makes_an_empty_tensor() {
        let shape = Shape::new(&[u64::MAX, 0, u64::MAX]).unwrap();
        assert_eq!((shape.elements(), shape.rows(), shape.row_len()), (0, 0, u64::MAX));
    }

    #[test]
    fn an_empty_tensor_has_no_rows() {
        let shape = Shape::new(&[0, u64::MAX, u64::MAX]).unwrap();
        assert_eq!((shape.elements(), shape.rows()), (0, 0));
    }

    #[test]
    fn a_scalar_has_one_element() {
        let scalar = Shape::new(&[]).unwrap();
        assert_eq!((scalar.elements(), scalar.rows(), scalar.row_len()), (1, 1, 1));
        assert_eq!(scalar.to_string(), "scalar");
    }
}
