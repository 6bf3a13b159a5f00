//! Tokenizes the texts of a file and detokenizes them again, in the form of
//! `conformance/tokenization.py`, which compares the result with llama.cpp's.
//!
//! ```text
//! ids MODEL.gguf TEXTS OUT
//! ```

mod results;

use std::error::Error;
use std::io::{BufWriter, Write};

use ggmill_core::Header;
use ggmill_tokenizer::Tokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("expected MODEL.gguf TEXTS OUT");
    let (model, texts, out) = (std::fs::read(next()?)?, std::fs::read(next()?)?, next()?);
    let file = Header::parse(&model)?;
    let tokenizer = Tokenizer::from_metadata(&file.metadata())?;
    let mut out = BufWriter::new(std::fs::File::create(out)?);
    let mut record = Vec::new();
    for text in results::texts(&texts) {
        record.clear();
        results::of_text(&tokenizer, text, &mut record)?;
        out.write_all(&record)?;
    }
    for id in 0..tokenizer.vocabulary().len() {
        record.clear();
        results::of_token(&tokenizer, id, &mut record)?;
        out.write_all(&record)?;
    }
    out.flush()?;
    Ok(())
}
