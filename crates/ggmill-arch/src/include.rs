//! Parts that descriptions share, and how a description takes them in.

use crate::error::{Error, Result, quoted};
use crate::schema::{Ordered, RawArchitecture, RawPart};

/// The schema a part names.
const SCHEMA: &str = "ggmill.architecture-part/1";

macro_rules! parts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../data/parts/", $name, ".toml")))),*]
    };
}

/// The parts there are.
static PARTS: &[(&str, &str)] =
    parts!["attention", "block-norms", "experts", "feed-forward", "ffn-gated", "gpt-block", "layer-norm", "model", "output", "qkv", "rms-norm", "rope"];

impl RawArchitecture {
    /// Puts the parts it includes before what it says itself. What it names again, it says differently: that stands in the place of the part's.
    pub(crate) fn include_parts(&mut self) -> Result<()> {
        let mut whole =
            RawPart { schema: SCHEMA.into(), parameters: Ordered::default(), keys: Ordered::default(), tensors: Vec::new(), contradiction: Vec::new() };
        for name in core::mem::take(&mut self.include) {
            let text = PARTS.iter().find(|(part, _)| *part == name).map(|(_, text)| *text);
            let text = text.ok_or_else(|| {
                let known: Vec<_> = PARTS.iter().map(|(part, _)| *part).collect();
                Error::description(format!("include {}: there is no such part; there are {}", quoted(&name), known.join(", ")))
            })?;
            add(&mut whole, parse(&name, text)?);
        }
        let own = RawPart {
            schema: SCHEMA.into(),
            parameters: core::mem::take(&mut self.parameters),
            keys: core::mem::take(&mut self.keys),
            tensors: core::mem::take(&mut self.tensors),
            contradiction: core::mem::take(&mut self.contradiction),
        };
        add(&mut whole, own);
        RawPart { parameters: self.parameters, keys: self.keys, tensors: self.tensors, contradiction: self.contradiction, .. } = whole;
        Ok(())
    }
}

fn parse(name: &str, text: &str) -> Result<RawPart> {
    let part: RawPart = toml::from_str(text).map_err(|error| Error::description(format!("part {name}: {}", error.message())))?;
    if part.schema == SCHEMA { Ok(part) } else { Err(Error::description(format!("part {name}: schema {}, expected {SCHEMA:?}", quoted(&part.schema)))) }
}

fn add(whole: &mut RawPart, more: RawPart) {
    replace(&mut whole.parameters, more.parameters);
    replace(&mut whole.keys, more.keys);
    for group in &more.tensors {
        for (name, _) in &group.tensor.0 {
            for earlier in &mut whole.tensors {
                earlier.tensor.0.retain(|(other, _)| other != name);
            }
        }
    }
    whole.tensors.extend(more.tensors);
    whole.contradiction.extend(more.contradiction);
}

/// Entries of the same name take the place of what was there; others go behind.
fn replace<T>(whole: &mut Ordered<T>, more: Ordered<T>) {
    for (name, entry) in more.0 {
        match whole.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, place)) => *place = entry,
            None => whole.0.push((name, entry)),
        }
    }
}
