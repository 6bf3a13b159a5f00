//! Errors on their way to JavaScript.

use ggmill_core::{Error, Subject};

use crate::record::Record;

/// Why an operation failed.
#[derive(Debug)]
pub(crate) struct Failure(Record);

impl Failure {
    /// A failure of a kind, with a message.
    #[cold]
    pub(crate) fn new(kind: &str, message: impl std::fmt::Display) -> Self {
        Self::about(kind, message, None)
    }

    /// A failure that can be about a metadata key.
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

    /// A call that the package never makes.
    #[cold]
    pub(crate) fn misuse(message: &str) -> Self {
        Self::new("misuse", message)
    }

    pub(crate) fn into_record(self) -> Record {
        self.0
    }
}

/// Appends an error: its kind, its message, its place, its subject.
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
