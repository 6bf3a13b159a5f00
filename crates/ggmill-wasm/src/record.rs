//! Records, the format of outputs and some inputs: numbers are little-endian, and a text follows its
//! length.

use ggmill_core::ToValue;

/// The value of an absent number.
pub(crate) const NONE: u64 = u64::MAX;

/// An output that is being written.
#[derive(Debug, Default)]
pub(crate) struct Record(Vec<u8>);

impl Record {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a number that may be absent.
    pub(crate) fn maybe(&mut self, value: Option<u64>) {
        self.u64(value.unwrap_or(NONE));
    }

    /// Appends the number of items that follow. A number above `u32::MAX` does not fit into the memory
    /// of WebAssembly.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Appends the number of bytes, and the bytes.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Appends a metadata value, encoded as in a little-endian GGUF 3 file.
    pub(crate) fn value(&mut self, value: &impl ToValue) {
        value.encode(&mut self.0);
    }

    /// Appends the last bytes of the record, without their number.
    #[cfg(any(feature = "edit", feature = "name"))]
    pub(crate) fn rest(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(any(
    feature = "check",
    feature = "decode",
    feature = "estimate",
    feature = "inspect",
    feature = "tokenize"
))]
impl From<Vec<u8>> for Record {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// An input that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }
}

#[cfg(feature = "edit")]
impl<'a> Fields<'a> {
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }
}
