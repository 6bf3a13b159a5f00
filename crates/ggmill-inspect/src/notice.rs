//! Warnings about a file that can be opened.

use std::borrow::Cow;
use std::fmt;

use ggmill_core::{GgmlType, Model, Part, RawStr};

use crate::human::{self, counted};
use crate::view::file_name;

/// Something odd that does not keep a file from being opened. Its text is one line, in lower case
/// and without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// Several entries have this key; the first one answers.
    DuplicateKey {
        /// The key.
        key: RawStr<'a>,
        /// Entries that have it.
        entries: usize,
    },
    /// Several tensors have this name.
    DuplicateTensor {
        /// The name.
        name: RawStr<'a>,
        /// Tensors that have it.
        tensors: usize,
    },
    /// Tensors of an unknown type: their data cannot be read, nor their end be checked.
    UnknownType {
        /// The type.
        ggml_type: GgmlType,
        /// Tensors of this type.
        tensors: u64,
    },
    /// Tensors of a type that upstream has removed.
    RetiredType {
        /// The type.
        ggml_type: GgmlType,
        /// Tensors of this type.
        tensors: u64,
    },
    /// The file goes on after its last tensor.
    TrailingBytes {
        /// The file, where it has a name.
        file: Option<String>,
        /// How many bytes.
        bytes: u64,
    },
    /// Tensors that do not begin where the one before them ends, padded: in another order, with
    /// gaps, or not aligned. llama.cpp refuses such a file.
    Scattered {
        /// The first of them.
        name: RawStr<'a>,
        /// How many.
        tensors: usize,
    },
    /// Tensor names of 64 bytes or more, which llama.cpp refuses.
    LongName {
        /// The first of them.
        name: RawStr<'a>,
        /// How many.
        tensors: usize,
    },
    /// An alignment that is not a power of two, which llama.cpp refuses.
    OddAlignment {
        /// The alignment in bytes.
        alignment: u32,
    },
    /// The length of the file is not known, so it is not certain that the data of its tensors is
    /// complete.
    LengthUnknown,
}

impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateKey { key, entries } => {
                write!(f, "key {key:?} occurs {entries} times; the first entry is used")
            }
            Self::DuplicateTensor { name, tensors } => {
                write!(f, "tensor {name:?} occurs {tensors} times")
            }
            Self::UnknownType { ggml_type, tensors } => {
                write!(
                    f,
                    "{} of unknown type {ggml_type}: the size is unknown",
                    counted(*tensors, "tensor")
                )
            }
            Self::RetiredType { ggml_type, tensors } => write!(
                f,
                "{} of {ggml_type}, a type that current readers reject",
                counted(*tensors, "tensor")
            ),
            Self::TrailingBytes { file, bytes } => {
                write!(
                    f,
                    "{} ({bytes} bytes) after the last tensor do not belong to any tensor",
                    human::bytes(u128::from(*bytes))
                )?;
                file.as_ref()
                    .map_or(Ok(()), |file| write!(f, ", in {}", RawStr::from(file.as_str())))
            }
            Self::Scattered { name, tensors } => {
                write!(
                    f,
                    "{} not begin where the preceding one ends",
                    if *tensors == 1 {
                        "1 tensor does".to_owned()
                    } else {
                        format!("{tensors} tensors do")
                    }
                )?;
                write!(f, ", the first is {name:?}: llama.cpp rejects the file")
            }
            Self::LongName { name, tensors } => {
                let shown = name.as_bytes().get(..64).map_or(*name, RawStr::new);
                write!(
                    f,
                    "{} a name of 64 bytes or more, the first is {shown:?}…: llama.cpp rejects the \
                     file",
                    if *tensors == 1 {
                        "1 tensor has".to_owned()
                    } else {
                        format!("{tensors} tensors have")
                    }
                )
            }
            Self::OddAlignment { alignment } => {
                write!(f, "alignment {alignment} is not a power of two: llama.cpp rejects the file")
            }
            Self::LengthUnknown => f.write_str(
                "the length of the file is unknown, so tensor data was not checked for \
                 completeness",
            ),
        }
    }
}

/// Looks for everything a [`Notice`] can say.
pub fn notices(model: &Model) -> Vec<Notice<'_>> {
    let mut notices = Vec::new();
    if model.file_len().is_none() {
        notices.push(Notice::LengthUnknown);
    }
    notices.extend(
        repeated(model.metadata().iter().map(|entry| entry.key()))
            .into_iter()
            .map(|(key, entries)| Notice::DuplicateKey { key, entries }),
    );
    notices.extend(
        repeated(model.tensors().iter().map(|tensor| tensor.name()))
            .into_iter()
            .map(|(name, tensors)| Notice::DuplicateTensor { name, tensors }),
    );
    for used in crate::Summary::of(model).types {
        let (ggml_type, tensors) = (used.ggml_type, used.tensors);
        if ggml_type.name().is_none() {
            notices.push(Notice::UnknownType { ggml_type, tensors });
        } else if ggml_type.is_retired() {
            notices.push(Notice::RetiredType { ggml_type, tensors });
        }
    }
    notices.extend(model.parts().iter().filter_map(scattered));
    notices.extend(
        counted_from(
            model.tensors().iter().map(|tensor| tensor.name()).filter(|name| name.len() >= 64),
        )
        .map(|(name, tensors)| Notice::LongName { name, tensors }),
    );
    notices.extend(
        model
            .parts()
            .iter()
            .map(|part| part.index().alignment().get())
            .find(|alignment| !alignment.is_power_of_two())
            .map(|alignment| Notice::OddAlignment { alignment }),
    );
    notices.extend(model.parts().iter().filter_map(trailing_bytes));
    notices
}

/// The names that occur more than once, and how often.
fn repeated<'a>(names: impl Iterator<Item = RawStr<'a>>) -> Vec<(RawStr<'a>, usize)> {
    let mut names: Vec<RawStr<'a>> = names.collect();
    names.sort_unstable();
    names
        .chunk_by(|a, b| a == b)
        .filter(|same| same.len() > 1)
        .filter_map(|same| Some((*same.first()?, same.len())))
        .collect()
}

/// The first of some names, and how many there are.
fn counted_from<'a>(mut names: impl Iterator<Item = RawStr<'a>>) -> Option<(RawStr<'a>, usize)> {
    let first = names.next()?;
    Some((first, 1 + names.count()))
}

/// Holds every tensor against the place where the reference's reader expects it. After an unknown
/// type that place is not known.
fn scattered<'a>(part: &'a Part) -> Option<Notice<'a>> {
    let index = part.index();
    let mut expected = Some(index.data_offset());
    let misplaced = part.tensors().iter().filter(|tensor| {
        let here =
            expected.replace(tensor.offset()).is_some_and(|expected| expected != tensor.offset());
        expected = tensor
            .offset()
            .checked_add(tensor.size().unwrap_or(0))
            .and_then(|end| index.alignment().align(end))
            .filter(|_| tensor.size().is_some());
        here
    });
    let names: Vec<RawStr<'a>> = misplaced.map(|tensor| tensor.name()).collect();
    counted_from(names.into_iter()).map(|(name, tensors)| Notice::Scattered { name, tensors })
}

fn trailing_bytes<'a>(part: &Part) -> Option<Notice<'a>> {
    let bytes =
        part.file_len()?.checked_sub(part.index().data_end()?).filter(|&bytes| bytes > 0)?;
    Some(Notice::TrailingBytes { file: file_name(part).map(Cow::into_owned), bytes })
}
