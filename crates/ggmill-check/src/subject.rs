//! Subjects of findings.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use ggmill_core::{RawStr, Subject};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::report::shown;

/// The subject of a finding. Names are stored as they are in the file, and are arbitrary bytes.
///
/// [`Display`](fmt::Display) quotes and escapes the name, and cuts it after 120 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OwnedSubject {
    /// The file as a whole.
    File,
    /// The metadata entry with this key.
    Key(Arc<[u8]>),
    /// The tensor with this name.
    Tensor(Arc<[u8]>),
}

impl OwnedSubject {
    /// The maximum length of a name in a JSON document, in bytes: the maximum length of a key by the
    /// specification. Each finding repeats the name, and the reader permits longer ones.
    const MAX_NAME: usize = 65_535;

    /// Returns `file`, `key` or `tensor`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Key(_) => "key",
            Self::Tensor(_) => "tensor",
        }
    }

    /// Returns the key or the name of the tensor; `None` for the file as a whole.
    pub fn name(&self) -> Option<RawStr<'_>> {
        match self {
            Self::File => None,
            Self::Key(name) | Self::Tensor(name) => Some(RawStr::new(name)),
        }
    }

    /// Returns the name for a JSON document: unescaped, with U+FFFD for each invalid sequence, and cut
    /// only if it is longer than any valid name.
    pub fn json_name(&self) -> Option<String> {
        let name = self.name()?;
        let start = name.as_bytes().get(..Self::MAX_NAME).unwrap_or(name.as_bytes());
        let mut text = RawStr::new(start).to_string_lossy().into_owned();
        if start.len() < name.len() {
            text.push('…');
        }
        Some(text)
    }
}

impl fmt::Display for OwnedSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} {}", self.kind(), shown(name)),
            None => f.write_str(self.kind()),
        }
    }
}

impl Serialize for OwnedSubject {
    /// Serializes the kind and the name: `{"kind": "key", "name": "general.name"}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut subject = serializer.serialize_struct("Subject", 2)?;
        subject.serialize_field("kind", self.kind())?;
        subject.serialize_field("name", &self.json_name())?;
        subject.end()
    }
}

/// Names of subjects, each stored once: a file can repeat a long name in many findings.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<Arc<[u8]>>);

impl Names {
    /// Returns the subject with a shared copy of its name.
    pub(crate) fn owned(&mut self, subject: Option<Subject<'_>>) -> OwnedSubject {
        match subject {
            Some(Subject::Key(key)) => OwnedSubject::Key(self.shared(key)),
            Some(Subject::Tensor(name)) => OwnedSubject::Tensor(self.shared(name)),
            _ => OwnedSubject::File,
        }
    }

    fn shared(&mut self, name: RawStr<'_>) -> Arc<[u8]> {
        if let Some(known) = self.0.get(name.as_bytes()) {
            return Arc::clone(known);
        }
        let name: Arc<[u8]> = name.as_bytes().into();
        self.0.insert(Arc::clone(&name));
        name
    }
}
