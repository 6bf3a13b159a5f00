//! The results of a tokenizer, in the form that `xtask/peers/tokenization.py` describes.

use ggmill_tokenizer::{DecodeOptions, EncodeOptions, Error, Tokenizer};

/// The texts of a file: the length of each, and its bytes.
pub(crate) fn texts(mut file: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = file.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        file = rest;
        Some(text)
    })
}

/// Appends the tokens of a text, without special tokens and with, and the text they give back.
pub(crate) fn of_text(tokenizer: &Tokenizer, text: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut ids = [Vec::new(), Vec::new()];
    for (special, ids) in [false, true].into_iter().zip(&mut ids) {
        let options = EncodeOptions::new().add_special(special).parse_special(special);
        tokenizer.encode(text, &options, ids)?;
        number(ids.len(), out);
        out.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    }
    let [plain, special] = ids;
    decoded(tokenizer, &plain, DecodeOptions::new().unparse_special(true), out)?;
    decoded(tokenizer, &special, DecodeOptions::new(), out)?;
    let both = DecodeOptions::new().remove_special(true).unparse_special(true);
    decoded(tokenizer, &special, both, out)
}

/// Appends the text of one token, without special tokens and with.
pub(crate) fn of_token(tokenizer: &Tokenizer, id: u32, out: &mut Vec<u8>) -> Result<(), Error> {
    decoded(tokenizer, &[id], DecodeOptions::new(), out)?;
    decoded(tokenizer, &[id], DecodeOptions::new().unparse_special(true), out)
}

fn decoded(
    tokenizer: &Tokenizer,
    ids: &[u32],
    options: DecodeOptions,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut text = Vec::new();
    tokenizer.decode(ids, &options, &mut text)?;
    number(text.len(), out);
    out.extend_from_slice(&text);
    Ok(())
}

fn number(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}
