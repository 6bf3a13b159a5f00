//! `ggmill template diff`: compares two templates.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_core::RawStr;
use ggmill_template::samples;

use super::input::{ConversationArgs, open_source};
use crate::console::{Console, counted};
use crate::files::shown;
use crate::outcome::{Failure, Status};

/// Compare two templates by rendering conversations
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill template diff model.gguf tokenizer_config.json
  ggmill template diff old.gguf new.gguf -m user:Hello -g

Both templates are rendered with test conversations, or with the given one, and with the special \
tokens of the first file, or of the second if the first has none. Templates that render all of \
them identically can still differ for other conversations. The exit code is 1 if a rendered text \
differs.")]
pub(crate) struct Args {
    /// The first model, or a file with a template
    file: PathBuf,
    /// The second model, or a file with a template
    other: PathBuf,
    #[command(flatten)]
    conversation: ConversationArgs,
    /// Use the templates of this name instead of the default ones
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// The number of bytes that are shown before and after a difference.
const SHOWN: usize = 60;

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let first = open_source(&args.file, console)?;
    let second = open_source(&args.other, console)?;
    let name = args.name.as_deref();
    let mut out = console.text();
    if first.choose(name)?.text == second.choose(name)?.text {
        writeln!(out, "the templates are identical")?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let conversations = if args.conversation.is_empty() {
        samples()
    } else {
        vec![("the conversation", args.conversation.read(console)?)]
    };
    let named = conversations.iter().map(|(name, conversation)| (*name, conversation));
    let differences = first.compare(&second, name, named)?;
    for difference in &differences {
        writeln!(out, "{}:", difference.conversation)?;
        for (path, text) in [&args.file, &args.other].into_iter().zip(&difference.texts) {
            writeln!(out, "  {}: {}", shown(path), around(text, difference.offset()))?;
        }
    }
    let different = differences.len();
    let count = conversations.len();
    if different == 0 {
        let conversations = counted(count, "conversation");
        writeln!(out, "the templates differ, but render the same text for {conversations}")?;
    } else {
        let differ = if different == 1 { "differs" } else { "differ" };
        writeln!(out, "{different} of {} {differ}", counted(count, "conversation"))?;
    }
    out.flush()?;
    Ok(if different == 0 { Status::Fine } else { Status::Findings })
}

/// Returns the text around an offset, or the reason why there is none.
fn around(text: &Result<String, String>, at: usize) -> String {
    match text {
        Ok(text) => {
            let bytes = text.as_bytes();
            let (from, to) = (at.saturating_sub(SHOWN), (at + SHOWN).min(bytes.len()));
            let part = bytes.get(from..to).unwrap_or_default();
            let (before, after) =
                (if from > 0 { "…" } else { "" }, if to < bytes.len() { "…" } else { "" });
            format!("byte {at}: {before}{:?}{after}", RawStr::new(part))
        }
        Err(error) => RawStr::new(error.as_bytes()).to_string(),
    }
}
