//! Small files, each for one thing that is wrong or one thing that is allowed, and what a reader
//! must say of them.
//!
//! `ATTACKS.md` beside this crate's manifest tells the ideas behind the broken ones.

mod directory;
mod head;
mod reference;
mod tensors;
mod valid;
mod values;

use ggmill_core::{ErrorKind, Limits};

/// One file and what must come of opening it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// Short, unique, in kebab-case.
    pub name: &'static str,
    /// What is wrong with the file, or remarkable about it.
    pub why: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
    /// The limits to open it under: the defaults, but for the cases about limits.
    pub limits: Limits,
    /// What must come of it.
    pub expected: Expected,
}

/// What must come of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Expected {
    /// It opens.
    Opens,
    /// It is refused.
    Fails {
        /// The sort of error.
        kind: ErrorKind,
        /// The absolute offset the error names.
        offset: Option<u64>,
        /// What the error is about.
        about: About,
    },
}

/// What an error is about: the owned counterpart of [`ggmill_core::Subject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth")]
pub enum About {
    /// No key and no tensor.
    File,
    /// The pair with this key.
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

    /// Whether the file must be refused.
    pub fn is_broken(&self) -> bool {
        self.expected != Expected::Opens
    }
}

/// Every case, broken and valid.
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

/// The files that must be refused.
pub fn broken() -> Vec<Case> {
    all().into_iter().filter(Case::is_broken).collect()
}

/// The files that must open.
pub fn valid() -> Vec<Case> {
    all().into_iter().filter(|case| !case.is_broken()).collect()
}
