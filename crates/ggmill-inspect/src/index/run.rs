//! The whole of it: files are read in parallel, and their rows written in order.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use ggmill_core::Model;

use crate::index::candidate::Candidate;
use crate::index::error::{Error, Result};
use crate::index::in_order::in_order;
use crate::index::rows::FileRows;
use crate::index::tables::Tables;

/// Bytes of rows that wait to be written, at most, besides those of a file for each thread.
const WAITING: usize = 64 << 20;

/// How an index is made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexOptions {
    /// Files that are read at the same time.
    pub threads: NonZeroUsize,
}

impl Default for IndexOptions {
    /// One file at a time.
    fn default() -> Self {
        Self { threads: NonZeroUsize::MIN }
    }
}

impl IndexOptions {
    /// With so many files read at the same time.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }
}

/// What an index has, or has so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexOutcome {
    /// Rows of the table of files.
    pub files: u64,
    /// How many of them were taken from the earlier index.
    pub kept: u64,
    /// How many of them have an error.
    pub broken: u64,
    /// Rows of the table of tensors.
    pub tensors: u64,
    /// Rows of the table of metadata.
    pub entries: u64,
    /// Files that were not read because the work was broken off: they are not in the index.
    pub skipped: u64,
    /// The first of those that were read now and have an error, at most [`Fault::MOST`] of them.
    pub faults: Vec<Fault>,
}

/// A file that could not be read in full: its row has the reason, and what could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Its number among the files to be indexed, from 0.
    pub file: usize,
    /// The error in its row.
    pub reason: String,
}

impl Fault {
    /// How many an outcome lists at most.
    pub const MOST: usize = 3;
}

/// An index that could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// Why.
    pub error: Error,
    /// What it would have so far.
    pub outcome: IndexOutcome,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unfinished {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<Unfinished> for Error {
    fn from(unfinished: Unfinished) -> Self {
        unfinished.error
    }
}

/// What became of a file.
enum Item {
    Kept(usize),
    Read(FileRows),
    Skipped,
}

/// Opens the files with these numbers, several at a time, and writes their rows in order.
///
/// `open` gives what can be read of a file (of one shard of a set that shard alone, as
/// [`Model::salvage`] does), or why nothing can. Files that an earlier index has, with the same size
/// and time of modification and without an error, are not opened, as long as both are in the same
/// order.
///
/// `progress` is called after each file, and can break off: what is in the earlier index is kept
/// then, and no further file is opened. Fails when an output cannot be written.
pub fn index(
    files: &[Candidate],
    open: &(dyn Fn(usize) -> std::result::Result<Model, String> + Sync),
    tables: Tables<'_>,
    options: &IndexOptions,
    progress: &mut dyn FnMut(&Candidate, &IndexOutcome) -> ControlFlow<()>,
) -> Result<IndexOutcome, Unfinished> {
    let Tables { mut store, previous } = tables;
    let unchanged = previous.unchanged(files);
    drop(previous);
    let stopped = AtomicBool::new(false);
    let work = |number: usize| match (unchanged.get(number).copied().flatten(), files.get(number)) {
        (Some(number), _) => Item::Kept(number),
        (None, Some(file)) if !stopped.load(Ordering::Relaxed) => match open(number) {
            Ok(model) => Item::Read(FileRows::of(file, &model)),
            Err(reason) => Item::Read(FileRows::broken(file, &reason)),
        },
        _ => Item::Skipped,
    };
    let weigh = |item: &Item| match item {
        Item::Read(rows) => rows.weight(),
        _ => 0,
    };
    let mut outcome = IndexOutcome::default();
    let mut names = files.iter().enumerate();
    let mut take = |item: Item| {
        let name = names.next();
        let (tensors, entries) = match item {
            Item::Kept(number) => {
                outcome.kept += 1;
                store.keep(number)?
            }
            Item::Read(rows) => {
                if let (Some(reason), Some((file, _))) = (rows.error(), name) {
                    outcome.broken += 1;
                    if outcome.faults.len() < Fault::MOST {
                        outcome.faults.push(Fault { file, reason: reason.to_owned() });
                    }
                }
                let counts = (rows.tensors.len() as u64, rows.entries.len() as u64);
                store.write(rows)?;
                counts
            }
            Item::Skipped => {
                outcome.skipped += 1;
                return Ok(());
            }
        };
        outcome.files += 1;
        outcome.tensors = outcome.tensors.saturating_add(tensors);
        outcome.entries = outcome.entries.saturating_add(entries);
        if let Some((_, file)) = name
            && progress(file, &outcome).is_break()
        {
            stopped.store(true, Ordering::Relaxed);
        }
        Ok(())
    };
    let failed =
        in_order(
            files.len(),
            options.threads.get(),
            WAITING,
            &work,
            weigh,
            &mut |item| match take(item) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            },
        );
    match failed.map_or_else(|| store.finish(), Err) {
        Ok(()) => Ok(outcome),
        Err(error) => Err(Unfinished { error, outcome }),
    }
}
