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

/// The conclusion about the name in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// No name fits better than that of the file.
    Keep,
    /// This name fits, and that of the file does not.
    Replace(&'static str),
    /// Several names with different rules fit: a longer text would tell them apart.
    Undecided(Vec<&'static str>),
    /// No name makes of the text what the reference makes of it: the vocabularies differ in more
    /// than the pre-tokenizer.
    NoneFits,
}

/// Which pre-tokenizers fit a reference, and what follows for the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fitting {
    /// The rules of all names, those with the fewest differences first. Empty where the file's
    /// tokenizer has no pre-tokenizer.
    pub fits: Vec<Fit>,
    /// Advice for `tokenizer.ggml.pre`.
    pub advice: Advice,
}

/// Which pre-tokenizers make of a text what another tokenizer makes of it, with the vocabulary of a
/// file.
///
/// Names with the same rules can differ in the tokens that they add at the beginning and the end:
/// the advice is a name that adds what the reference adds, that of the reference where it fits.
///
/// Fails where [`Tokenizer::with_options`] and [`compare`] do.
pub fn fitting_pre_tokenizers(
    metadata: &Metadata<'_>,
    reference: &Tokenizer,
    text: impl AsRef<[u8]>,
    options: &EncodeOptions,
) -> Result<Fitting, Error> {
    let text = text.as_ref();
    let with = |name: &str| Tokenizer::with_options(metadata, &LoadOptions::new().pre(name));
    let mut fits: Vec<(&str, Fit)> = Vec::new();
    for name in pre::names() {
        let rules = pre::rules(name).unwrap_or(name);
        if let Some((_, fit)) = fits.iter_mut().find(|(known, _)| *known == rules) {
            fit.names.push(name);
            continue;
        }
        let tokenizer = with(name)?;
        if tokenizer.vocabulary().pre_tokenizer().is_none() {
            return Ok(Fitting { fits: Vec::new(), advice: Advice::Keep });
        }
        let options = options.add_special(false);
        let differences = compare(&tokenizer, reference, text, &options)?.differences;
        fits.push((rules, Fit { names: vec![name], differences }));
    }
    let mut fits: Vec<Fit> = fits.into_iter().map(|(_, fit)| fit).collect();
    fits.sort_by_key(|fit| fit.differences);

    let added = |tokenizer: &Tokenizer| -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        tokenizer.encode("", &options.add_special(true), &mut ids)?;
        Ok(ids)
    };
    let expected = added(reference)?;
    let adds_the_same = |name: &str| Ok::<_, Error>(added(&with(name)?)? == expected);
    let best: Vec<&Fit> = fits.iter().filter(|fit| fit.differences == 0).collect();
    let fitting = |name: &str| {
        let mut names = best.iter().flat_map(|fit| &fit.names);
        names.find(|known| **known == name).copied()
    };
    let own = metadata.str("tokenizer.ggml.pre").unwrap_or("default");
    let theirs = reference.vocabulary().pre_tokenizer().and_then(fitting);
    let advice = if best.is_empty() {
        Advice::NoneFits
    } else if fitting(own).is_some() && adds_the_same(own)? {
        Advice::Keep
    } else if let Some(name) = theirs
        && adds_the_same(name)?
    {
        Advice::Replace(name)
    } else {
        // One of each set of rules is enough to choose from.
        let mut names = Vec::new();
        for fit in &best {
            for name in &fit.names {
                if adds_the_same(name)? {
                    names.push(*name);
                    break;
                }
            }
        }
        match *names {
            [] => Advice::NoneFits,
            [name] => Advice::Replace(name),
            _ => Advice::Undecided(names),
        }
    };
    Ok(Fitting { fits, advice })
}
