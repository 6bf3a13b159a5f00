use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use crate::Plan;
use crate::error::{Detail, Error, ErrorKind};

/// Where the bytes of a file go, in order. `ggmill-io` has the one that makes files; a `Vec<u8>` is
/// another.
pub trait Sink {
    /// The error of the sink.
    type Error;

    /// Appends bytes, all of them.
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

/// Why writing failed: the data did not fit the plan, or the sink could not take them.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the two sides of a write")]
pub enum WriteError<E> {
    /// Too much or too little data, or a different tensor from the next one in the plan.
    Plan(Error),
    /// The sink's own error.
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

/// Streams a planned file into a [`Sink`]: the header at once, then each tensor's data in pieces of
/// any size, padding by itself.
///
/// ```
/// use ggmill_core::{Builder, GgmlType, Gguf, Shape, Writer};
/// let plan = Builder::new().tensor("a", GgmlType::I8, Shape::new(&[3])?).plan()?;
/// let mut writer = Writer::start(&plan, Vec::new()).map_err(|_| "a Vec takes all").unwrap();
/// writer.write(0, &[1, 2]).unwrap();
/// writer.write(0, &[3]).unwrap();
/// let file = writer.finish().unwrap();
/// assert_eq!(Gguf::parse(&file)?.tensor("a")?.data()?.as_ref(), [1, 2, 3]);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<'p, S> {
    plan: &'p Plan,
    sink: S,
    /// The tensor being written.
    next: usize,
    /// Bytes of it written so far.
    written: u64,
}

impl<'p, S: Sink> Writer<'p, S> {
    /// Writes the header.
    pub fn start(plan: &'p Plan, mut sink: S) -> Result<Self, WriteError<S::Error>> {
        sink.append(plan.header()).map_err(WriteError::Sink)?;
        let mut writer = Self { plan, sink, next: 0, written: 0 };
        writer.pass_complete()?;
        Ok(writer)
    }

    /// Writes the next bytes of tensor `number`, which must be the one the plan has next: the one
    /// before it is complete.
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
        self.pass_complete()
    }

    /// Lets `put` append the next `len` bytes of the file to the sink by itself: data of tensor
    /// `number`, which must be the one the plan has next, and where they go on beyond it, padding
    /// and tensors after it. For sinks that can take bytes without reading them, from another file
    /// in which they lie in the same order. They may end within the data of a tensor or with them,
    /// or with the padding after them.
    ///
    /// The bytes that `put` appends are not checked: that it is `len` bytes, and zeros where the
    /// plan has padding, is the caller's promise. It can also say `false` and append nothing; then
    /// nothing has happened, and this says `false` too.
    ///
    /// ```
    /// use ggmill_core::{Builder, GgmlType, Gguf, Shape, Sink, Writer};
    /// let vector = Shape::new(&[3])?;
    /// let plan = Builder::new().tensor("a", GgmlType::I8, vector).tensor("b", GgmlType::I8, vector).plan()?;
    /// let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    /// let elsewhere = [&[1u8, 2, 3][..], &[0; 29], &[4, 5, 6]].concat();
    /// writer.write_with(0, 35, |sink: &mut Vec<u8>| Sink::append(sink, &elsewhere).map(|()| true)).unwrap();
    /// let file = writer.finish().unwrap();
    /// assert_eq!(Gguf::parse(&file)?.tensor("b")?.data()?.as_ref(), [4, 5, 6]);
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
        self.pass_complete().map(|()| true)
    }

    /// Where the file is `len` bytes from here: the tensor and bytes of it. `None` within padding
    /// and beyond the end.
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

    /// Pads and passes every tensor that has all its bytes: the one just written, and empty ones
    /// after it.
    fn pass_complete(&mut self) -> Result<(), WriteError<S::Error>> {
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

    /// Gives the sink back when every tensor is complete, and says which one is not otherwise.
    pub fn finish(self) -> Result<S, WriteError<S::Error>> {
        if self.next < self.plan.tensors().len() {
            return Err(self.incomplete("").into());
        }
        Ok(self.sink)
    }
}
