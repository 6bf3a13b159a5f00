//! Warnings about a file that can be opened.

use std::borrow::Cow;
use std::fmt;

use ggmill_core::{GgmlType, Header, Model, RawStr};

use crate::file_name;
use crate::human::{self, counted};

/// A warning about a file that can be opened. Its text is one line in lower case without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// Several entries have the same key; the first one is used.
    DuplicateKey {
        /// The key.
        key: RawStr<'a>,
        /// The number of entries.
        entries: usize,
    },
    /// Several tensors have the same name.
    DuplicateTensor {
        /// The name.
        name: RawStr<'a>,
        /// The number of tensors.
        tensors: usize,
    },
    /// Tensors of an unknown type, whose size is unknown and whose data cannot be read.
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
    /// Bytes after the last tensor.
    TrailingBytes {
        /// The name of the file, if it has one.
        file: Option<String>,
        /// The number of bytes.
        bytes: u64,
    },
    /// Tensors that do not begin at the padded end of the preceding one, because of another order, gaps
    /// or misalignment. llama.cpp rejects such a file.
    Scattered {
        /// The name of the first one.
        name: RawStr<'a>,
        /// The number of tensors.
        tensors: usize,
    },
    /// Tensor names of 64 bytes or more, which llama.cpp rejects.
    LongName {
        /// The name of the first one.
        name: RawStr<'a>,
        /// The number of tensors.
        tensors: usize,
    },
    /// An alignment that is not a power of two, which llama.cpp rejects.
    OddAlignment {
        /// The alignment in bytes.
        alignment: u32,
    },
    /// The length of the file is not known, so tensor data was not checked for completeness.
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

/// Returns all notices about a model.
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
        first_and_count(
            model.tensors().iter().map(|tensor| tensor.name()).filter(|name| name.len() >= 64),
        )
        .map(|(name, tensors)| Notice::LongName { name, tensors }),
    );
    notices.extend(
        model
            .parts()
            .iter()
            .map(|part| part.alignment().get())
            .find(|alignment| !alignment.is_power_of_two())
            .map(|alignment| Notice::OddAlignment { alignment }),
    );
    notices.extend(model.parts().iter().filter_map(trailing_bytes));
    notices
}

/// Returns the names that occur more than once, with their counts.
fn repeated<'a>(names: impl Iterator<Item = RawStr<'a>>) -> Vec<(RawStr<'a>, usize)> {
    let mut names: Vec<RawStr<'a>> = names.collect();
    names.sort_unstable();
    names
        .chunk_by(|a, b| a == b)
        .filter(|same| same.len() > 1)
        .filter_map(|same| Some((*same.first()?, same.len())))
        .collect()
}

/// Returns the first of the names and their count.
fn first_and_count<'a>(mut names: impl Iterator<Item = RawStr<'a>>) -> Option<(RawStr<'a>, usize)> {
    let first = names.next()?;
    Some((first, 1 + names.count()))
}

/// Compares the offset of each tensor with the one that llama.cpp expects, which is not known after a
/// tensor of unknown type.
fn scattered<'a>(part: &'a Header<'a>) -> Option<Notice<'a>> {
    let mut expected = Some(part.data_offset());
    let misplaced = part.tensors().iter().filter(|tensor| {
        let here =
            expected.replace(tensor.offset()).is_some_and(|expected| expected != tensor.offset());
        expected = tensor
            .offset()
            .checked_add(tensor.size().unwrap_or(0))
            .and_then(|end| part.alignment().align(end))
            .filter(|_| tensor.size().is_some());
        here
    });
    let names: Vec<RawStr<'a>> = misplaced.map(|tensor| tensor.name()).collect();
    first_and_count(names.into_iter()).map(|(name, tensors)| Notice::Scattered { name, tensors })
}

fn trailing_bytes<'a>(part: &Header<'_>) -> Option<Notice<'a>> {
    let bytes = part.file_len()?.checked_sub(part.data_end()?).filter(|&bytes| bytes > 0)?;
    Some(Notice::TrailingBytes { file: file_name(part).map(Cow::into_owned), bytes })
}
