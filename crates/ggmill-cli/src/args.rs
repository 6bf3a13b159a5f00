//! The command line: global options, and the commands with their options.

use std::ffi::{OsStr, OsString};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use ggmill_core::RawStr;

use crate::commands::{
    architectures, check, completions, convert, detokenize, diff, edit, estimate, explain, extract,
    get, graft, hash, imatrix, index, inspect, lora, ls, man, measure, merge, name, quantize,
    repack, split, template, tokenize, verify, web,
};
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::usage_errors::{advise, in_words};

/// The toolkit for GGUF model files.
#[derive(Debug, Parser)]
#[command(name = "ggmill", version, max_term_width = 100)]
#[command(after_help = "\
Exit codes: 0 success, 1 errors found or models differ, 2 failure. Warnings and notes do not \
change the exit code.")]
pub(crate) struct Cli {
    /// When to use colors: auto means on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        global = true,
        help_heading = "Global options",
        display_order = 100
    )]
    pub(crate) color: Color,
    /// Print only requested results and errors: no notes, warnings or progress
    #[arg(long, short, global = true, help_heading = "Global options", display_order = 101)]
    pub(crate) quiet: bool,
    /// Do not read or write the cache of remote headers
    #[arg(long, global = true, help_heading = "Global options", display_order = 102)]
    pub(crate) no_cache: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Returns the `--color` of the arguments, which applies to help and usage errors, too.
    pub(crate) fn color_of(args: &[OsString]) -> Color {
        let color = args.windows(2).find_map(|pair| match pair {
            [option, when] if option == "--color" => when.to_str(),
            [_, given] => given.to_str()?.strip_prefix("--color="),
            _ => None,
        });
        match color {
            Some("always") => Color::Always,
            Some("never") => Color::Never,
            _ => Color::Auto,
        }
    }

    /// Parses the arguments. The message of an error has no control characters: a pattern of the shell can
    /// pass names of files as arguments.
    pub(crate) fn parse_safely(args: &[OsString]) -> Result<Self, clap::Error> {
        Self::parse_styled(args).map_err(|error| {
            let safe: Vec<OsString> = args.iter().map(|arg| escaped(arg)).collect();
            if safe == args {
                return error;
            }
            let message = "an argument is not valid, and has control characters\n";
            let other = || clap::Error::raw(error.kind(), message);
            Self::parse_styled(&safe).map_or_else(|safe| safe, |_| other())
        })
    }

    fn parse_styled(args: &[OsString]) -> Result<Self, clap::Error> {
        let args: Vec<&OsStr> = match args {
            // clap reads `help --help` as the help of a command named `--help`.
            [program, help, option] if help == "help" && (option == "--help" || option == "-h") => {
                vec![program, option]
            }
            _ => args.iter().map(OsString::as_os_str).collect(),
        };
        let command = args.iter().skip(1).find_map(|arg| arg.to_str());
        let matches = Self::command()
            .try_get_matches_from(&args)
            .map_err(|error| advise(error, command, || Self::commands_below(&args)))
            .map_err(|error| in_words(error, &Self::command()))?;
        Self::from_arg_matches(&matches)
    }

    /// Returns the names of the subcommands of the command that the arguments after `help` name.
    fn commands_below(args: &[&OsStr]) -> Vec<String> {
        let mut command = Self::command();
        for name in args.iter().skip(2) {
            match command.find_subcommand(name) {
                Some(found) => command = found.clone(),
                None => break,
            }
        }
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        shown.map(|command| command.get_name().to_owned()).collect()
    }
}

/// Escapes the characters of an argument that are not plain.
fn escaped(arg: &OsStr) -> OsString {
    let bytes = arg.as_encoded_bytes();
    match arg.to_str() {
        Some(text) if text.chars().all(RawStr::is_plain) => arg.to_owned(),
        _ => RawStr::new(bytes).to_string().into(),
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl From<Color> for anstream::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one value exists, and it is matched at once")]
pub(crate) enum Command {
    #[command(alias = "info")]
    Inspect(inspect::Args),
    /// The same as `inspect --all`, named after `gguf-dump`
    #[command(hide = true)]
    Dump(inspect::Args),
    Check(check::Args),
    Ls(ls::Args),
    Index(index::Args),
    Web(web::Args),
    Explain(explain::Args),
    Architectures(architectures::Args),
    Name(name::Args),
    Convert(convert::Args),
    Get(get::Args),
    Edit(edit::Args),
    #[command(hide = true)]
    SetMetadata(edit::SetMetadataArgs),
    Quantize(Box<quantize::Args>),
    Imatrix(imatrix::Args),
    Lora(lora::Args),
    Split(split::Args),
    Merge(merge::Args),
    Repack(repack::Args),
    Extract(extract::Args),
    Graft(Box<graft::Args>),
    Hash(hash::Args),
    Diff(diff::Args),
    Verify(verify::Args),
    Estimate(Box<estimate::Args>),
    Measure(Box<measure::Args>),
    Tokenize(tokenize::Args),
    Detokenize(detokenize::Args),
    Template(template::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    pub(crate) fn run(self, console: Console) -> Result<Status, Failure> {
        match self {
            Self::Inspect(args) => inspect::run(args, console),
            Self::Dump(args) => inspect::run_all(args, console),
            Self::Check(args) => check::run(&args, console),
            Self::Ls(args) => ls::run(&args, console),
            Self::Index(args) => index::run(&args, console),
            Self::Web(args) => web::run(&args, console),
            Self::Architectures(args) => architectures::run(&args, console),
            Self::Explain(args) => explain::run(&args, console),
            Self::Name(args) => name::run(&args, console),
            Self::Convert(args) => convert::run(args, console),
            Self::Get(args) => get::run(&args, console),
            Self::SetMetadata(args) => edit::run_set_metadata(args, console),
            Self::Edit(args) => edit::run(&args, console),
            Self::Quantize(args) => quantize::run(&args, console),
            Self::Imatrix(args) => imatrix::run(&args, console),
            Self::Lora(args) => lora::run(args, console),
            Self::Split(args) => split::run(&args, console),
            Self::Merge(args) => merge::run(&args, console),
            Self::Repack(args) => repack::run(&args, console),
            Self::Extract(args) => extract::run(&args, console),
            Self::Graft(args) => graft::run(&args, console),
            Self::Diff(args) => diff::run(&args, console),
            Self::Verify(args) => verify::run(&args, console),
            Self::Estimate(args) => estimate::run(&args, console),
            Self::Measure(args) => measure::run(&args, console),
            Self::Tokenize(args) => tokenize::run(&args, console),
            Self::Detokenize(args) => detokenize::run(&args, console),
            Self::Template(args) => template::run(&args, console),
            Self::Hash(args) => hash::run(&args, console),
            Self::Completions(args) => completions::run(&args, Cli::command(), console),
            Self::Man(args) => man::run(&args, Cli::command(), console),
        }
    }
}
