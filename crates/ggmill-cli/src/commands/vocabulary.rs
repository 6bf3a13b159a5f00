//! `ggmill inspect --vocab`: the tokens of a model.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use ggmill_core::RawStr;
use ggmill_text::{Glob, LosslessStr, json as safe_json};
use ggmill_tokenizer::{Attributes, Kind, Tokenizer};
use serde_json::json;

use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::tokenizer::open_tokenizer;

/// Prints the tokens that match, by their text in the file or by the decoded text.
pub(crate) fn print(
    file: &Path,
    glob: &Glob,
    as_json: bool,
    console: Console,
) -> Result<Status, Failure> {
    let tokenizer = open_tokenizer(file, None, console)?;
    let vocabulary = tokenizer.vocabulary();
    if vocabulary.kind() == Kind::None {
        console.warn(format_args!(
            "{}: according to tokenizer.ggml.model there is no tokenizer, so the tokens have no \
             text",
            shown(file)
        ));
        return Ok(Status::Findings);
    }
    let everything = glob.as_str() == "*";
    let ids = (0..vocabulary.len()).filter(|&id| {
        let matches =
            |text: Option<&[u8]>| text.is_some_and(|text| glob.matches(RawStr::new(text)));
        everything || matches(vocabulary.text(id)) || matches(tokenizer.piece(id))
    });
    let mut count = 0u32;
    if as_json {
        let mut out = console.bytes();
        out.write_all(b"[")?;
        for id in ids {
            write!(out, "{}\n  ", if count > 0 { "," } else { "" })?;
            count += 1;
            let token = json!({
                "id": id,
                "text": LosslessStr(RawStr::new(vocabulary.text(id).unwrap_or_default())),
                "type": kinds(&tokenizer, id),
                "score": vocabulary.score(id),
                "bytes_hex": hex(tokenizer.piece(id).unwrap_or_default()),
            });
            safe_json::write(&mut out, &token)?;
        }
        out.write_all(b"\n]\n")?;
        out.flush()?;
    } else {
        let mut out = console.text();
        for id in ids {
            count += 1;
            let text = RawStr::new(vocabulary.text(id).unwrap_or_default());
            let bytes = RawStr::new(tokenizer.piece(id).unwrap_or_default());
            let kinds = kinds(&tokenizer, id).join(" ");
            let score = vocabulary.score(id);
            let text = format!("{text:?}");
            writeln!(out, "{id:>7}  {kinds:<14} {score:>10}  {text:<24} {bytes:?}")?;
        }
        out.flush()?;
    }
    if count == 0 {
        console.warn(format_args!("no token matches {:?}", RawStr::from(glob.as_str())));
        return Ok(Status::Findings);
    }
    Ok(Status::Fine)
}

/// Returns the names of the attributes of a token.
fn kinds(tokenizer: &Tokenizer, id: u32) -> Vec<&'static str> {
    let attributes = tokenizer.vocabulary().attributes(id);
    let mut kinds = Vec::new();
    for (attribute, name) in [
        (Attributes::NORMAL, "normal"),
        (Attributes::UNKNOWN, "unknown"),
        (Attributes::CONTROL, "control"),
        (Attributes::USER_DEFINED, "user-defined"),
        (Attributes::UNUSED, "unused"),
        (Attributes::BYTE, "byte"),
    ] {
        if attributes.contains(attribute) {
            kinds.push(name);
        }
    }
    kinds
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
