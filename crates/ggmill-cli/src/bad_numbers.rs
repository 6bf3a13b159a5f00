//! Values of options that are not numbers, in words for people.

use std::error::Error as _;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error about a value of an option; where that was to be a number, it says so in words, and not
/// in those of the standard library.
pub(crate) fn in_words(error: clap::Error, command: &clap::Command) -> clap::Error {
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(given)) => given.as_str(),
        _ => "",
    };
    let (ErrorKind::ValueValidation, Some(source)) = (error.kind(), error.source()) else {
        return error;
    };
    let why = match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "the number is out of range",
        Some(_) => "expected an integer",
        None if source.is::<ParseFloatError>() => "expected a number",
        None => return error,
    };
    let (value, option) = (given(ContextKind::InvalidValue), given(ContextKind::InvalidArg));
    let message = format!(
        "invalid value '{value}' for '{option}': {why}\n\nFor more information, try '--help'.\n"
    );
    clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
}
