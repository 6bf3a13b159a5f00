//! Tokenization and detokenization.

use ggmill_tokenizer::{DecodeOptions, EncodeOptions, Error, Tokenizer};

use crate::failure::Failure;
use crate::record::{Fields, Record};

/// Tokenizes the input, and writes the tokens as `ggmill tokenize --json` does. Bits of the argument:
/// 0 adds BOS and EOS tokens, 1 parses control tokens.
pub(crate) fn tokenize(
    tokenizer: &Tokenizer,
    argument: u64,
    input: &[u8],
) -> Result<Record, Failure> {
    let options =
        EncodeOptions::new().add_special(argument & 1 != 0).parse_special(argument & 2 != 0);
    let mut pieces = Vec::new();
    tokenizer.encode_with_offsets(input, &options, &mut pieces)?;
    let mut out = Vec::new();
    tokenizer.write_json(&pieces, &mut out).map_err(|error| Failure::new("io", error))?;
    Ok(out.into())
}

/// Converts the token IDs in the input to text. Bits of the argument: 0 omits BOS and EOS tokens, 1
/// includes control tokens.
pub(crate) fn detokenize(
    tokenizer: &Tokenizer,
    argument: u64,
    input: &[u8],
) -> Result<Record, Failure> {
    let options =
        DecodeOptions::new().remove_special(argument & 1 != 0).unparse_special(argument & 2 != 0);
    let mut fields = Fields(input);
    let ids: Vec<u32> = std::iter::from_fn(|| fields.u32()).collect();
    let mut text = Vec::new();
    tokenizer.decode(&ids, &options, &mut text)?;
    Ok(text.into())
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Self::about(error.kind().name(), &error, error.key())
    }
}
