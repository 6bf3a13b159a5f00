//! `ggmill detokenize`: converts token IDs to text.

use std::io::{self, BufReader, IsTerminal as _, Read as _, Write};
use std::path::PathBuf;

use ggmill_core::RawStr;
use ggmill_text::{LosslessStr, json as safe_json};
use ggmill_tokenizer::{DecodeOptions, Decoder};

use super::tokenize::each_line;
use crate::console::Console;
use crate::files::open_tokenizer;
use crate::outcome::{Failure, Status};

/// Convert token IDs to text with a model's vocabulary
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill detokenize model.gguf 15043 29892 3186
  ggmill detokenize model.gguf '[15043, 29892, 3186]'
  ggmill tokenize model.gguf --ids -f a.txt | ggmill detokenize model.gguf
  ggmill detokenize model.gguf --jsonl < ids.jsonl > texts.jsonl

Text is written byte for byte, as soon as each character is complete; on a terminal, control \
characters are escaped. Control tokens are omitted unless --special is given. In JSON, text that \
is not valid UTF-8 is {\"bytes_hex\": \"…\"}.")]
pub(crate) struct Args {
    /// The model (a file, or any shard of a split model), or the file or directory of a tokenizer
    file: PathBuf,
    /// Token IDs, separated by spaces or commas, optionally in brackets; with -, or without IDs when
    /// standard input is not a terminal, they are read from standard input
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Read a JSON array of IDs from each line of standard input, and write each text as a JSON
    /// string on a line
    #[arg(long, conflicts_with = "ids")]
    jsonl: bool,
    /// Show control and unknown tokens as their text
    #[arg(long)]
    special: bool,
    /// Omit the BOS token at the beginning and the EOS token at the end
    #[arg(long)]
    remove_special: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let tokenizer = open_tokenizer(&args.file, None, console)?;
    let options =
        DecodeOptions::new().unparse_special(args.special).remove_special(args.remove_special);
    if args.jsonl {
        let mut text = Vec::new();
        return each_line(None, console, |line, out| {
            let ids: Vec<u32> = serde_json::from_str(line).map_err(|error| {
                Failure::new(format_args!("expected a JSON array of token IDs: {error}"))
            })?;
            text.clear();
            tokenizer.decode(&ids, &options, &mut text).map_err(Failure::new)?;
            safe_json::write(&mut *out, &LosslessStr(RawStr::new(&text)))?;
            Ok(out.write_all(b"\n")?)
        });
    }
    let mut decoder = Decoder::new(&tokenizer, &options);
    let mut text = Vec::new();
    let mut out = TextOutput { out: Box::new(console.bytes()), escapes: console.width().is_some() };
    if args.ids.is_empty() && io::stdin().is_terminal() {
        return Err(Failure::new("expected token IDs")
            .with_hint(Some("ggmill detokenize model.gguf 15043 29892 3186".to_owned())));
    }
    if args.ids.is_empty() || args.ids == ["-"] {
        let mut input = BufReader::new(io::stdin().lock());
        let mut numbers = Numbers::default();
        loop {
            let mut bytes = [0; 1 << 12];
            let length = input
                .read(&mut bytes)
                .map_err(|error| Failure::new(format_args!("standard input: {error}")))?;
            if length == 0 {
                break;
            }
            for byte in &bytes[..length] {
                if let Some(id) = numbers.push(*byte)? {
                    decoder.push(id, &mut text).map_err(Failure::new)?;
                }
            }
            out.write(&mut text)?;
            out.out.flush()?;
        }
        if let Some(id) = numbers.push(b' ')? {
            decoder.push(id, &mut text).map_err(Failure::new)?;
        }
    } else {
        for arg in &args.ids {
            let mut numbers = Numbers::default();
            for byte in arg.bytes().chain([b' ']) {
                if let Some(id) = numbers.push(byte)? {
                    decoder.push(id, &mut text).map_err(Failure::new)?;
                }
            }
        }
    }
    decoder.finish(&mut text);
    out.write(&mut text)?;
    if out.escapes {
        out.out.write_all(b"\n")?;
    }
    out.out.flush()?;
    Ok(Status::Fine)
}

/// Writes text unchanged, or escaped except for line breaks if the output is a terminal.
struct TextOutput {
    out: Box<dyn Write>,
    escapes: bool,
}

impl TextOutput {
    /// Writes the text, and clears it.
    fn write(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        if self.escapes {
            for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
                write!(self.out, "{}{}", if number > 0 { "\n" } else { "" }, RawStr::new(line))?;
            }
        } else {
            self.out.write_all(text)?;
        }
        text.clear();
        Ok(())
    }
}

/// Parses token IDs that are separated by spaces, commas and brackets, byte by byte.
#[derive(Debug, Default)]
struct Numbers {
    digits: String,
}

impl Numbers {
    /// Adds a byte, and returns the ID that it ends.
    fn push(&mut self, byte: u8) -> Result<Option<u32>, Failure> {
        /// The maximum number of digits of an ID.
        const LONGEST: usize = 20;
        if !byte.is_ascii_whitespace() && !matches!(byte, b',' | b'[' | b']') {
            if self.digits.len() <= LONGEST {
                self.digits.push(char::from(byte));
            }
            return Ok(None);
        }
        let digits = std::mem::take(&mut self.digits);
        if digits.is_empty() {
            return Ok(None);
        }
        digits.parse().map(Some).map_err(|_| {
            let found = RawStr::from(&*digits);
            Failure::new(format_args!("{found:?} is not a token ID, expected an integer"))
        })
    }
}
