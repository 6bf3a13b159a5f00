//! Which pre-tokenizer a vocabulary was made for.

use ggmill_core::Metadata;

use crate::compare::compare;
use crate::error::Error;
use crate::options::{EncodeOptions, LoadOptions};
use crate::pre;
use crate::tokenizer::Tokenizer;

/// How well the rules of a pre-tokenizer fit a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fit {
    /// The names in `tokenizer.ggml.pre` that have these rules.
    pub names: Vec<&'static str>,
    /// The parts of the text that are cut differently than by the reference.
    pub differences: usize,
}

/// Which pre-tokenizers make of a text what another tokenizer makes of it, with the vocabulary of a
/// file: those with the fewest differences first.
///
/// Fails where [`Tokenizer::with_options`] and [`compare`] do, and where the file's tokenizer has no
/// pre-tokenizer the result is empty.
pub fn fitting_pre_tokenizers(
    metadata: &Metadata<'_>,
    reference: &Tokenizer,
    text: impl AsRef<[u8]>,
    options: &EncodeOptions,
) -> Result<Vec<Fit>, Error> {
    let text = text.as_ref();
    let mut fits: Vec<(&str, Fit)> = Vec::new();
    for name in pre::names() {
        let rules = pre::rules(name).unwrap_or(name);
        if let Some((_, fit)) = fits.iter_mut().find(|(known, _)| *known == rules) {
            fit.names.push(name);
            continue;
        }
        let tokenizer = Tokenizer::with_options(metadata, &LoadOptions::new().pre(name))?;
        if tokenizer.vocabulary().pre_tokenizer().is_none() {
            return Ok(Vec::new());
        }
        // Begin tokens follow from the name, and are not what is asked for.
        let options = options.add_special(false);
        let differences = compare(&tokenizer, reference, text, &options)?.differences;
        fits.push((rules, Fit { names: vec![name], differences }));
    }
    let mut fits: Vec<Fit> = fits.into_iter().map(|(_, fit)| fit).collect();
    fits.sort_by_key(|fit| fit.differences);
    Ok(fits)
}
