//! `ggmill template render`: renders a conversation.

use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use ggmill_core::RawStr;
use ggmill_template::{Rendered, Tokens};
use ggmill_text::json as safe_json;
use ggmill_tokenizer::{Attributes, Tokenizer};

use super::input::ConversationArgs;
use super::input::open_source;
use crate::console::Console;
use crate::files::shown;
use crate::outcome::{Failure, Status};

/// Render a conversation
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill template render model.gguf -m 'system:Be brief.' -m 'user:Hello' -g
  ggmill template render model.gguf --messages chat.json --set x=false
  ggmill template render model.gguf -m 'user:Is <|im_end|> a token?' --ids

With --ids, special tokens are recognized only in text from the template itself and in one-word \
roles; in message text they are treated as plain text, and reported. (A program that tokenizes \
the rendered text as a whole recognizes them everywhere.) User-defined tokens are recognized \
everywhere. No tokens are added at the beginning or the end.

On a terminal, special tokens and message text are colored. --json contains the text, the origin \
of each part, the tokens, and which of them are assistant output (generation blocks).")]
pub(crate) struct Args {
    /// The model, or a file with a template
    file: PathBuf,
    #[command(flatten)]
    conversation: ConversationArgs,
    /// Use the template of this name instead of the default one
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print the token IDs as a list
    #[arg(long, conflicts_with = "json")]
    ids: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let source = open_source(&args.file, console)?;
    let conversation = args.conversation.read(console)?;
    let rendered = source.render(args.name.as_deref(), &conversation)?;
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format_args!("{}: {}", shown(&args.file), RawStr::from(&*error.to_string())))
    };
    let wants_tokens = args.ids || args.json || console.is_styled();
    let tokens = match source.tokenizer() {
        Some(tokenizer) if wants_tokens => {
            Some(rendered.encode(tokenizer).map_err(|error| failed(&error))?)
        }
        None if args.ids => {
            return Err(failed(&"the file has no usable tokenizer"));
        }
        _ => None,
    };
    if let (Some(tokens), Some(tokenizer)) = (&tokens, source.tokenizer()) {
        for found in &tokens.refused {
            let text = tokenizer.vocabulary().text(found.id).unwrap_or_default();
            console.note(format_args!(
                "{} contains the special token {:?} ({}): it is treated as plain text",
                found.path,
                RawStr::new(text),
                found.id
            ));
        }
    }
    if let Some(tokenizer) = source.tokenizer().filter(|_| tokens.is_some()) {
        let absent = |marker: &&str| tokenizer.vocabulary().id(marker.as_bytes()).is_none();
        for marker in rendered.markers().into_iter().filter(absent) {
            console.note(format_args!(
                "the template writes {:?}, which is not a token in the vocabulary: it is tokenized \
                 as plain text",
                RawStr::from(marker)
            ));
        }
    }
    for name in rendered.missing_variables().iter().filter(|name| name.ends_with("_token")) {
        console.note(format_args!(
            "the template reads {name}, which is not set: --set {name}='…' sets it"
        ));
    }
    if args.json {
        json(&rendered, tokens.as_ref(), console)?;
    } else if let (true, Some(tokens)) = (args.ids, &tokens) {
        let mut out = console.bytes();
        let ids: Vec<_> = tokens.ids().map(|id| id.to_string()).collect();
        writeln!(out, "[{}]", ids.join(", "))?;
        out.flush()?;
    } else if console.is_styled() || console.width().is_some() {
        let special = match (&tokens, source.tokenizer()) {
            (Some(tokens), Some(tokenizer)) => special_ranges(tokens, tokenizer),
            _ => Vec::new(),
        };
        colored(&rendered, &special, console)?;
    } else {
        let mut out = console.bytes();
        out.write_all(rendered.text().as_bytes())?;
        out.flush()?;
    }
    Ok(Status::Fine)
}

fn json(rendered: &Rendered, tokens: Option<&Tokens>, console: Console) -> Result<(), Failure> {
    let mut out = console.bytes();
    safe_json::write_pretty(&mut out, &rendered.document(tokens))?;
    Ok(out.flush()?)
}

/// Returns the byte ranges of special tokens.
fn special_ranges(tokens: &Tokens, tokenizer: &Tokenizer) -> Vec<Range<usize>> {
    let control = Attributes::CONTROL | Attributes::UNKNOWN | Attributes::USER_DEFINED;
    tokens
        .pieces
        .iter()
        .filter(|piece| tokenizer.vocabulary().attributes(piece.id).intersects(control))
        .map(|piece| piece.start..piece.end)
        .collect()
}

/// Prints the text with special tokens and text of the conversation in color.
fn colored(rendered: &Rendered, special: &[Range<usize>], console: Console) -> Result<(), Failure> {
    let token = Style::new().fg_color(Some(AnsiColor::Magenta.into())).bold();
    let message = Style::new().fg_color(Some(AnsiColor::Green.into()));
    let mut out = console.text();
    // Tokens and segments are in the order of the text.
    let mut special = special.iter().peekable();
    for segment in rendered.segments() {
        let style = if segment.field.is_some() { message } else { Style::new() };
        let mut position = segment.range.start;
        // A token that spans two segments is not colored.
        while special.next_if(|range| range.start < position).is_some() {}
        while let Some(range) = special.next_if(|range| range.end <= segment.range.end) {
            for (range, style) in [(position..range.start, style), (range.clone(), token)] {
                styled(&mut out, rendered.text().get(range).unwrap_or_default(), style)?;
            }
            position = range.end;
        }
        let rest = position..segment.range.end;
        styled(&mut out, rendered.text().get(rest).unwrap_or_default(), style)?;
    }
    if !rendered.text().ends_with('\n') {
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

/// Writes text with a style. Control characters are escaped, except for line breaks.
fn styled(out: &mut impl std::io::Write, text: &str, style: Style) -> std::io::Result<()> {
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if !line.is_empty() {
            write!(out, "{style}{}{style:#}", RawStr::new(line.as_bytes()))?;
        }
        out.write_all(end.as_bytes())?;
    }
    Ok(())
}
