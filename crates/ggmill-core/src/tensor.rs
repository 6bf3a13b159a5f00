//! The tensors of a file, in the order of its directory.

use crate::error::{Detail, Error, ErrorKind, Result};
use crate::index::{Index, TensorEntry};
use crate::{GgmlType, RawStr, Shape};

/// The tensor directory of a file, in the order the file has it.
#[derive(Clone, Copy, Debug)]
pub struct Tensors<'a> {
    index: &'a Index,
    bytes: &'a [u8],
}

impl<'a> Tensors<'a> {
    pub(crate) fn new(index: &'a Index, bytes: &'a [u8]) -> Self {
        Self { index, bytes }
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.index.tensors.len()
    }

    /// Whether there are no tensors, as in a file of vocabulary only.
    pub fn is_empty(&self) -> bool {
        self.index.tensors.is_empty()
    }

    /// Where a file with these tensors ends: behind the last of their data with its padding, or behind the header. `None` when the size of one is not known, and
    /// beyond 64 bits.
    pub fn end(&self) -> Option<u64> {
        let mut ends = self.iter().map(|tensor| tensor.offset().checked_add(tensor.size()?));
        let end = ends.try_fold(self.index.header_len(), |last, end| Some(last.max(end?)))?;
        self.index.alignment().align(end)
    }

    /// The tensors in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tensor<'a>> + DoubleEndedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.index.tensors.iter().map(move |entry| Tensor { entry, bytes })
    }

    /// Tensor number `index` in the order of the file.
    pub fn nth(&self, index: usize) -> Option<Tensor<'a>> {
        self.index.tensors.get(index).map(|entry| Tensor { entry, bytes: self.bytes })
    }

    /// The tensor with this name: found by bisection. Where a name stands twice, the first in the file.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<Tensor<'a>> {
        let by_name = &self.index.tensors_by_name;
        let tensor = |number: u32| self.nth(usize::try_from(number).ok()?);
        let at = by_name.partition_point(|&number| tensor(number).is_some_and(|tensor| tensor.name().as_bytes() < name.as_ref()));
        by_name.get(at).and_then(|&number| tensor(number)).filter(|tensor| tensor.name().as_bytes() == name.as_ref())
    }
}

impl<'a> IntoIterator for Tensors<'a> {
    type Item = Tensor<'a>;
    type IntoIter = alloc::boxed::Box<dyn ExactSizeIterator<Item = Tensor<'a>> + 'a>;
    fn into_iter(self) -> Self::IntoIter {
        alloc::boxed::Box::new(self.iter())
    }
}

/// One tensor of a file: its name, type, shape and place; its data without a copy.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    entry: &'a TensorEntry,
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// The name.
    pub fn name(&self) -> RawStr<'a> {
        RawStr::new(self.entry.name.of(self.bytes))
    }

    /// The type of the elements; unknown numbers included.
    pub fn ggml_type(&self) -> GgmlType {
        self.entry.ggml_type
    }

    /// The dimensions in stored order.
    pub fn shape(&self) -> &'a Shape {
        &self.entry.shape
    }

    /// Where the tensor info begins in the file.
    pub fn info_offset(&self) -> u64 {
        self.entry.info
    }

    /// Where the data begin, counted from the start of the file.
    pub fn offset(&self) -> u64 {
        self.entry.start
    }

    /// Bytes of the data, or `None` for a type nobody has published.
    pub fn size(&self) -> Option<u64> {
        self.entry.size
    }

    fn fail(&self, kind: ErrorKind, detail: Detail) -> Error {
        Error::new(kind, detail).at(self.entry.start).tensor(self.name().as_bytes())
    }

    /// The data, as they lie in the bytes the file was opened from. Fails for an unknown type, and when those bytes hold the header only.
    pub fn data(&self) -> Result<&'a [u8]> {
        let Some(size) = self.entry.size else {
            return Err(self.fail(ErrorKind::Unsupported, Detail::UnknownTensorType { found: self.entry.ggml_type }));
        };
        let found = || self.bytes.get(usize::try_from(self.entry.start).ok()?..)?.get(..usize::try_from(size).ok()?);
        if size == 0 {
            return Ok(&[]);
        }
        found().ok_or_else(|| {
            let (start, end) = (self.entry.start, self.entry.start.saturating_add(size));
            self.fail(ErrorKind::Misuse, Detail::NotLoaded { start, end, loaded: self.bytes.len() as u64 })
        })
    }

    /// The data of row number `row`: `ne[0]` elements.
    pub fn row(&self, row: u64) -> Result<&'a [u8]> {
        let data = self.data()?;
        let rows = self.entry.shape.rows();
        let found = || {
            let size = usize::try_from((data.len() as u64).checked_div(rows)?).ok()?;
            let start = usize::try_from(row).ok()?.checked_mul(size)?;
            data.get(start..)?.get(..size)
        };
        if row >= rows {
            return Err(self.fail(ErrorKind::Misuse, Detail::Row { row, rows }));
        }
        found().ok_or_else(|| self.fail(ErrorKind::Misuse, Detail::Row { row, rows }))
    }
}
