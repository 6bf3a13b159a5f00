//! The tokens of a text as JSON.

use std::io::{self, Write};

use ggmill_core::RawStr;
use ggmill_text::{LosslessStr, json as safe_json};
use serde_json::json;

use crate::sink::Piece;
use crate::tokenizer::Tokenizer;

impl Tokenizer {
    /// Writes tokens as a JSON document: their `count`, and in `tokens` for each its `id`, its
    /// `piece` (`{"bytes_hex":"…"}` if it is not UTF-8), and the bytes from `start` to `end` of the
    /// text.
    ///
    /// Fails where writing does.
    pub fn write_json(&self, pieces: &[Piece], out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{{\n  \"count\": {},\n  \"tokens\": [", pieces.len())?;
        for (number, piece) in pieces.iter().enumerate() {
            write!(out, "{}\n    ", if number > 0 { "," } else { "" })?;
            let text = RawStr::new(self.piece(piece.id).unwrap_or_default());
            let token = json!({
                "id": piece.id,
                "piece": LosslessStr(text),
                "start": piece.start,
                "end": piece.end,
            });
            safe_json::write(out, &token)?;
        }
        out.write_all(b"\n  ]\n}\n")
    }
}
