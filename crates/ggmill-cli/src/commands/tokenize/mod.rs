//! `ggmill tokenize`: converts text to tokens.

mod analysis;
mod output;

pub(crate) use output::each_line;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use ggmill_tokenizer::EncodeOptions;

use crate::console::Console;
use crate::files::{open_library_tokenizer, open_tokenizer, shown, write_file};
use crate::outcome::{Failure, Status};
use ggmill::read_bytes;

/// The maximum length of a text, which is the limit of the tokenizer, in bytes.
const MAX_TEXT: u64 = i32::MAX as u64;

/// Tokenize text with the vocabulary of a model
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "ggmill tokenize [OPTIONS] <FILE> [TEXT]\n       ggmill tokenize [OPTIONS] -m \
                      <FILE> [TEXT]"
)]
#[command(after_help = "\
Examples:
  ggmill tokenize model.gguf 'Hello, world!'
  ggmill tokenize model.gguf --file prompt.txt --ids
  ggmill tokenize model.gguf --count --file documents/
  ggmill tokenize model.gguf --html --file prompt.txt -o tokens.html
  ggmill tokenize model.gguf --explain 'Hello, world!'
  ggmill tokenize model.gguf --jsonl < texts.jsonl > ids.jsonl
  ggmill tokenize model.gguf --compare tokenizer.json --file prompt.txt
  ggmill tokenize model.gguf --pre auto --compare tokenizer.json -f prompt.txt

The tokens are identical to llama.cpp's. BOS and EOS tokens are added if the model asks for \
them, and the text of special tokens, such as <|im_start|>, is parsed. This is what \
llama-tokenize does, with two differences: llama-tokenize adds no EOS token if the model has no \
BOS token, and it processes escape sequences such as \\n \
by default; ggmill does so only with --escape.

Without an output option, the text is shown with its tokens highlighted in color on a terminal; \
otherwise, one line is printed per token, with its ID and text. --compare exits with 1 if tokens \
differ; --pre auto exits with 1 if a different pre-tokenizer matches the compared vocabulary \
better than the model's own.")]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
pub(crate) struct Args {
    /// The model (a file, or any shard of a split model), or the file or directory of a tokenizer:
    /// tokenizer.json, tokenizer.model, vocab.json, tekken.json
    #[arg(value_name = "FILE", required_unless_present = "model_option")]
    file: Option<PathBuf>,
    /// The text; - is standard input
    text: Option<OsString>,
    /// The model, as `llama-tokenize` has it
    #[arg(long = "model", short = 'm', hide = true, value_name = "FILE")]
    model_option: Option<PathBuf>,
    /// The text, as `llama-tokenize` has it
    #[arg(long = "prompt", short = 'p', hide = true, value_name = "TEXT")]
    #[arg(conflicts_with_all = ["text", "files"])]
    prompt: Option<OsString>,
    /// Tokenize the text of a file (repeatable with --count, where it may be a directory)
    #[arg(long = "file", short = 'f', value_name = "PATH", conflicts_with = "text")]
    files: Vec<PathBuf>,
    /// Print the IDs as a list
    #[arg(long, group = "form")]
    ids: bool,
    /// Print one line per token: its ID and its text
    #[arg(long, group = "form")]
    pieces: bool,
    /// Print one line per token: its byte offset in the text, its ID and its text
    #[arg(long, group = "form")]
    offsets: bool,
    /// Print the number of tokens, including BOS and EOS unless --no-bos is given
    #[arg(long, group = "form")]
    count: bool,
    /// Write JSON
    #[arg(long, group = "form")]
    json: bool,
    /// Write an HTML page that shows the text with its tokens highlighted
    #[arg(long, group = "form")]
    html: bool,
    /// The file to write the --html page to [default: standard output]
    #[arg(long, short, value_name = "FILE", requires = "html")]
    output: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Show how the text is tokenized: special tokens, the result of each pre-tokenizer pass, and
    /// the merges of each word in order
    #[arg(long, group = "form")]
    explain: bool,
    /// Read one JSON string per line from standard input, and write its IDs as a JSON array, one
    /// per line
    #[arg(long, group = "form")]
    jsonl: bool,
    /// Compare with the vocabulary of another model or tokenizer; a tokenizer.json is read as the
    /// tokenizers library reads it
    #[arg(long, value_name = "FILE", group = "form")]
    compare: Option<PathBuf>,
    /// Do not add BOS, EOS or SEP tokens
    #[arg(long)]
    no_bos: bool,
    /// Parse special tokens in the text (the default)
    #[arg(long, conflicts_with = "no_parse_special")]
    special: bool,
    /// Treat the text of control tokens as plain text
    #[arg(long)]
    no_parse_special: bool,
    /// Process escape sequences in the text: \n, \t, \r, \\, \", \' and \xHH
    #[arg(long, conflicts_with = "jsonl")]
    escape: bool,
    /// Use this pre-tokenizer, such as llama-bpe, instead of the model's; auto finds the
    /// pre-tokenizers that produce the same tokens as the --compare file
    #[arg(long, value_name = "NAME")]
    pre: Option<String>,
}

impl Args {
    fn options(&self) -> EncodeOptions {
        EncodeOptions::new()
            .add_special(!self.no_bos)
            .parse_special(self.special || !self.no_parse_special)
    }

    /// Returns the model, and the text of the arguments. With `--model`, the first positional argument
    /// is the text.
    fn model_and_text(&self) -> (&Path, Option<&OsStr>) {
        let text = self.prompt.as_deref().or(self.text.as_deref());
        match (&self.model_option, &self.file) {
            (Some(model), file) => (model, text.or(file.as_ref().map(|file| file.as_os_str()))),
            // Without the option, clap requires the file.
            (None, file) => (file.as_deref().unwrap_or(Path::new("")), text),
        }
    }

    /// Reads the text to tokenize: from the arguments, a file, or standard input.
    fn text(&self) -> Result<Vec<u8>, Failure> {
        let text = match (self.model_and_text().1, &*self.files) {
            (Some(text), _) if text != "-" => text.as_encoded_bytes().to_vec(),
            (Some(_), _) => read_bytes("-", MAX_TEXT)?,
            (None, [path]) => read_bytes(path, MAX_TEXT)?,
            (None, []) if !std::io::stdin().is_terminal() => read_bytes("-", MAX_TEXT)?,
            (None, []) => {
                return Err(Failure::new("expected a text")
                    .with_hint(Some("ggmill tokenize model.gguf 'Hello, world!'".to_owned())));
            }
            (None, _) => {
                return Err(Failure::new("expected one text")
                    .with_hint(Some("--count accepts several files".to_owned())));
            }
        };
        Ok(if self.escape { unescape(&text) } else { text })
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let options = args.options();
    let (model, arg) = args.model_and_text();
    if args.pre.as_deref() == Some("auto") {
        let Some(reference) = &args.compare else {
            return Err(Failure::new("--pre auto requires --compare").with_hint(Some(
                "ggmill tokenize model.gguf --pre auto --compare tokenizer.json --file text.txt"
                    .to_owned(),
            )));
        };
        let text = args.text()?;
        let reference = open_tokenizer(reference, None, console)?;
        return analysis::print_fitting(model, &reference, &text, options, console);
    }
    let tokenizer = open_tokenizer(model, args.pre.as_deref(), console)?;
    if args.jsonl {
        let from = args.files.first().map(PathBuf::as_path);
        return output::tokenize_lines(&tokenizer, options, from, console);
    }
    if args.count && !args.files.is_empty() {
        return output::print_counts(&tokenizer, options, &args.files, console);
    }
    let text = args.text()?;
    // `--prompt` is an option of llama-tokenize, which replaces escapes by default.
    if args.prompt.is_some() && !args.escape && unescape(&text) != text {
        console.note(
            "the text has escapes such as \\n, which are not replaced; --escape replaces them, as \
             llama-tokenize does by default",
        );
    }
    let failed =
        |error: ggmill_tokenizer::Error| Failure::new(format_args!("{}: {error}", shown(model)));
    let is_path = |name: &Path| name.is_file() || args.count && name.is_dir();
    if let Some(name) = arg.map(Path::new).filter(|name| is_path(name)) {
        console.note(format_args!(
            "the argument \"{}\" is tokenized as text; --file tokenizes the file with this name",
            shown(name)
        ));
    }
    if args.count {
        let count = tokenizer.count(&text, &options).map_err(failed)?;
        let mut out = console.bytes();
        writeln!(out, "{count}")?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    if let Some(other) = &args.compare {
        if let Some(library) = open_library_tokenizer(other)? {
            let models = ((model, &tokenizer), (&**other, &library));
            return analysis::print_library_comparison(models, &text, options, console);
        }
        let second = open_tokenizer(other, None, console)?;
        let models = [(model, &tokenizer), (&**other, &second)];
        return analysis::print_comparison(models, &text, options, console);
    }
    if args.explain {
        return analysis::print_explanation(&tokenizer, &text, options, console);
    }
    let mut pieces = Vec::new();
    tokenizer.encode_with_offsets(&text, &options, &mut pieces).map_err(failed)?;
    if args.ids {
        output::print_ids(&pieces, console)?;
    } else if args.json {
        output::print_json(&tokenizer, &pieces, console)?;
    } else if args.html {
        match &args.output {
            Some(output) => {
                let mut page = Vec::new();
                output::write_html(&tokenizer, &pieces, &mut page)?;
                write_file(output, &[model.to_owned()], args.force, &page)?;
            }
            None => output::write_html(&tokenizer, &pieces, &mut console.bytes())?,
        }
    } else if console.is_styled() && !args.pieces && !args.offsets {
        output::print_colored(&tokenizer, &pieces, console)?;
    } else {
        output::print_pieces(&tokenizer, &pieces, args.offsets, console)?;
    }
    Ok(Status::Fine)
}

/// Replaces the escape sequences of `--escape`; others remain.
fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, length) = match (first, after) {
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [same @ (b'\\' | b'"' | b'\''), ..]) => (*same, 2),
            (b'\\', [b'x', ..]) => match (digit(after.get(1)), digit(after.get(2))) {
                (Some(high), Some(low)) => (u8::try_from(high * 16 + low).unwrap_or_default(), 4),
                _ => (first, 1),
            },
            _ => (first, 1),
        };
        out.push(byte);
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_replaced() {
        assert_eq!(unescape(br#"a\n\t\\n\x41\xg1\q\"\'\"#), b"a\n\t\\nA\\xg1\\q\"'\\");
        assert_eq!(unescape(b"\\x4"), b"\\x4");
    }
}
