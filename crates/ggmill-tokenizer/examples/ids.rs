//! Tokenizes the texts of a file and detokenizes them again, in the form of
//! `xtask/peers/tokenization.py`, which compares the result with llama.cpp's.
//!
//! ```text
//! ids MODEL.gguf TEXTS OUT
//! ```

use std::error::Error;
use std::io::{BufWriter, Write};

use ggmill_core::Gguf;
use ggmill_tokenizer::{DecodeOptions, EncodeOptions, Tokenizer};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("expected MODEL.gguf TEXTS OUT");
    let (model, texts, out) = (std::fs::read(next()?)?, std::fs::read(next()?)?, next()?);
    let file = Gguf::parse(&model)?;
    let tokenizer = Tokenizer::from_metadata(&file.metadata())?;
    let mut out = BufWriter::new(std::fs::File::create(out)?);
    let mut rest = &texts[..];
    let mut ids = [Vec::new(), Vec::new()];
    let mut text = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (given, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        for (special, ids) in [false, true].into_iter().zip(&mut ids) {
            ids.clear();
            let options = EncodeOptions::new().add_special(special).parse_special(special);
            tokenizer.encode(given, &options, ids)?;
            out.write_all(&u32::try_from(ids.len())?.to_le_bytes())?;
            for id in ids {
                out.write_all(&id.to_le_bytes())?;
            }
        }
        for (ids, remove, unparse) in
            [(&ids[0], false, true), (&ids[1], false, false), (&ids[1], true, true)]
        {
            text.clear();
            let options = DecodeOptions::new().remove_special(remove).unparse_special(unparse);
            tokenizer.decode(ids, &options, &mut text)?;
            out.write_all(&u32::try_from(text.len())?.to_le_bytes())?;
            out.write_all(&text)?;
        }
        rest = after;
    }
    for id in 0..tokenizer.vocabulary().len() {
        for unparse in [false, true] {
            text.clear();
            let options = DecodeOptions::new().unparse_special(unparse);
            tokenizer.decode(&[id], &options, &mut text)?;
            out.write_all(&u32::try_from(text.len())?.to_le_bytes())?;
            out.write_all(&text)?;
        }
    }
    out.flush()?;
    Ok(())
}
