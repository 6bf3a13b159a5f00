//! `ggmill template diff`.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_core::RawStr;
use ggmill_template::{Conversation, RenderOptions, Template, samples};

use super::given::Given;
use super::source::{Source, parse};
use crate::console::Console;
use crate::counted::counted;
use crate::outcome::{Failure, Status};
use crate::paths::shown;

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
    given: Given,
    /// Use the templates of this name instead of the default ones
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Bytes that are shown before and after a difference.
const SHOWN: usize = 60;

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let sources = [Source::open(&args.file, console)?, Source::open(&args.other, console)?];
    let [first, second] = &sources;
    let name = args.name.as_deref();
    let (left, right) = (first.template(name)?, second.template(name)?);
    let mut out = console.text();
    if left.text == right.text {
        writeln!(out, "the templates are identical")?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let options = [first.options(), second.options()];
    let options = options.iter().find(|options| !options.tokens.is_empty()).unwrap_or(&options[0]);
    let templates = [parse(left, &args.file)?, parse(right, &args.other)?];
    let conversations = if args.given.is_empty() {
        samples().into_iter().map(|(name, it)| (name.to_owned(), it)).collect()
    } else {
        vec![("the conversation".to_owned(), args.given.conversation(console)?)]
    };
    let mut different = 0;
    for (name, conversation) in &conversations {
        let [left, right] =
            [&templates[0], &templates[1]].map(|it| text(it, conversation, options));
        if left == right {
            continue;
        }
        different += 1;
        writeln!(out, "{name}:")?;
        let at = common(&left, &right);
        for (path, text) in [(&args.file, &left), (&args.other, &right)] {
            writeln!(out, "  {}: {}", shown(path), around(text, at))?;
        }
    }
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

/// What a template makes of a conversation, or why it refuses it.
fn text(
    template: &Template,
    conversation: &Conversation,
    options: &RenderOptions,
) -> Result<String, String> {
    match template.render(conversation, options) {
        Ok(rendered) => Ok(rendered.text().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Where two texts begin to differ.
fn common(left: &Result<String, String>, right: &Result<String, String>) -> usize {
    let (Ok(left), Ok(right)) = (left, right) else { return 0 };
    left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count()
}

/// The text around a place.
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
