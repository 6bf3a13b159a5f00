//! The tensors of a file, in the order of its directory.

use alloc::borrow::Cow;
use core::fmt;
use core::ops::Range;

use crate::error::{Detail, Error, ErrorKind, Result};
use crate::index::{Index, TensorEntry};
use crate::types::swap_bytes;
use crate::{Endian, GgmlType, RawStr, Shape};

/// The tensors of several files, one file after the other.
pub(crate) trait Directory: fmt::Debug + Sync {
    /// For each file how many tensors are in those before it; never none.
    fn starts(&self) -> &[usize];

    /// How many tensors there are.
    fn count(&self) -> usize;

    /// The tensors of one file.
    fn part(&self, part: usize) -> Option<Tensors<'_>>;
}

/// The tensor directory of a file, or of all files of a model, in the order of the files.
#[derive(Clone, Copy, Debug)]
pub struct Tensors<'a>(Held<'a>);

#[derive(Clone, Copy, Debug)]
enum Held<'a> {
    File { index: &'a Index, bytes: &'a [u8], part: usize },
    Files(&'a dyn Directory),
}

impl Index {
    /// The tensors, read from `bytes`: those the index was parsed from. The first
    /// [`Index::header_len`] are enough for everything but their data.
    pub fn tensors<'a>(&'a self, bytes: &'a [u8]) -> Tensors<'a> {
        Tensors::new(self, bytes, 0)
    }
}

impl<'a> Tensors<'a> {
    pub(crate) fn new(index: &'a Index, bytes: &'a [u8], part: usize) -> Self {
        Self(Held::File { index, bytes, part })
    }

    pub(crate) fn of_files(files: &'a dyn Directory) -> Self {
        Self(Held::Files(files))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        match self.0 {
            Held::File { index, .. } => index.tensors.len(),
            Held::Files(files) => files.count(),
        }
    }

    /// Whether there are no tensors, as in a file of vocabulary only.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensors in the order of the file.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = Tensor<'a>> + DoubleEndedIterator + Clone + use<'a> {
        Iter { tensors: *self, range: 0..self.len() }
    }

    /// Tensor number `index` in the order of the file.
    pub fn nth(&self, index: usize) -> Option<Tensor<'a>> {
        match self.0 {
            Held::File { index: file, bytes, part } => file
                .tensors
                .get(index)
                .map(|entry| Tensor { entry, bytes, endian: file.endian(), part }),
            Held::Files(files) => {
                let starts = files.starts();
                // Files without tensors start where the next one does.
                let part = starts.partition_point(|&start| start <= index).checked_sub(1)?;
                files.part(part)?.nth(index.checked_sub(*starts.get(part)?)?)
            }
        }
    }

    /// The tensor with this name: found by bisection. Of several with the name, the first in the
    /// file.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<Tensor<'a>> {
        let name = name.as_ref();
        match self.0 {
            Held::File { index, .. } => {
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
            Held::Files(files) => {
                (0..files.starts().len()).find_map(|part| files.part(part)?.get(name))
            }
        }
    }
}

/// The numbers of tensors that are still to come.
#[derive(Clone)]
struct Iter<'a> {
    tensors: Tensors<'a>,
    range: Range<usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Tensor<'a>;

    fn next(&mut self) -> Option<Tensor<'a>> {
        self.tensors.nth(self.range.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.tensors.nth(self.range.next_back()?)
    }
}

impl ExactSizeIterator for Iter<'_> {}

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
    endian: Endian,
    part: usize,
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

    /// Where the data begins, counted from the start of the file.
    pub fn offset(&self) -> u64 {
        self.entry.start
    }

    /// Bytes of the data, or `None` for an unpublished type.
    pub fn size(&self) -> Option<u64> {
        self.entry.size
    }

    /// Which file of its model it is in, counted from 0: a place in
    /// [`Model::parts`](crate::Model::parts).
    pub fn part(&self) -> usize {
        self.part
    }

    /// The byte order of the stored data.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    pub(crate) fn fail(&self, kind: ErrorKind, detail: Detail) -> Error {
        Error::new(kind, detail).at(self.entry.start).tensor(self.name().as_bytes())
    }

    /// Bytes of the data. Fails for an unpublished type.
    pub(crate) fn known_size(&self) -> Result<u64> {
        self.entry.size.ok_or_else(|| {
            self.fail(
                ErrorKind::Unsupported,
                Detail::UnknownTensorType { found: self.entry.ggml_type },
            )
        })
    }

    /// The data in canonical form: blocks in little-endian order, regardless of the byte order of
    /// the file.
    ///
    /// They are borrowed where the file is little-endian. Fails for an unknown type, for a retired
    /// one whose blocks cannot be byte-swapped, and when the bytes that were opened hold the header
    /// only; [`Model::read_tensor`](crate::Model::read_tensor) reads what is not in memory.
    pub fn data(&self) -> Result<Cow<'a, [u8]>> {
        self.canonical(self.raw_data()?)
    }

    /// The data of row number `row`, `ne[0]` elements, in canonical form as [`data`](Self::data)
    /// has them.
    pub fn row(&self, row: u64) -> Result<Cow<'a, [u8]>> {
        self.canonical(self.raw_row(row)?)
    }

    fn canonical(&self, raw: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        if self.endian == Endian::Little {
            return Ok(Cow::Borrowed(raw));
        }
        let mut blocks = raw.to_vec();
        swap_bytes(self.entry.ggml_type, &mut blocks)
            .map_err(|error| error.at(self.entry.start).tensor(self.name().as_bytes()))?;
        Ok(Cow::Owned(blocks))
    }

    /// The data as they lie in the bytes the file was opened from, in the byte order of the file.
    /// Fails for an unknown type, and when those bytes hold the header only.
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

    /// The data of row number `row`, `ne[0]` elements, in the byte order of the file.
    pub fn raw_row(&self, row: u64) -> Result<&'a [u8]> {
        let data = self.raw_data()?;
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
