//! Reading what is checked: the header of a file or of standard input, and the tensor data.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_check::{DataFacts, Input, Options, Report, check, check_files, examine, unreadable};
use ggmill_core::{Error, Model, Part, keys};
use ggmill_pipeline::RunOptions;

use crate::console::Console;
use crate::content::hint_for_content;
use crate::journal::warn_of_journal;
use crate::outcome::Failure;
use crate::paths::{file_name, shown};
use crate::progress::Bar;
use crate::remote::is_remote;
use crate::source::{open_failure, salvage};

/// Shards on a server that cannot be opened before no more of their set are asked for: how many
/// there are is what a name says.
const CLOSED: usize = 16;

/// The requirements that files are checked against.
pub(super) struct Criteria<'a> {
    pub(super) options: Options,
    pub(super) catalogue: &'a Catalogue,
}

/// The result of checking a file.
pub(super) enum CheckOutcome {
    /// It is GGUF, good or bad.
    Report {
        report: Report,
        /// Whether it has a chat template.
        has_template: bool,
        /// Whether it has tensor data that could have been read, and was not.
        is_data_unread: bool,
    },
    /// It is not.
    NotGguf {
        /// That, as a finding.
        report: Report,
        /// That, as an error.
        failure: Failure,
    },
}

/// An open file and what its tensor data hold.
struct Opened {
    path: PathBuf,
    name: String,
    model: Model,
    facts: DataFacts,
}

impl Opened {
    /// It was opened as one file.
    fn part(&self) -> Option<&Part> {
        self.model.parts().first()
    }

    fn input<'a>(&'a self, criteria: &Criteria<'a>) -> Option<Input<'a>> {
        Some(
            Input::new(self.part()?)
                .with_data(&self.facts)
                .named(&self.name)
                .with_catalogue(criteria.catalogue),
        )
    }
}

/// Checks the files of a model, in order, and of a set of which many cannot be opened the first of
/// them; `-` is standard input.
pub(super) fn check_model(
    files: &[PathBuf],
    criteria: &Criteria<'_>,
    data: bool,
    console: Console,
) -> Vec<Result<CheckOutcome, Failure>> {
    if let [path] = files
        && path.as_os_str() == "-"
    {
        return vec![check_input(criteria, data)];
    }
    // A file that cannot be opened does not keep the others from being checked.
    let (mut opened, mut outcomes) =
        (Vec::with_capacity(files.len()), Vec::with_capacity(files.len()));
    let mut closed = 0usize;
    for path in files {
        if closed >= CLOSED && is_remote(path) {
            let text = format!(
                "{}: this shard and later ones were not requested, because {closed} others cannot \
                 be opened",
                shown(path)
            );
            outcomes.push(Some(Err(Failure::new(text))));
            break;
        }
        match open(path, &criteria.options, data, console) {
            Ok(Ok(file)) => {
                if opened.len() >= ggmill_io::MAX_OPEN_FILES {
                    ggmill_io::close_idle(&file.model);
                }
                opened.push(file);
                outcomes.push(None);
            }
            Ok(Err(outcome)) => outcomes.push(Some(Ok(outcome))),
            Err(failure) => {
                closed = closed.saturating_add(1);
                outcomes.push(Some(Err(failure)));
            }
        }
    }
    let about =
        |file: &Opened| (has_template(&file.model), !data && !file.model.tensors().is_empty());
    let about: Vec<_> = opened.iter().map(about).collect();
    let mut reports = examined(&opened, criteria).into_iter().zip(about);
    outcomes
        .into_iter()
        .filter_map(|outcome| {
            outcome.or_else(|| {
                let (report, (has_template, is_data_unread)) = reports.next()?;
                Some(Ok(CheckOutcome::Report { report, has_template, is_data_unread }))
            })
        })
        .collect()
}

fn open(
    path: &Path,
    options: &Options,
    data: bool,
    console: Console,
) -> Result<Result<Opened, CheckOutcome>, Failure> {
    warn_of_journal(path, console);
    let refused = |error: &Error, beginning: &[u8]| not_gguf(error, path, beginning, options);
    let model = match salvage(path, refused)? {
        Ok(model) => model,
        Err(outcome) => return Ok(Err(outcome)),
    };
    let facts = match model.parts().first().filter(|_| data) {
        Some(part) => examined_data(part, console)?,
        None => DataFacts::default(),
    };
    Ok(Ok(Opened { path: path.to_owned(), name: file_name(path), model, facts }))
}

/// Applies the rules to files: as one model if they are all shards of a set, else each by itself.
fn examined(files: &[Opened], criteria: &Criteria<'_>) -> Vec<Report> {
    let inputs: Vec<Input<'_>> = files.iter().filter_map(|opened| opened.input(criteria)).collect();
    let models: Vec<&Model> = files.iter().map(|opened| &opened.model).collect();
    let whole = || open_failure(&files.first()?.path);
    check_files(&inputs, ggmill_io::set_fault(&models, whole).as_deref(), &criteria.options)
}

fn not_gguf(error: &Error, path: &Path, beginning: &[u8], options: &Options) -> CheckOutcome {
    let name = file_name(path);
    let failure = Failure::new(format_args!("{}: cannot be read as GGUF: {error}", shown(path)));
    CheckOutcome::NotGguf {
        report: unreadable(error, options),
        failure: failure.with_hint(hint_for_content(error, beginning, Some(&name))),
    }
}

/// Checks what comes in by a pipe: the header is kept, the rest is counted, so that data beyond the
/// end are found.
fn check_input(criteria: &Criteria<'_>, data: bool) -> Result<CheckOutcome, Failure> {
    if data {
        return Err(Failure::new("standard input: the tensor data cannot be examined")
            .with_hint(Some("--data requires files".to_owned())));
    }
    let read = ggmill_io::salvage_stream(io::stdin().lock())
        .map_err(|error| Failure::new(format_args!("standard input: {error}")))?;
    match &read.model {
        Ok(model) => {
            let part =
                model.parts().first().ok_or_else(|| Failure::new("the model has no files"))?;
            let input = Input::new(part).with_catalogue(criteria.catalogue);
            Ok(CheckOutcome::Report {
                report: check(&input, &criteria.options),
                has_template: has_template(model),
                // It went by.
                is_data_unread: false,
            })
        }
        Err(error) => {
            Ok(not_gguf(error, Path::new("standard input"), &read.beginning, &criteria.options))
        }
    }
}

fn has_template(model: &Model) -> bool {
    model.metadata().get(keys::TOKENIZER_CHAT_TEMPLATE).is_some()
}

/// Reads all tensor data of a file once.
fn examined_data(part: &Part, console: Console) -> Result<DataFacts, Failure> {
    let mut bar = Bar::new(console);
    examine(part, &RunOptions::default(), &mut |progress| {
        bar.update(progress.written, progress.total, progress.tensor);
        ControlFlow::Continue(())
    })
    .map_err(Failure::new)
}
