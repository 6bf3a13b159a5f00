//! `ggmill check`: reports problems in GGUF files, and fixes them.

use std::io::{self, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ggmill::{Check, Proposal};
use ggmill_arch::Catalogue;
use ggmill_check::{Fix, Profile, ProposedFix, Report, Selector, Verdict, render};
use ggmill_core::RawStr;
use ggmill_run::Probe;
use ggmill_run::json::probe_result;

use crate::console::{Console, counted};
use crate::files::{shown, text_of};
use crate::model_output::probe_text;
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};
use crate::remote;

/// Report problems in GGUF files, with reasons and fixes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill check model.gguf
  ggmill check model.gguf --data --profile run
  ggmill check models/ --select structure,GG13 --format json
  ggmill check model.gguf --arch-file mine.toml
  ggmill check model.gguf --profile ggml --format github
  ggmill check model.gguf --run=logits.gguf
  ggmill check model.gguf --diff
  ggmill check model.gguf --fix
  ggmill check model.gguf --profile threat --quiet

The default profile does not render chat templates or test the tokenizer; --profile run does. \
Rules about file names (GG18) are checked with --profile spec, --select naming or --select all.

--fix changes what can be fixed without losing information: missing and misspelled keys, keys \
with the wrong integer type, duplicate keys, padding, and the order and alignment of tensors. A file with \
trailing data, or with nonzero bytes in a gap between tensors, is not rewritten. Keys that many \
published files lack (file type, size label, alignment) are added only with --profile spec or \
--select. When the first key is added, space \
is reserved for later edits (ggmill.padding). Remaining findings are reported. --diff shows the \
changes.

--profile threat applies the rules that recognize files able to trigger a published flaw of a program, and \
renders chat templates to find hidden instructions; `ggmill explain RULE` lists the advisories. A \
file with a finding, also a warning, is not safe, and the exit code is 1. With --quiet, or with --format verdict, the \
result is one JSON object: whether the files are safe, and the reasons why not.

Exit codes: 0 no errors, 1 errors found (a truncated GGUF file has some), 2 the command failed, \
for example because a file is empty or not GGUF. With --diff: 0 no changes, 1 changes.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[expect(clippy::option_option, reason = "an option that may have a value")]
pub(crate) struct Args {
    /// Files, or directories to search recursively for .gguf files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also read the tensor data: find NaN, infinite values, bad scales and all-zero tensors
    #[arg(long)]
    data: bool,
    /// Also run a few tokens: find outputs that are not finite or not plausible, or compare them
    /// with logits that another program recorded in a GGUF file
    #[arg(
        long,
        value_name = "LOGITS.gguf",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["diff", "fix"]
    )]
    run: Option<Option<PathBuf>>,
    /// The output format: text by default
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Rules to apply. spec: the specification to the letter; ggml: the requirements of llama.cpp;
    /// all: both of these and recommended practice, except rules that many published files violate;
    /// run: the same as all, plus rendering chat templates (GG22) and testing the tokenizer (GG23);
    /// threat: the rules about published flaws of programs
    #[arg(long, value_parser = profiles(), default_value = Profile::All.name())]
    profile: Profile,
    /// Apply only these rules: codes, prefixes of codes, groups, or all (with the default profile:
    /// every rule)
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    select: Vec<Selector>,
    /// Skip these rules: codes, prefixes of codes, or groups
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    ignore: Vec<Selector>,
    /// An architecture description (TOML), or a directory of them, to use in addition to the
    /// built-in ones (repeatable)
    #[arg(long, value_name = "PATH")]
    arch_file: Vec<PathBuf>,
    /// Maximum number of findings shown per rule; further ones are only counted
    #[arg(long, alias = "most", value_name = "N", default_value_t = 20)]
    max_per_rule: usize,
    /// Fix what can be fixed safely, and report the rest
    #[arg(long, conflicts_with = "diff")]
    fix: bool,
    /// Show what --fix would change, and change nothing
    #[arg(long, conflicts_with = "format")]
    diff: bool,
    /// Exit with 0 even if there are errors
    #[arg(long)]
    exit_zero: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Sarif,
    Github,
    /// Only the verdict, as JSON (needs --profile threat)
    Verdict,
}

impl Args {
    fn format(&self, console: Console) -> Format {
        let quiet = console.is_quiet() && self.profile == Profile::Threat;
        self.format.unwrap_or(if quiet { Format::Verdict } else { Format::Text })
    }
}

/// Returns the parser for the names of profiles.
fn profiles() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(Profile::ALL.map(|profile| PossibleValue::new(profile.name())))
        .try_map(|name| name.parse::<Profile>())
}

/// A file that was checked.
struct CheckedFile {
    path: String,
    report: Report,
    readable: bool,
    /// The result of running the model, for the first of its files.
    run: Option<render::Run>,
}

impl CheckedFile {
    fn to_render(&self) -> render::Checked<'_> {
        render::Checked::new(&self.path, &self.report).with_run(self.run.as_ref())
    }

    /// Returns `true` if the file has errors, or running the model found faults.
    fn has_errors(&self, profile: Profile) -> bool {
        let has_threats = profile == Profile::Threat && !self.report.is_clean();
        has_threats
            || self.report.has_errors()
            || self.run.as_ref().is_some_and(|run| !run.faults.is_empty())
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    if matches!(args.format, Some(Format::Verdict)) && args.profile != Profile::Threat {
        return Err(Failure::new("--format verdict needs --profile threat"));
    }
    let catalogue = ggmill::catalogue(&args.arch_file)?;
    let mut failures = Vec::new();
    let (models, errors) = ggmill::find_models(&args.files);
    failures.extend(errors.into_iter().map(Failure::from));
    let status = if args.diff {
        diff(args, &models, &catalogue, &mut failures, console)?
    } else {
        report(args, &models, &catalogue, &mut failures, console)?
    };
    match failures.pop() {
        None => Ok(if args.exit_zero { Status::Fine } else { status }),
        Some(last) => {
            for failure in &failures {
                console.error(failure);
            }
            Err(last)
        }
    }
}

/// Returns the check of a model with the options of the arguments; `None` without files.
fn builder<'a>(
    args: &Args,
    files: &[PathBuf],
    catalogue: &Catalogue,
) -> Result<Option<Check<'a>>, Failure> {
    let Some(path) = files.first() else { return Ok(None) };
    let builder = ggmill::check(path)?
        .profile(args.profile)
        .select(args.select.iter().cloned())
        .ignore(args.ignore.iter().cloned())
        .findings_per_rule(args.max_per_rule)
        .catalogue(catalogue.clone())
        .open_with(remote::options(path)?);
    Ok(Some(builder))
}

/// Returns the fixes for each file of a model. Fails if the address of the model cannot be opened with
/// the settings of the environment.
fn proposals(
    args: &Args,
    files: &[PathBuf],
    catalogue: &Catalogue,
) -> Result<Vec<Result<Proposal, ggmill::Error>>, Failure> {
    Ok(builder(args, files, catalogue)?.map_or_else(Vec::new, Check::proposals))
}

/// Prints the changes that `--fix` would make.
fn diff(
    args: &Args,
    models: &[Vec<PathBuf>],
    catalogue: &Catalogue,
    failures: &mut Vec<Failure>,
    console: Console,
) -> Result<Status, Failure> {
    let mut out = console.text();
    let mut status = Status::Fine;
    for files in models {
        let proposals = match proposals(args, files, catalogue) {
            Ok(proposals) => proposals,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        for proposal in proposals {
            match proposal {
                Ok(proposal) if proposal.fixes().is_empty() => {}
                Ok(proposal) => {
                    status = Status::Findings;
                    write_diff(&proposal, &mut out, console.is_styled())?;
                }
                Err(error) => failures.push(error.into()),
            }
        }
    }
    out.flush()?;
    Ok(status)
}

/// Checks the models, after fixing them with `--fix`, and prints the reports.
fn report(
    args: &Args,
    models: &[Vec<PathBuf>],
    catalogue: &Catalogue,
    failures: &mut Vec<Failure>,
    console: Console,
) -> Result<Status, Failure> {
    let mut checked_files: Vec<CheckedFile> = Vec::with_capacity(models.len());
    let logits = args.run.iter().flatten().next().map(|path| {
        let options = remote::options(path)?;
        Ok::<_, Failure>(ggmill::read_recorded(path, &options)?)
    });
    let format = args.format(console);
    // Fails before anything is printed; the other formats contain the error.
    if let (Some(Err(failure)), Format::Text) = (&logits, format) {
        return Err(failure.clone());
    }
    // The other formats escape text themselves; that of GitHub consists of commands.
    let mut out: Box<dyn Write> = match format {
        Format::Text => Box::new(console.text()),
        _ => Box::new(console.bytes()),
    };
    let mut text = render::Text::new(console.is_styled(), console.width());
    let (mut printed, mut templates, mut unread) = (0usize, 0usize, 0usize);
    let mut not_run = Vec::new();
    let mut fixed = 0usize;
    // Only the files of directories belong together.
    let is_directory = args.files.iter().any(|path| path.is_dir());
    let (repository, notes) =
        if is_directory { ggmill::repository_templates(models) } else { Default::default() };
    for note in &notes {
        console.tell(note);
    }
    for (number, files) in models.iter().enumerate() {
        if args.fix && !apply_fixes(args, files, catalogue, &mut fixed, failures, console) {
            continue;
        }
        let bars = Bars::new(console);
        let mut builder = match builder(args, files, catalogue) {
            Ok(Some(builder)) => builder,
            Ok(None) => continue,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        builder = builder.repository_template(repository.get(number).cloned().flatten());
        builder = with_bars!(builder.data(args.data), bars);
        let read = logits.as_ref().map(Result::as_ref).transpose();
        if let (Some(_), Ok(recorded)) = (&args.run, read) {
            builder = builder.run_model(recorded);
        }
        let mut checked = builder.run()?;
        bars.clear();
        let probe = match read {
            Ok(_) => checked.take_probe().map(|found| found.map_err(Failure::from)),
            Err(failure) => Some(Err(failure.clone())),
        };
        let first = checked_files.len();
        let mut is_first_readable = false;
        for (number, file) in checked.into_files().into_iter().enumerate() {
            let path = text_of(file.path());
            templates += usize::from(file.has_template());
            unread += usize::from(file.is_data_unread());
            let (report, error) = file.into_parts();
            let readable = error.is_none();
            is_first_readable |= readable && number == 0;
            failures.extend(error.map(Failure::from));
            let Some(report) = report else { continue };
            let file = CheckedFile { path, report, readable, run: None };
            // Text is printed file by file, because many files take a while. A file that cannot be
            // opened is reported once, as an error.
            if matches!(format, Format::Text) && readable {
                if printed > 0 {
                    writeln!(out)?;
                }
                text.file(&mut out, &file.to_render())?;
                printed += 1;
            }
            checked_files.push(file);
        }
        let new = checked_files.get_mut(first..).unwrap_or_default();
        // If the first file could not be opened, that error is reported already.
        if let (Some(path), Some(probe), Some(file)) =
            (files.first(), probe.filter(|_| is_first_readable), new.first_mut())
        {
            file.run = Some(run_of(&probe));
            match probe {
                Ok(found) if matches!(format, Format::Text) => {
                    write!(out, "\n{}", probe_text(path, &found, &found.faults()))?;
                }
                Ok(_) => {}
                Err(failure) => not_run.push(failure),
            }
        }
        if matches!(format, Format::Github) {
            new.iter().try_for_each(|file| render::github(&mut out, &file.to_render()))?;
        }
    }
    finish(format, &checked_files, failures, &text, &mut out)?;
    failures.extend(not_run);
    // The report of a file without findings says that it has none.
    let has_findings = |file: &CheckedFile| file.readable && !file.report.is_clean();
    if args.fix && fixed == 0 && checked_files.iter().any(has_findings) {
        console.note("no finding could be fixed; nothing was changed");
    }
    let wants_data = args.select.is_empty() && args.profile != Profile::Threat;
    if unread > 0 && wants_data && matches!(format, Format::Text) {
        console.note("the tensor data was not checked; --data checks every weight");
    }
    if templates > 0 && args.profile == Profile::All && args.select.is_empty() {
        let (templates, was) =
            (counted(templates, "chat template"), if templates == 1 { "was" } else { "were" });
        console
            .note(format_args!("{templates} {was} not rendered; --profile run renders templates"));
    }
    let has_errors = checked_files.iter().any(|file| file.has_errors(args.profile));
    Ok(if has_errors { Status::Findings } else { Status::Fine })
}

/// Converts the result of running a model for the reports.
fn run_of(probe: &Result<Probe, Failure>) -> render::Run {
    match probe {
        Ok(found) => render::Run { document: probe_result(Ok(found)), faults: found.faults() },
        Err(failure) => {
            let message = failure.message();
            render::Run { document: probe_result(Err(message)), faults: vec![message.to_owned()] }
        }
    }
}

/// Fixes the files of a model. Returns `false` if that failed.
fn apply_fixes(
    args: &Args,
    files: &[PathBuf],
    catalogue: &Catalogue,
    fixed_so_far: &mut usize,
    failures: &mut Vec<Failure>,
    console: Console,
) -> bool {
    let before = failures.len();
    let is_stream = files.first().is_some_and(|path| path.as_os_str() == "-");
    let proposals = match proposals(args, files, catalogue) {
        Ok(proposals) => proposals,
        Err(failure) => {
            failures.push(failure);
            return false;
        }
    };
    for proposal in proposals {
        let proposal = match proposal {
            Ok(proposal) if proposal.fixes().is_empty() => continue,
            Ok(proposal) => proposal,
            Err(error) if is_stream => {
                failures.push(error.into());
                continue;
            }
            // The check reports a file that is not GGUF.
            Err(_) => continue,
        };
        match proposal.apply() {
            Ok(notes) => {
                for note in &notes {
                    console.note(note);
                }
                let count = proposal.codes().count();
                *fixed_so_far = fixed_so_far.saturating_add(count);
                console.note(format_args!(
                    "{}: fixed {count} finding{} ({})",
                    shown(proposal.path()),
                    if count == 1 { "" } else { "s" },
                    distinct(proposal.codes()).join(", ")
                ));
            }
            Err(error) => failures.push(error.into()),
        }
    }
    failures.len() == before
}

/// Writes the end of a report: the summary of text, or the document with all files.
fn finish(
    format: Format,
    files: &[CheckedFile],
    failures: &[Failure],
    text: &render::Text,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all: Vec<_> = files.iter().map(CheckedFile::to_render).collect();
    match format {
        Format::Text => {
            let readable: Vec<_> =
                files.iter().filter(|file| file.readable).map(|file| &file.report).collect();
            if readable.len() + failures.len() > 1 && !readable.is_empty() {
                text.summary(out, &readable, failures.len())?;
            }
        }
        Format::Json => ggmill_text::json::write_pretty(out, &render::json(&all))?,
        Format::Sarif => ggmill_text::json::write_pretty(out, &render::sarif(&all))?,
        Format::Github => {}
        Format::Verdict => {
            let errors = failures.iter().map(|failure| failure.message().to_owned());
            writeln!(out, "{}", Verdict::of(&all).with_errors(errors).json())?;
        }
    }
    out.flush()
}

/// The rule about duplicate keys.
const DUPLICATE: &str = "GG1201";

/// Writes the changes that `--fix` would make as removed and added lines.
fn write_diff(proposal: &Proposal, out: &mut dyn Write, styled: bool) -> io::Result<()> {
    let style = |color: AnsiColor| if styled { color.on_default() } else { Style::new() };
    let (removed, added, title) = (
        style(AnsiColor::Red),
        style(AnsiColor::Green),
        if styled { Style::new().bold() } else { Style::new() },
    );
    writeln!(out, "{title}{}{title:#}", shown(proposal.path()))?;
    for (ProposedFix { codes, fix, .. }, before) in proposal.fixes().iter().zip(proposal.before()) {
        let rules = distinct(codes.iter().copied()).join(", ");
        let mut minus = |key: &str| match before {
            Some(before) => {
                writeln!(out, "  {rules} {removed}- {} = {before}{removed:#}", RawStr::from(key))
            }
            None => Ok(()),
        };
        match fix {
            // Of identical entries with the same key, one is kept.
            Fix::Set { key, .. } if codes.iter().all(|code| *code == DUPLICATE) => {
                let before = before.as_deref().unwrap_or_default();
                writeln!(
                    out,
                    "  {rules} {removed}- {} = {before}, all but one{removed:#}",
                    RawStr::from(key.as_str())
                )?;
            }
            Fix::Set { key, value_type, value } => {
                minus(key)?;
                let value = value.to_string();
                writeln!(
                    out,
                    "  {rules} {added}+ {} = {} ({value_type}){added:#}",
                    RawStr::from(key.as_str()),
                    RawStr::from(value.as_str())
                )?;
            }
            Fix::Rename { from, to } => {
                minus(from)?;
                writeln!(
                    out,
                    "  {rules} {added}+ {} = {}{added:#}",
                    RawStr::from(to.as_str()),
                    before.as_deref().unwrap_or_default()
                )?;
            }
            Fix::Unset { key } => minus(key)?,
            other => writeln!(out, "  {rules} {added}~ {other}{added:#}")?,
        }
    }
    Ok(())
}

/// Returns the distinct codes, sorted.
fn distinct(codes: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    let mut codes: Vec<_> = codes.into_iter().collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}
