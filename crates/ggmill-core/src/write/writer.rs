//! Writing a planned file: the header, then tensor data in order.

use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use crate::Plan;
use crate::error::{Detail, Error, ErrorKind};

/// A destination of bytes in order, such as a `Vec<u8>`. `ggmill-io` has a sink for files.
pub trait Sink {
    /// The error of the sink.
    type Error;

    /// Appends all bytes.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

impl Sink for Vec<u8> {
    type Error = Infallible;

    fn append(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    type Error = S::Error;

    fn append(&mut self, bytes: &[u8]) -> Result<(), S::Error> {
        (**self).append(bytes)
    }
}

/// The reason why writing failed: data that does not match the plan, or an error of the sink.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the two sides of a write")]
pub enum WriteError<E> {
    /// Too much or too little data, or a different tensor from the next one in the plan.
    Plan(Error),
    /// The error of the sink.
    Sink(E),
}

impl<E: fmt::Display> fmt::Display for WriteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Sink(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for WriteError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Plan(error) => Some(error),
            Self::Sink(error) => Some(error),
        }
    }
}

impl<E> From<Error> for WriteError<E> {
    fn from(error: Error) -> Self {
        Self::Plan(error)
    }
}

/// Writes a planned file to a [`Sink`]: the header, then each tensor's data in pieces of any size. The
/// writer adds the padding.
///
/// ```
/// use ggmill_core::{Builder, GgmlType, Header, Shape, Writer};
/// let plan = Builder::new().tensor("a", GgmlType::I8, Shape::new(&[3])?).plan()?;
/// let mut writer = Writer::start(&plan, Vec::new()).map_err(|_| "a Vec takes all").unwrap();
/// writer.write(0, &[1, 2]).unwrap();
/// writer.write(0, &[3]).unwrap();
/// let file = writer.finish().unwrap();
/// assert_eq!(Header::parse(&file)?.tensor("a")?.data()?.as_ref(), [1, 2, 3]);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<'p, S> {
    plan: &'p Plan,
    sink: S,
    /// The index of the tensor being written.
    next: usize,
    /// Bytes of that tensor written so far.
    written: u64,
}

impl<'p, S: Sink> Writer<'p, S> {
    /// Writes the header.
    pub fn start(plan: &'p Plan, mut sink: S) -> Result<Self, WriteError<S::Error>> {
        sink.append(plan.header()).map_err(WriteError::Sink)?;
        let mut writer = Self { plan, sink, next: 0, written: 0 };
        writer.skip_complete()?;
        Ok(writer)
    }

    /// Writes the next bytes of tensor `number`. Tensors are written in the order of the plan, each
    /// completely before the next.
    pub fn write(&mut self, number: usize, bytes: &[u8]) -> Result<(), WriteError<S::Error>> {
        if bytes.is_empty() {
            return Ok(());
        }
        let tensor = self.plan.tensors().get(self.next).filter(|_| number == self.next);
        let Some(tensor) = tensor else {
            return Err(self.incomplete("a different tensor is next").into());
        };
        let total = self.written.saturating_add(bytes.len() as u64);
        if total > tensor.size() {
            let detail = Detail::Written { expected: tensor.size(), found: total };
            return Err(Error::new(ErrorKind::Misuse, detail)
                .tensor(tensor.name().as_bytes())
                .into());
        }
        self.sink.append(bytes).map_err(WriteError::Sink)?;
        self.written = total;
        self.skip_complete()
    }

    /// Calls `put` to append the next `len` bytes of the file to the sink, for sinks that can copy a
    /// range of another file without reading it. The range begins in the data of tensor `number`, the
    /// next in the plan, and can include the padding and the tensors after it. It can end within or
    /// after the data of a tensor, or after padding.
    ///
    /// The appended bytes are not checked: the caller guarantees that `put` appends `len` bytes, with
    /// zeros where the plan has padding. If `put` appends nothing and returns `false`, so does this
    /// method, and nothing has changed.
    ///
    /// ```
    /// use ggmill_core::{Builder, GgmlType, Header, Shape, Sink, Writer};
    /// let vector = Shape::new(&[3])?;
    /// let plan = Builder::new().tensor("a", GgmlType::I8, vector).tensor("b", GgmlType::I8, vector).plan()?;
    /// let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    /// let other_file = [&[1u8, 2, 3][..], &[0; 29], &[4, 5, 6]].concat();
    /// writer.write_with(0, 35, |sink: &mut Vec<u8>| Sink::append(sink, &other_file).map(|()| true)).unwrap();
    /// let file = writer.finish().unwrap();
    /// assert_eq!(Header::parse(&file)?.tensor("b")?.data()?.as_ref(), [4, 5, 6]);
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn write_with(
        &mut self,
        number: usize,
        len: u64,
        put: impl FnOnce(&mut S) -> Result<bool, S::Error>,
    ) -> Result<bool, WriteError<S::Error>> {
        if len == 0 {
            return Ok(true);
        }
        if number != self.next {
            return Err(self.incomplete("a different tensor is next").into());
        }
        let (next, written) =
            self.after(len).ok_or_else(|| self.incomplete("the bytes belong to no tensor"))?;
        if !put(&mut self.sink).map_err(WriteError::Sink)? {
            return Ok(false);
        }
        (self.next, self.written) = (next, written);
        self.skip_complete().map(|()| true)
    }

    /// Returns the position `len` bytes later: the tensor and the offset in its data. `None` within
    /// padding and after the end of the file.
    fn after(&self, len: u64) -> Option<(usize, u64)> {
        let (mut next, mut written, mut left) = (self.next, self.written, len);
        loop {
            let tensor = self.plan.tensors().get(next)?;
            let room = tensor.size().checked_sub(written)?;
            if left <= room {
                return Some((next, written.checked_add(left)?));
            }
            left =
                left.checked_sub(room)?.checked_sub(self.plan.alignment().pad(tensor.size())?)?;
            next = next.checked_add(1)?;
            written = 0;
            if left == 0 {
                return Some((next, 0));
            }
        }
    }

    /// Appends the padding of each complete tensor and moves to the next: for the tensor just written,
    /// and for empty tensors after it.
    fn skip_complete(&mut self) -> Result<(), WriteError<S::Error>> {
        while let Some(tensor) =
            self.plan.tensors().get(self.next).filter(|tensor| tensor.size() == self.written)
        {
            let mut padding = self.plan.alignment().pad(tensor.size()).unwrap_or(0);
            let zeros = [0; 256];
            while padding > 0 {
                let piece = usize::try_from(padding).unwrap_or(usize::MAX).min(zeros.len());
                self.sink
                    .append(zeros.get(..piece).unwrap_or_default())
                    .map_err(WriteError::Sink)?;
                padding = padding.saturating_sub(piece as u64);
            }
            self.next = self.next.saturating_add(1);
            self.written = 0;
        }
        Ok(())
    }

    #[cold]
    fn incomplete(&self, otherwise: &'static str) -> Error {
        match self.plan.tensors().get(self.next) {
            Some(tensor) => Error::new(
                ErrorKind::Misuse,
                Detail::Written { expected: tensor.size(), found: self.written },
            )
            .tensor(tensor.name().as_bytes()),
            None => Error::new(ErrorKind::Misuse, Detail::Other(otherwise)),
        }
    }

    /// Returns the sink. Fails with the name of the first tensor that is not complete.
    pub fn finish(self) -> Result<S, WriteError<S::Error>> {
        if self.next < self.plan.tensors().len() {
            return Err(self.incomplete("").into());
        }
        Ok(self.sink)
    }
}
