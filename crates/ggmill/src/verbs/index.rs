//! `index`: writes tables of the files, tensors and metadata of many models.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::UNIX_EPOCH;

use ggmill_core::{RawStr, ReadAt, Sink as _};
use ggmill_inspect::index::{Candidate, IndexOptions, IndexOutcome, Tables};
use ggmill_io::{FileSink, RandomAccess, commit_all};

use crate::error::Kind;
use crate::find::{none_found, refuse_missing, walk};
use crate::open::refuse_interrupted;
use crate::output::start;
use crate::paths::{address, is_remote};
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Hint, Note, OpenOptions, Progress, Result, display_path, is_gguf_name};

/// The number of remote files that are read in parallel.
const REMOTE_THREADS: usize = 8;

/// Words a hint for the tables.
type WordHint<'a> = Box<dyn Fn(&Hint) -> Option<String> + Send + Sync + 'a>;

/// Writes tables of the files, tensors and metadata of many models. The paths are files, directories
/// and, with the feature `remote`, addresses and repositories; in directories and repositories, the
/// GGUF files are indexed. Only headers are read.
///
/// A file that cannot be read has a row with the error. If a progress callback cancels the call, the
/// index contains the files that were read before.
///
/// ```no_run
/// let made = ggmill::index(&["models/".into()])?.resume(true).write("models.ndjson")?;
/// println!("{} tensors", made.tensors);
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn index<'a>(paths: &[PathBuf]) -> Result<Index<'a>> {
    Ok(Index {
        paths: paths.to_vec(),
        open: OpenOptions::new(),
        resume: false,
        word_hint: Box::new(|hint| Some(hint.to_string())),
        call: Call::default(),
    })
}

/// The options of [`index()`]. `threads` is the number of files that are read in parallel: by default
/// one per core, and at least 8 if some are remote.
pub struct Index<'a> {
    paths: Vec<PathBuf>,
    open: OpenOptions,
    resume: bool,
    word_hint: WordHint<'a>,
    call: Call<'a>,
}

impl fmt::Debug for Index<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl<'a> Index<'a> {
    call_options!(overwrite);

    /// Updates an existing index: reads only files that are new, or whose size or modification time
    /// has changed, and files that could not be read before; drops files that no longer exist.
    #[must_use]
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Sets how addresses are opened.
    #[must_use]
    pub fn open_with(mut self, options: OpenOptions) -> Self {
        self.open = options;
        self
    }

    /// Sets the wording of hints in the tables. The default is the [`Display`](fmt::Display) of the
    /// hints; `None` omits a hint.
    #[must_use]
    pub fn word_hints(mut self, word: impl Fn(&Hint) -> Option<String> + Send + Sync + 'a) -> Self {
        self.word_hint = Box::new(word);
        self
    }

    /// Writes the index: NDJSON for a name that ends in `.ndjson` or `.jsonl`. With the feature
    /// `parquet`, `NAME.parquet` has a row for each file, `NAME.tensors.parquet` for each tensor and
    /// `NAME.metadata.parquet` for each metadata entry; `NAME.ndjson.sz` is for
    /// [`resume`](Self::resume).
    pub fn write(self, out: impl AsRef<Path>) -> Result<IndexOutcome> {
        let out = out.as_ref();
        match out.extension().and_then(|extension| extension.to_str()) {
            Some("ndjson" | "jsonl") => {
                let mut sinks = self.start([out])?;
                let earlier = self.earlier(out)?;
                let [sink] = &mut sinks;
                let outcome = self.fill(Tables::ndjson(sink, earlier)?)?;
                commit(sinks)?;
                Ok(outcome)
            }
            #[cfg(feature = "parquet")]
            Some("parquet") => {
                let [tensors, metadata, state] =
                    ["tensors.parquet", "metadata.parquet", "ndjson.sz"]
                        .map(|extension| out.with_extension(extension));
                let mut sinks = self.start([out, &tensors, &metadata, &state])?;
                let earlier = self.earlier(&state)?;
                let [files, tensors, metadata, state] = sinks.each_mut();
                let tables = Tables::parquet([files, tensors, metadata], state, earlier)?;
                let outcome = self.fill(tables)?;
                commit(sinks)?;
                Ok(outcome)
            }
            #[cfg(not(feature = "parquet"))]
            Some("parquet") => {
                let message = "this program was built without `parquet`";
                let error = Error::new(Kind::Unsupported, "unsupported", message).at(out);
                Err(error.with_hint(Hint::Ndjson))
            }
            _ => {
                let message = "expected a name that ends in .parquet, .ndjson or .jsonl";
                Err(Error::misuse(message).at(out))
            }
        }
    }

    /// Writes a new index as NDJSON.
    pub fn write_ndjson(self, out: impl Write) -> Result<IndexOutcome> {
        self.fill(Tables::ndjson(out, None)?)
    }

    /// Starts the outputs. An update replaces existing ones.
    fn start<const N: usize>(&self, outputs: [&Path; N]) -> Result<[Output; N]> {
        let exists = outputs.map(Path::exists);
        let is_update = self.resume && exists.contains(&true);
        if is_update
            && let Some((missing, _)) = outputs.iter().zip(exists).find(|(_, exists)| !exists)
        {
            let message = "missing, so the index cannot be updated";
            let error = Error::new(Kind::NotFound, "index", message).at(missing);
            return Err(error.with_hint(Hint::NewIndex));
        }
        let inputs: Vec<PathBuf> =
            self.paths.iter().filter(|input| !is_remote(input)).cloned().collect();
        let overwrite = self.call.overwrite || is_update;
        let mut sinks = Vec::with_capacity(N);
        for output in outputs {
            let sink = start(output, &inputs, overwrite, 0).map_err(|error| {
                if error.is_already_exists() {
                    error.replace_hint(Hint::UpdateOrOverwrite)
                } else {
                    error
                }
            })?;
            sinks.push(Output(sink));
        }
        sinks.try_into().map_err(|_| Error::misuse("expected an output for each table"))
    }

    /// Opens the file from which the index is updated, if it exists.
    fn earlier(&self, state: &Path) -> Result<Option<Arc<dyn ReadAt>>> {
        if !self.resume || !state.exists() {
            return Ok(None);
        }
        let file: Arc<dyn ReadAt> = Arc::new(RandomAccess::open(state)?);
        Ok(Some(file))
    }

    fn fill(self, tables: Tables<'_>) -> Result<IndexOutcome> {
        let inputs = inputs(&self.paths, &self.open)?;
        let Self { open, word_hint, mut call, .. } = self;
        let candidates: Vec<_> = inputs.iter().map(|input| input.candidate.clone()).collect();
        let total = candidates.len() as u64;
        let options = IndexOptions::default().with_threads(threads(&inputs, call.threads));
        let read = |number: usize| match inputs.get(number) {
            Some(input) => input.open(&open, &word_hint),
            None => Err("not one of the files".to_owned()),
        };
        let on_progress = &mut call.on_progress;
        let mut report = |file: &Candidate, outcome: &IndexOutcome| {
            let (done, tensor) = (outcome.files, &*file.path);
            let progress = Progress { stage: Stage::Indexing, done, total, tensor, number: None };
            on_progress.as_mut().map_or(ControlFlow::Continue(()), |report| report(&progress))
        };
        let result =
            ggmill_inspect::index::index(&candidates, &read, tables, &options, &mut report);
        // Reported even if the index cannot be written.
        let outcome = result.as_ref().unwrap_or_else(|unfinished| &unfinished.outcome);
        for fault in &outcome.faults {
            if let Some(input) = inputs.get(fault.file) {
                call.note(Note::Unreadable(input.path.clone(), fault.reason.clone()));
            }
        }
        Ok(result.map_err(|unfinished| unfinished.error)?)
    }
}

fn threads(inputs: &[Input], threads: Option<usize>) -> NonZeroUsize {
    if let Some(threads) = threads.and_then(NonZeroUsize::new) {
        return threads;
    }
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let has_remote = inputs.iter().any(|input| is_remote(&input.path));
    let least = NonZeroUsize::new(REMOTE_THREADS).unwrap_or(cores);
    if has_remote { cores.max(least) } else { cores }
}

/// Commits the outputs, the table of files last.
fn commit<const N: usize>(sinks: [Output; N]) -> Result<()> {
    Ok(commit_all(sinks.into_iter().rev().map(|Output(sink)| sink).collect())?)
}

struct Output(FileSink);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file of an index.
struct Input {
    path: PathBuf,
    candidate: Candidate,
    /// The error of a directory that cannot be read.
    fault: Option<String>,
}

/// Finds the files to index, sorted by path and without duplicates. Directories that cannot be read are
/// included.
fn inputs(paths: &[PathBuf], open: &OpenOptions) -> Result<Vec<Input>> {
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for path in paths {
        let before = files.len() + unreadable.len();
        if is_remote(path) {
            files.extend(open.gguf_files(path)?);
        } else {
            add_local(path, &mut files, &mut unreadable)?;
        }
        if files.len() + unreadable.len() == before {
            return Err(none_found(".gguf files", path));
        }
    }
    let unreadable = unreadable.into_iter().map(|(path, error): (PathBuf, io::Error)| Input {
        candidate: Candidate::new(name_of(&path)),
        path,
        fault: Some(error.to_string()),
    });
    let files =
        files.into_iter().map(|path| Input { candidate: candidate(&path), path, fault: None });
    let mut inputs: Vec<Input> = files.chain(unreadable).collect();
    inputs.sort_by(|a, b| (&a.candidate.path, &a.path).cmp(&(&b.candidate.path, &b.path)));
    inputs.dedup_by(|a, b| a.path == b.path);
    Ok(inputs)
}

fn add_local(
    path: &Path,
    files: &mut Vec<PathBuf>,
    unreadable: &mut Vec<(PathBuf, io::Error)>,
) -> Result<()> {
    if path.as_os_str() == "-" {
        return Err(Error::misuse("standard input cannot be indexed").at(path));
    }
    // A path in the arguments must exist. A file in a directory can vanish; it gets a row with an error.
    refuse_missing(path)?;
    let metadata = fs::metadata(path).map_err(|error| Error::from(error).at(path))?;
    if metadata.is_dir() {
        fs::read_dir(path).map_err(|error| Error::from(error).at(path))?;
    }
    walk(path, &is_gguf_name, files, unreadable);
    Ok(())
}

fn candidate(path: &Path) -> Candidate {
    let candidate = Candidate::new(name_of(path));
    // Two names that are not UTF-8 can have the same escaped text.
    let is_local = path.to_str().is_some() && !is_remote(path);
    let Some(metadata) = is_local.then(|| fs::metadata(path).ok()).flatten() else {
        return candidate;
    };
    let microseconds =
        metadata.modified().ok().and_then(|time| match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).ok(),
            Err(before) => i64::try_from(before.duration().as_micros()).ok().map(|time| -time),
        });
    candidate.with_state(Some(metadata.len()), microseconds)
}

/// Returns the text of a path in the tables: an address has no secrets, and bytes that are not UTF-8
/// are escaped.
fn name_of(path: &Path) -> String {
    address(path).unwrap_or_else(|| match path.to_str() {
        Some(text) => text.to_owned(),
        None => RawStr::new(path.as_os_str().as_encoded_bytes()).to_string(),
    })
}

impl Input {
    /// Opens the readable part of the file, or returns the error.
    fn open(
        &self,
        options: &OpenOptions,
        word_hint: &WordHint<'_>,
    ) -> Result<ggmill_core::Model, String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let opened = refuse_interrupted(std::slice::from_ref(&self.path))
            .and_then(|()| options.open_damaged_core(&self.path));
        opened.map_err(|error| {
            // The path has its own column.
            let message = error.to_string();
            let prefix = format!("{}: ", display_path(&self.path));
            let message = message.strip_prefix(&prefix).unwrap_or(&message);
            match error.hint().and_then(word_hint) {
                Some(hint) => format!("{message}; {hint}"),
                None => message.to_owned(),
            }
        })
    }
}
