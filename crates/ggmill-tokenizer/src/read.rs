//! Values of keys, with errors of this crate.

use ggmill_core::{Array, RawStr};

use crate::error::{Error, ErrorKind};

/// The value of a key that may be missing.
pub(crate) fn optional<T>(value: ggmill_core::Result<T>) -> Result<Option<T>, Error> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ggmill_core::ErrorKind::Missing => Ok(None),
        Err(error) => Err(foreign(&error)),
    }
}

/// The value of a key that must be there.
pub(crate) fn required<T>(value: ggmill_core::Result<T>) -> Result<T, Error> {
    value.map_err(|error| foreign(&error))
}

#[cold]
fn foreign(error: &ggmill_core::Error) -> Error {
    let kind = match error.kind() {
        ggmill_core::ErrorKind::Missing => ErrorKind::Missing,
        ggmill_core::ErrorKind::WrongType => ErrorKind::WrongType,
        ggmill_core::ErrorKind::Limit => ErrorKind::Limit,
        _ => ErrorKind::Malformed,
    };
    Error::new(kind, error.to_string())
}

/// The elements of an array of strings.
pub(crate) fn strings<'a>(
    key: &'static str,
    array: Array<'a>,
) -> Result<impl Iterator<Item = Result<&'a [u8], Error>> + use<'a>, Error> {
    let found = array.element_type();
    let strings = array.strings().ok_or_else(|| {
        Error::at(ErrorKind::WrongType, key, format!("is an array of {found}, expected strings"))
    })?;
    Ok(strings.map(|text| text.map(RawStr::as_bytes).map_err(|error| foreign(&error))))
}
