//! `ggmill template`: renders, checks, compares and lists chat templates.

mod diff;
mod input;
mod lint;
mod list;
mod render;

use clap::Subcommand;

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Render, check, compare and list chat templates
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  ggmill template list model.gguf
  ggmill template render model.gguf -m 'user:Hello' --generation-prompt
  ggmill template render model.gguf --messages chat.json --tools tools.json
  ggmill template lint model.gguf
  ggmill template diff model.gguf tokenizer_config.json

A template is read from a model, from a Jinja file, or from the tokenizer_config.json of a \
checkpoint. It is rendered as by the transformers library, with limits on time and memory, and \
has access to nothing but the conversation.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Render(render::Args),
    Lint(lint::Args),
    Diff(diff::Args),
    List(list::Args),
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    match &args.command {
        Command::Render(args) => render::run(args, console),
        Command::Lint(args) => lint::run(args, console),
        Command::Diff(args) => diff::run(args, console),
        Command::List(args) => list::run(args, console),
    }
}
