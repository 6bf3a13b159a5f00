//! The only place where bytes are decoded to integers: byte order, checked reads, and the position of
//! each error.

use crate::error::{Detail, Error, ErrorKind};
use crate::{RawStr, ValueType};

/// The byte order of the numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_enums, reason = "byte order is little-endian or big-endian")]
pub enum Endian {
    /// Least significant byte first: almost every file.
    #[default]
    Little,
    /// Most significant byte first, for machines such as s390x.
    Big,
}

impl core::fmt::Display for Endian {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Self::Little => "little",
            Self::Big => "big",
        })
    }
}

/// The encoding of numbers in a file: byte order, and the width of counts and lengths, which is 64
/// bits in versions 2 and 3 and 32 bits in version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Encoding {
    pub(crate) endian: Endian,
    pub(crate) wide: bool,
}

impl Encoding {
    /// The encoding of values in a [`MetadataBuf`](crate::MetadataBuf): version 3, little-endian.
    pub(crate) const CANONICAL: Self = Self { endian: Endian::Little, wide: true };

    /// Returns the number of bytes of a count or length.
    pub(crate) const fn length_size(self) -> u64 {
        if self.wide { 8 } else { 4 }
    }
}

macro_rules! decode {
    ($($name:ident $number:ty;)*) => {
        impl Endian {
            $(pub(crate) const fn $name(self, bytes: [u8; size_of::<$number>()]) -> $number {
                match self {
                    Self::Little => <$number>::from_le_bytes(bytes),
                    Self::Big => <$number>::from_be_bytes(bytes),
                }
            })*
        }
    };
}

macro_rules! encode {
    ($($name:ident $number:ty;)*) => {
        impl Endian {
            $(pub(crate) fn $name(self, number: $number, out: &mut alloc::vec::Vec<u8>) {
                match self {
                    Self::Little => out.extend_from_slice(&number.to_le_bytes()),
                    Self::Big => out.extend_from_slice(&number.to_be_bytes()),
                }
            })*
        }
    };
}

encode! {
    put_u16 u16; put_i16 i16; put_u32 u32; put_i32 i32; put_u64 u64; put_i64 i64; put_f32 f32; put_f64 f64;
}

decode! {
    u16 u16; i16 i16; u32 u32; i32 i32; u64 u64; i64 i64; f32 f32; f64 f64;
}

/// The reason why parsing stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// More bytes of the file are needed: up to this offset from its start.
    Need(u64),
    /// The file is invalid.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

/// A read position in `bytes`, the beginning of a file of `file_len` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: u64,
    file_len: u64,
    /// The offset at which [`Limits::header_bytes`](crate::Limits::header_bytes) ends the header.
    header_limit: u64,
    encoding: Encoding,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], position: u64, file_len: u64, encoding: Encoding) -> Self {
        Self { bytes, position, file_len, header_limit: u64::MAX, encoding }
    }

    /// Restricts reads to the first `header_limit` bytes of the file, and to its length, even if
    /// `bytes` has more.
    pub(crate) fn within(mut self, header_limit: u64) -> Self {
        let end = usize::try_from(header_limit.min(self.file_len)).unwrap_or(usize::MAX);
        self.bytes = self.bytes.get(..end).unwrap_or(self.bytes);
        self.header_limit = header_limit;
        self
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Sets the encoding of the numbers that follow.
    pub(crate) fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// Returns the number of bytes from the position to the end of the file, available or not.
    pub(crate) fn remain(&self) -> u64 {
        self.file_len.saturating_sub(self.position)
    }

    /// Fails if the rest of the file cannot hold `count` items of at least `least` bytes each.
    pub(crate) fn check_room(
        &self,
        what: &'static str,
        count: u64,
        least: u64,
    ) -> Result<(), Error> {
        let (bytes, remain) = (count.saturating_mul(least), self.remain());
        if bytes <= remain {
            return Ok(());
        }
        let needs = self.position.saturating_add(bytes);
        let detail = Detail::Count { what, count, least, remain, needs };
        Err(Error::new(ErrorKind::Truncated, detail))
    }

    /// Returns the available bytes from the position on.
    fn rest(&self) -> &'a [u8] {
        usize::try_from(self.position)
            .ok()
            .and_then(|position| self.bytes.get(position..))
            .unwrap_or_default()
    }

    #[cold]
    fn short(&self, len: u64, what: &'static str) -> Stop {
        match self.position.checked_add(len) {
            Some(end) if end <= self.file_len.min(self.header_limit) => Stop::Need(end),
            Some(end) if end <= self.file_len => {
                let limit = self.header_limit;
                Error::new(
                    ErrorKind::Limit,
                    Detail::Limit { what: "header bytes", found: end, limit },
                )
                .at(self.position)
                .into()
            }
            _ => Error::new(
                ErrorKind::Truncated,
                Detail::Ends { what, needs: len, remain: self.remain() },
            )
            .at(self.position)
            .into(),
        }
    }

    pub(crate) fn take(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], Stop> {
        let found = usize::try_from(len).ok().and_then(|len| self.rest().get(..len));
        let (Some(found), Some(end)) = (found, self.position.checked_add(len)) else {
            return Err(self.short(len, what));
        };
        self.position = end;
        Ok(found)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Stop> {
        match self.rest().first_chunk::<N>() {
            Some(chunk) => {
                self.position = self.position.saturating_add(N as u64);
                Ok(*chunk)
            }
            None => Err(self.short(N as u64, what)),
        }
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Stop> {
        Ok(self.encoding.endian.u32(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Stop> {
        Ok(self.encoding.endian.u64(self.array(what)?))
    }

    /// Reads a count or length: 64 bits, or 32 in version 1.
    pub(crate) fn length(&mut self, what: &'static str) -> Result<u64, Stop> {
        if self.encoding.wide { self.u64(what) } else { Ok(u64::from(self.u32(what)?)) }
    }

    /// Reads a string of at most `limit` bytes: its length, then its bytes.
    pub(crate) fn string(&mut self, limit: u64, what: &'static str) -> Result<RawStr<'a>, Stop> {
        let start = self.position;
        let len = self.length(what)?;
        if len > limit && len <= self.remain() {
            return Err(Error::new(
                ErrorKind::Limit,
                Detail::Limit { what: "string bytes", found: len, limit },
            )
            .at(start)
            .into());
        }
        Ok(RawStr::new(self.take(len, what)?))
    }

    pub(crate) fn value_type(&mut self) -> Result<ValueType, Stop> {
        let start = self.position;
        let found = ValueType(self.u32("value type")?);
        match found.name() {
            Some(_) => Ok(found),
            None => {
                Err(Error::new(ErrorKind::Malformed, Detail::UnknownValueType { found: found.0 })
                    .at(start)
                    .into())
            }
        }
    }

    /// Skips at most `count` strings. Returns the number of skipped strings and, if there are fewer
    /// than `count`, the reason.
    ///
    /// This is where opening a file with a large vocabulary spends its time: each length says where
    /// the next one lies, so the loop cannot be faster than one load after the other. It is written
    /// so that nothing else is in that chain.
    pub(crate) fn skip_strings(&mut self, count: u64, limit: u64) -> (u64, Result<(), Stop>) {
        match (self.encoding.wide, self.encoding.endian) {
            (true, Endian::Little) => self.skip_strings_by(count, limit, u64::from_le_bytes),
            (true, Endian::Big) => self.skip_strings_by(count, limit, u64::from_be_bytes),
            (false, Endian::Little) => self.skip_strings_by(count, limit, |bytes: [u8; 4]| {
                u64::from(u32::from_le_bytes(bytes))
            }),
            (false, Endian::Big) => self.skip_strings_by(count, limit, |bytes: [u8; 4]| {
                u64::from(u32::from_be_bytes(bytes))
            }),
        }
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "four instances of one loop, each with its own length decoder"
    )]
    fn skip_strings_by<const N: usize>(
        &mut self,
        count: u64,
        limit: u64,
        length: impl Fn([u8; N]) -> u64,
    ) -> (u64, Result<(), Stop>) {
        let available = self.rest();
        let mut rest = available;
        let mut left = count;
        // The loop carries the bytes after a length instead of the position of the length, so the
        // next length is one addition away, not two. A fifth faster.
        let mut ahead = rest.split_first_chunk::<N>();
        while left > 0 {
            let Some((prefix, tail)) = ahead else { break };
            let len = length(*prefix);
            if len > tail.len() as u64 || len > limit {
                break;
            }
            #[expect(clippy::cast_possible_truncation, reason = "compared with a usize above")]
            let Some(next) = tail.get(len as usize..) else { break };
            rest = next;
            ahead = next.split_first_chunk::<N>();
            left = left.saturating_sub(1);
        }
        let skipped = available.len().saturating_sub(rest.len());
        self.position = self.position.saturating_add(skipped as u64);
        // The loop does not say why it stopped; reading the next string again returns the error.
        let result = if left > 0 { self.error_of_next_string(limit) } else { Ok(()) };
        (count.saturating_sub(left), result)
    }

    #[cold]
    fn error_of_next_string(&self, limit: u64) -> Result<(), Stop> {
        let mut ahead = *self;
        ahead.string(limit, "string").map(|_| ())
    }
}
