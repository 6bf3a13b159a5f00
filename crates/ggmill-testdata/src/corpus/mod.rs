//! Small files, each with one fault or one unusual but valid feature, and the expected outcome of opening
//! them.
//!
//! `ATTACKS.md` in the directory of this crate describes the ideas of the broken files.

mod directory;
mod head;
mod reference;
mod tensors;
mod valid;
mod values;

use ggmill_core::{ErrorKind, Limits};

/// A file and the expected outcome of opening it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// A short unique name in kebab-case.
    pub name: &'static str,
    /// The fault or feature of the file.
    pub why: &'static str,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The limits for opening it: the defaults, except for cases about limits.
    pub limits: Limits,
    /// The expected outcome.
    pub expected: Expected,
}

/// The expected outcome of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Expected {
    /// It opens.
    Opens,
    /// It is rejected.
    Fails {
        /// The kind of error.
        kind: ErrorKind,
        /// The absolute offset in the error.
        offset: Option<u64>,
        /// The subject of the error.
        about: About,
    },
}

/// The expected subject of an error ([`ggmill_core::Subject`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth")]
pub enum About {
    /// No key and no tensor.
    File,
    /// The metadata entry with this key.
    Key(&'static str),
    /// The tensor with this name.
    Tensor(&'static str),
}

impl Case {
    fn opens(name: &'static str, why: &'static str, bytes: Vec<u8>) -> Self {
        Self { name, why, bytes, limits: Limits::default(), expected: Expected::Opens }
    }

    fn fails(
        name: &'static str,
        why: &'static str,
        kind: ErrorKind,
        offset: u64,
        about: About,
        bytes: Vec<u8>,
    ) -> Self {
        Self {
            name,
            why,
            bytes,
            limits: Limits::default(),
            expected: Expected::Fails { kind, offset: Some(offset), about },
        }
    }

    fn under(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns `true` if the file must be rejected.
    pub fn is_broken(&self) -> bool {
        self.expected != Expected::Opens
    }
}

/// Returns every case, broken and valid.
pub fn all() -> Vec<Case> {
    [
        head::cases(),
        directory::cases(),
        values::cases(),
        tensors::cases(),
        reference::cases(),
        valid::cases(),
    ]
    .concat()
}

/// Returns the files that must be rejected.
pub fn broken() -> Vec<Case> {
    all().into_iter().filter(Case::is_broken).collect()
}

/// Returns the files that must open.
pub fn valid() -> Vec<Case> {
    all().into_iter().filter(|case| !case.is_broken()).collect()
}
