//! `ggmill architectures`: the supported architectures and their model classes.

mod check;
mod new;

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_core::RawStr;
use ggmill_inspect::{architectures, text};

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// List the supported architectures and their Hugging Face model classes; check or draft a description
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  ggmill architectures
  ggmill architectures mistral
  ggmill architectures Qwen3ForCausalLM --json
  ggmill architectures new NewForCausalLM model > new.toml
  ggmill architectures check new.toml --config model/config.json

Classes are the names in `architectures` of config.json. An architecture without classes is \
supported by every command except `ggmill convert`. `ggmill explain NAME` shows the keys and \
tensors of an architecture. A table that is too wide for the terminal is shortened; --json is \
complete.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// List only architectures with this text in their name, title or class names
    #[arg(value_name = "NAME")]
    filter: Option<String>,
    /// An architecture description (TOML), or a directory of them, to list in addition to the
    /// built-in ones (repeatable)
    #[arg(long, value_name = "PATH")]
    arch_file: Vec<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Args),
    New(new::Args),
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    match &args.command {
        Some(Command::Check(args)) => return check::run(args, console),
        Some(Command::New(args)) => return new::run(args, console),
        None => {}
    }
    let catalogue = ggmill::catalogue(&args.arch_file)?;
    let found = architectures::listed(&catalogue, args.filter.as_deref());
    if let Some(filter) = args.filter.as_deref().filter(|_| found.is_empty()) {
        let all = architectures::listed(&catalogue, None);
        let names = all.iter().flat_map(|listed| listed.classes.iter().chain([&listed.name]));
        let near = ggmill_check::near(filter, names.cloned());
        let hint = (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")));
        return Err(Failure::new(format_args!(
            "no architecture or class has {:?} in its name",
            RawStr::from(filter)
        ))
        .with_hint(hint));
    }
    if args.json {
        let mut out = console.bytes();
        architectures::write_json(&mut out, &found)?;
        out.flush()?;
    } else {
        let options =
            text::Options::default().with_width(console.width()).with_styled(console.is_styled());
        let mut out = console.text();
        architectures::write_text(&mut out, &found, &options)?;
        out.flush()?;
    }
    Ok(Status::Fine)
}
