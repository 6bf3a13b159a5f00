//! What an earlier index says of its files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::index::candidate::Candidate;

/// A file of an earlier index whose rows can be taken from there.
#[derive(Debug)]
pub(crate) struct KnownFile {
    pub(crate) size: i64,
    /// The time of its modification as the index has it.
    pub(crate) modified: Modified,
    /// Its place among the files of the index.
    pub(crate) number: usize,
}

/// A time, as Parquet or as NDJSON has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Modified {
    #[cfg(feature = "parquet")]
    Microseconds(i64),
    Text(String),
}

impl Modified {
    fn is(&self, microseconds: i64) -> bool {
        match self {
            #[cfg(feature = "parquet")]
            Self::Microseconds(known) => *known == microseconds,
            Self::Text(known) => *known == crate::index::time::text(microseconds),
        }
    }
}

/// The files of an earlier index by their paths. Those that had an error are not among them, and of
/// those with the same path there is one.
#[derive(Debug, Default)]
pub(crate) struct Previous(HashMap<String, KnownFile>);

impl Previous {
    /// Makes a file known, unless there is one of its path; whether there was none.
    pub(crate) fn insert(&mut self, path: String, file: KnownFile) -> bool {
        match self.0.entry(path) {
            Entry::Occupied(_) => false,
            Entry::Vacant(new) => {
                new.insert(file);
                true
            }
        }
    }

    /// For each file, the number of its rows in the earlier index, where it is unchanged. Numbers
    /// ascend: a file that comes earlier here than there is not among them.
    pub(crate) fn unchanged(&self, files: &[Candidate]) -> Vec<Option<usize>> {
        let mut least = 0;
        let number = |file: &Candidate| {
            let known = self.0.get(&file.path)?;
            let is_same = known.size == i64::try_from(file.size?).ok()?
                && known.modified.is(file.modified?)
                && known.number >= least;
            if is_same {
                least = known.number.saturating_add(1);
            }
            is_same.then_some(known.number)
        };
        files.iter().map(number).collect()
    }
}
