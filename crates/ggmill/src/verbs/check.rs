//! `check`: checks the files of a model, and proposes fixes.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue};
use ggmill_check::{
    DataFacts, Fix, Input, Options, Profile, ProposedFix, Report, Selector, check_files, examine,
    unreadable,
};
use ggmill_core::{Decoder, Entry, Header, Limits, Model, Split, Value, keys};
use ggmill_run::{Probe, RecordedLogits};

use super::repository::RepositoryTemplate;
use super::running::probe_with;
use crate::error::Kind;
use crate::find::{file_name, sibling_shards};
use crate::open::refuse_interrupted;
use crate::paths::is_remote;
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Hint, Note, OpenOptions, Result, content, read_architectures};

/// The number of remote shards that may fail to open before the rest of the set is skipped: a file name
/// can claim any number of shards.
const MAX_UNOPENED: usize = 16;

/// Checks the files of a model: one file, or the existing shards of a set, which any shard names. `-`
/// is standard input, of which only the header is kept.
///
/// ```no_run
/// let checked = ggmill::check("model.gguf")?.data(true).run()?;
/// for file in checked.files() {
///     let report = file.report().expect("a readable file");
///     println!("{}: {} findings", file.path().display(), report.diagnostics().len());
/// }
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn check<'a>(path: impl AsRef<Path>) -> Result<Check<'a>> {
    let path = path.as_ref();
    let is_stream = path.as_os_str() == "-";
    let files = if is_stream { vec![path.to_owned()] } else { sibling_shards(path) };
    Ok(Check {
        files,
        is_stream,
        call: Call::default(),
        options: Options::default(),
        catalogue: Catalogue::new(),
        open: OpenOptions::new(),
        data: false,
        run: None,
        repository: None,
    })
}

/// The options of [`check()`].
#[derive(Debug)]
pub struct Check<'a> {
    files: Vec<PathBuf>,
    is_stream: bool,
    call: Call<'a>,
    options: Options,
    catalogue: Catalogue,
    open: OpenOptions,
    data: bool,
    /// If set, the model is run, and its outputs are compared with the recorded logits, if any.
    #[expect(clippy::option_option, reason = "the logits of a run are optional")]
    run: Option<Option<&'a RecordedLogits>>,
    repository: Option<RepositoryTemplate>,
}

impl<'a> Check<'a> {
    call_options!();

    /// Sets the chat template with which that of the model is compared: see
    /// [`repository_templates`](crate::repository_templates).
    #[must_use]
    pub fn repository_template(mut self, template: Option<RepositoryTemplate>) -> Self {
        self.repository = template;
        self
    }

    /// Sets the rules to apply.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.options = self.options.with_profile(profile);
        self
    }

    /// Applies only these rules.
    #[must_use]
    pub fn select(mut self, rules: impl IntoIterator<Item = Selector>) -> Self {
        self.options = self.options.with_select(rules.into_iter().collect());
        self
    }

    /// Skips these rules.
    #[must_use]
    pub fn ignore(mut self, rules: impl IntoIterator<Item = Selector>) -> Self {
        self.options = self.options.with_ignore(rules.into_iter().collect());
        self
    }

    /// Sets the maximum number of findings per rule; further ones are only counted.
    #[must_use]
    pub fn findings_per_rule(mut self, count: usize) -> Self {
        self.options = self.options.with_findings_per_rule(count);
        self
    }

    /// Also reads the tensor data.
    #[must_use]
    pub fn data(mut self, data: bool) -> Self {
        self.data = data;
        self
    }

    /// Also runs the model over a few tokens: those of recorded logits, with which its outputs are
    /// compared, or generated ones.
    #[must_use]
    pub fn run_model(mut self, recorded: Option<&'a RecordedLogits>) -> Self {
        self.run = Some(recorded);
        self
    }

    /// Reads descriptions of architectures, in addition to the built-in ones.
    pub fn architectures(mut self, paths: &[PathBuf]) -> Result<Self> {
        let read: Vec<Architecture> = read_architectures(paths)?;
        self.catalogue = read.into_iter().fold(self.catalogue, Catalogue::with);
        Ok(self)
    }

    /// Sets the known architectures.
    #[must_use]
    pub fn catalogue(mut self, catalogue: Catalogue) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// Sets how addresses are opened.
    #[must_use]
    pub fn open_with(mut self, options: OpenOptions) -> Self {
        self.open = options;
        self
    }

    /// Checks the files, and continues after one that cannot be opened.
    pub fn run(mut self) -> Result<Checked> {
        let files = if self.is_stream { vec![self.check_stream()] } else { self.check_files() };
        // An error of opening the first file is reported already.
        let first = files.first().filter(|file| file.error.is_none());
        let probe = match (self.run, first) {
            (Some(recorded), Some(first)) => {
                let path = first.path.clone();
                Some(self.probe(&path, recorded))
            }
            _ => None,
        };
        Ok(Checked { files, probe, notes: self.call.notes })
    }

    /// Returns the fixes of the findings in each file, and changes nothing.
    pub fn proposals(mut self) -> Vec<Result<Proposal>> {
        if self.is_stream {
            return vec![Err(Error::misuse("standard input cannot be fixed"))];
        }
        self.options = self.options.with_findings_per_rule(usize::MAX);
        self.data = false;
        // A proposal has no notes.
        self.call = Call::default();
        let proposal = |file: FileCheck| {
            refuse_interrupted(&[&file.path])?;
            match (file.error, file.report) {
                (None, Some(report)) => Proposal::new(file.path, &report),
                (Some(error), _) => Err(error),
                (None, None) => Err(Error::misuse("the file was not checked").at(&file.path)),
            }
        };
        self.check_files().into_iter().map(proposal).collect()
    }

    fn probe(&mut self, path: &Path, recorded: Option<&RecordedLogits>) -> Result<Probe> {
        let model = self.open.open(path).map_err(|error| {
            let is_for_headers = matches!(error.hint(), Some(Hint::OpenAlone | Hint::ReadAsStream));
            if is_for_headers { error.replace_hint(None) } else { error }
        })?;
        probe_with(&model, recorded, &self.catalogue, &mut self.call)
    }

    fn check_files(&mut self) -> Vec<FileCheck> {
        let (mut opened, mut files) = (Vec::new(), Vec::with_capacity(self.files.len()));
        let mut unopened = 0usize;
        for path in std::mem::take(&mut self.files) {
            if unopened >= MAX_UNOPENED && is_remote(&path) {
                let message = format_args!(
                    "this shard and later ones were not requested, because {unopened} others \
                     cannot be opened"
                );
                let error = Error::new(Kind::Io, "not_requested", message).at(&path);
                files.push(FileCheck::failed(path, error));
                break;
            }
            match self.open_file(&path) {
                Ok(file) => {
                    if opened.len() >= ggmill_io::MAX_OPEN_FILES {
                        ggmill_io::close_idle(&file.model);
                    }
                    let mut checked = FileCheck::new(path);
                    checked.has_template =
                        file.model.metadata().get(keys::TOKENIZER_CHAT_TEMPLATE).is_some();
                    checked.is_data_unread = !self.data && !file.model.tensors().is_empty();
                    files.push(checked);
                    opened.push(file);
                }
                Err(NotOpened::NotGguf(file)) => files.push(*file),
                Err(NotOpened::Failed(error)) => {
                    unopened = unopened.saturating_add(1);
                    files.push(FileCheck::failed(path, error));
                }
            }
        }
        let mut reports = self.apply_rules(&opened).into_iter();
        for file in files.iter_mut().filter(|file| file.error.is_none()) {
            file.report = reports.next();
        }
        files
    }

    fn open_file(&mut self, path: &Path) -> Result<Opened, NotOpened> {
        if self.options.profile == Profile::Threat {
            refuse_interrupted(&[path]).map_err(NotOpened::Failed)?;
        } else if let Some(note) = Note::interrupted(path) {
            self.call.note(note);
        }
        let not_gguf =
            |error: &_, beginning: &[u8]| not_gguf(error, beginning, path, &self.options);
        let model = self.open.open_damaged_or(path, not_gguf).map_err(NotOpened::Failed)?;
        let model = model.map_err(|file| NotOpened::NotGguf(Box::new(file)))?;
        let facts = match model.parts().first().filter(|_| self.data) {
            Some(part) => {
                let facts = self
                    .call
                    .with_report(Stage::Reading, |options, report| examine(part, options, report));
                facts.map_err(|error| NotOpened::Failed(error.into()))?
            }
            None => DataFacts::default(),
        };
        Ok(Opened { path: path.to_owned(), name: file_name(path), model, facts })
    }

    /// Applies the rules: to one model if the files are all shards of a set, otherwise to each file.
    fn apply_rules(&self, files: &[Opened]) -> Vec<Report> {
        let inputs = files.iter().filter_map(|file| file.input(&self.catalogue));
        let inputs: Vec<Input<'_>> = inputs
            .map(|input| match &self.repository {
                Some(RepositoryTemplate { name, text }) => {
                    input.with_repository_template(name, text)
                }
                None => input,
            })
            .collect();
        let models: Vec<&Model> = files.iter().map(|file| &file.model).collect();
        // Opening a set reads all headers again.
        let whole = || if is_set(files) { None } else { self.open.failure(&files.first()?.path) };
        check_files(&inputs, ggmill_io::set_fault(&models, whole).as_deref(), &self.options)
    }

    /// Checks standard input: keeps the header, and counts the remaining bytes, so that trailing data
    /// is found.
    fn check_stream(&mut self) -> FileCheck {
        let path = PathBuf::from("-");
        if self.data {
            let error = Error::misuse("standard input: the tensor data cannot be examined");
            return FileCheck::failed(path, error.with_hint(Hint::DataNeedsFiles));
        }
        let read = match ggmill_io::open_damaged_stream(io::stdin().lock()) {
            Ok(read) => read,
            Err(error) => {
                let message = format_args!("standard input: {error}");
                return FileCheck::failed(path, Error::new(Kind::Io, "io", message));
            }
        };
        let model = match read.model {
            Ok(model) => model,
            Err(error) => {
                let shown = Path::new("standard input");
                let file = not_gguf(&error, &read.beginning, shown, &self.options);
                return FileCheck { path, ..file };
            }
        };
        let mut file = FileCheck::new(path);
        file.has_template = model.metadata().get(keys::TOKENIZER_CHAT_TEMPLATE).is_some();
        let part = model.parts().first();
        file.report = part.map(|part| {
            let input = Input::new(part).with_catalogue(&self.catalogue);
            ggmill_check::check(&input, &self.options)
        });
        file
    }
}

/// Returns the result for a file that is not GGUF: a finding, and an error.
fn not_gguf(
    error: &ggmill_core::Error,
    beginning: &[u8],
    path: &Path,
    options: &Options,
) -> FileCheck {
    let name = file_name(path);
    let refusal = Error::malformed(format_args!("cannot be read as GGUF: {error}")).at(path);
    let refusal = refusal.with_hint(content::hint_for(error, beginning, Some(&name)));
    let mut file = FileCheck::failed(path.to_owned(), refusal);
    file.report = Some(unreadable(error, options));
    file
}

/// The reason why a file was not opened.
enum NotOpened {
    NotGguf(Box<FileCheck>),
    Failed(Error),
}

/// An open file, as a model of one file, with the facts about its tensor data.
struct Opened {
    path: PathBuf,
    name: String,
    model: Model,
    facts: DataFacts,
}

impl Opened {
    fn input<'a>(&'a self, catalogue: &'a Catalogue) -> Option<Input<'a>> {
        let part: &Header<'_> = self.model.parts().first()?;
        let input = Input::new(part).with_data(&self.facts).named(&self.name);
        Some(input.with_catalogue(catalogue))
    }
}

/// Returns `true` if the files are sound and are all shards of a set, in order.
fn is_set(files: &[Opened]) -> bool {
    let shard = |(place, file): (usize, &Opened)| {
        let part = file.model.parts().first()?;
        let split = Split::of(&part.metadata()).ok()??;
        if (split.number, split.count) != (place as u64, files.len() as u64) {
            return None;
        }
        let mut copy = Decoder::new(part.file_len(), &Limits::default());
        copy.feed(part.bytes()).and_then(|_| copy.finish()).ok().map(Model::from_header)
    };
    let shards: Option<Vec<Model>> = files.iter().enumerate().map(shard).collect();
    shards.is_some_and(|shards| Model::from_shards(shards).is_ok())
}

/// The findings about a model.
#[derive(Debug)]
pub struct Checked {
    files: Vec<FileCheck>,
    probe: Option<Result<Probe>>,
    notes: Vec<Note>,
}

impl Checked {
    /// Returns the files, in order. The last shards of a remote set are missing if many shards could
    /// not be opened.
    pub fn files(&self) -> &[FileCheck] {
        &self.files
    }

    /// Returns the files.
    pub fn into_files(self) -> Vec<FileCheck> {
        self.files
    }

    /// Takes the outputs of the model, or the error of running it; `None` without
    /// [`run_model`](Check::run_model), or if the first file could not be opened.
    pub fn take_probe(&mut self) -> Option<Result<Probe>> {
        self.probe.take()
    }

    /// Returns the facts worth knowing about the call.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// The findings about a file.
#[derive(Debug)]
pub struct FileCheck {
    path: PathBuf,
    report: Option<Report>,
    error: Option<Error>,
    has_template: bool,
    is_data_unread: bool,
}

impl FileCheck {
    fn new(path: PathBuf) -> Self {
        Self { path, report: None, error: None, has_template: false, is_data_unread: false }
    }

    fn failed(path: PathBuf, error: Error) -> Self {
        Self { error: Some(error), ..Self::new(path) }
    }

    /// Returns the path or address.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the findings; `None` for a file that could not be read. A file that is not GGUF has one
    /// finding, which says so.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Returns the error of a file that could not be read, or is not GGUF.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Returns the findings, and the error.
    pub fn into_parts(self) -> (Option<Report>, Option<Error>) {
        (self.report, self.error)
    }

    /// Returns `true` if the file has a chat template.
    pub fn has_template(&self) -> bool {
        self.has_template
    }

    /// Returns `true` if the file has tensor data that was not read, but could have been.
    pub fn is_data_unread(&self) -> bool {
        self.is_data_unread
    }
}

/// The fixes of the findings in a file.
#[derive(Debug)]
pub struct Proposal {
    path: PathBuf,
    fixes: Vec<ProposedFix>,
    before: Vec<Option<String>>,
}

impl Proposal {
    fn new(path: PathBuf, report: &Report) -> Result<Self> {
        let fixes = report.fixes();
        let mut before = Vec::with_capacity(fixes.len());
        if !fixes.is_empty() {
            let file = ggmill_io::open_alone(&path)?;
            for ProposedFix { fix, .. } in &fixes {
                let key = match fix {
                    Fix::Set { key, .. } | Fix::Unset { key } | Fix::Rename { from: key, .. } => {
                        key
                    }
                    _ => "",
                };
                before.push(file.metadata().get(key).map(|entry| brief(&entry)));
            }
        }
        Ok(Self { path, fixes, before })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the fixes.
    pub fn fixes(&self) -> &[ProposedFix] {
        &self.fixes
    }

    /// Returns for each fix the present value of the key that it changes, in a short form.
    pub fn before(&self) -> &[Option<String>] {
        &self.before
    }

    /// Returns the codes of the rules whose findings are fixed, one for each finding.
    pub fn codes(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.fixes.iter().flat_map(|proposed| proposed.codes.iter().copied())
    }

    /// Applies the fixes, in place where that is safe, and returns remarks.
    pub fn apply(&self) -> Result<Vec<String>> {
        let fixes = self.fixes.iter().map(|proposed| &proposed.fix);
        ggmill_edit::apply_fixes(&self.path, fixes, &mut |_| ControlFlow::Continue(()))
            .map_err(|error| Error::from(error).replace_hint(None))
    }
}

/// Returns a value on one line, shortened, with its type.
fn brief(entry: &Entry<'_>) -> String {
    const MAX_LEN: usize = 60;
    let Ok(value) = entry.value() else { return String::new() };
    match value {
        Value::Bool(_) if entry.value_bytes().first().is_some_and(|&byte| byte > 1) => {
            format!("byte {} (bool)", entry.value_bytes().first().copied().unwrap_or_default())
        }
        Value::Str(text) => {
            let shown = format!("{text:?}");
            let short: String = shown.chars().take(MAX_LEN).collect();
            if short.len() < shown.len() { format!("{short}…") } else { shown }
        }
        Value::Array(array) => format!("{}[{}]", array.element_type(), array.len()),
        Value::Bool(value) => format!("{value} (bool)"),
        Value::F32(value) => format!("{value} (f32)"),
        Value::F64(value) => format!("{value} (f64)"),
        other => other
            .as_i128()
            .map_or_else(String::new, |number| format!("{number} ({})", other.value_type())),
    }
}
