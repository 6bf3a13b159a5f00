//! Errors as records for JavaScript.

use ggmill_core::{Error, Subject};

use crate::record::Record;

/// The error of an operation, as a record.
#[derive(Debug)]
pub(crate) struct Failure(Record);

impl Failure {
    /// Returns a failure of a kind, with a message.
    #[cold]
    pub(crate) fn new(kind: &str, message: impl std::fmt::Display) -> Self {
        Self::about(kind, message, None)
    }

    /// Returns a failure that can be about a metadata key.
    #[cold]
    pub(crate) fn about(kind: &str, message: impl std::fmt::Display, key: Option<&str>) -> Self {
        let mut record = Record::default();
        record.text(kind.as_bytes());
        record.text(message.to_string().as_bytes());
        record.u64(crate::record::NONE);
        record.u8(u8::from(key.is_some()));
        record.text(key.unwrap_or_default().as_bytes());
        Self(record)
    }

    /// Returns the failure of a call that the npm package never makes.
    #[cold]
    pub(crate) fn misuse(message: &str) -> Self {
        Self::new("misuse", message)
    }

    pub(crate) fn into_record(self) -> Record {
        self.0
    }
}

/// Appends an error to a record: its kind, message, offset and subject.
pub(crate) fn put(record: &mut Record, error: &Error) {
    record.text(error.kind().name().as_bytes());
    record.text(error.to_string().as_bytes());
    record.maybe(error.offset());
    let (kind, name) = match error.subject() {
        Some(Subject::Key(key)) => (1, key.as_bytes()),
        Some(Subject::Tensor(name)) => (2, name.as_bytes()),
        _ => (0, &[][..]),
    };
    record.u8(kind);
    record.text(name);
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let mut record = Record::default();
        put(&mut record, &error);
        Self(record)
    }
}
