//! How a description takes in the parts that it shares with others.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result, quoted};
use crate::limits::MAX_INCLUDES;
use crate::schema::{Ordered, RawArchitecture, RawPart};

/// The schema a part names.
const SCHEMA: &str = "ggmill.architecture-part/1";

/// The parts there are: name and text of each.
pub(crate) type Parts<'a> = &'a [(&'a str, &'a str)];

impl RawArchitecture {
    /// Puts the parts it includes before what it says itself. What it names again, it says
    /// differently: that replaces what the part says.
    pub(crate) fn include_parts(&mut self, parts: Parts<'_>) -> Result<()> {
        if self.include.len() > MAX_INCLUDES {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("includes {} parts, the limit is {MAX_INCLUDES}", self.include.len()),
            ));
        }
        let mut whole = RawPart {
            schema: SCHEMA.into(),
            parameters: Ordered::default(),
            keys: Ordered::default(),
            tensors: Vec::new(),
            contradiction: Vec::new(),
        };
        for name in core::mem::take(&mut self.include) {
            let text = parts.iter().find(|(part, _)| *part == name).map(|(_, text)| *text);
            let text = text.ok_or_else(|| {
                let known: Vec<_> = parts.iter().map(|(part, _)| *part).collect();
                Error::description(format!(
                    "include {}: there is no such part; there are {}",
                    quoted(&name),
                    known.join(", ")
                ))
            })?;
            add(&mut whole, RawPart::parse(&name, text)?);
        }
        let own = RawPart {
            schema: SCHEMA.into(),
            parameters: core::mem::take(&mut self.parameters),
            keys: core::mem::take(&mut self.keys),
            tensors: core::mem::take(&mut self.tensors),
            contradiction: core::mem::take(&mut self.contradiction),
        };
        add(&mut whole, own);
        RawPart {
            parameters: self.parameters,
            keys: self.keys,
            tensors: self.tensors,
            contradiction: self.contradiction,
            ..
        } = whole;
        Ok(())
    }
}

impl RawPart {
    /// Reads the part with this name.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let part: Self = toml::from_str(text)
            .map_err(|error| Error::description(format!("part {name}: {}", error.message())))?;
        if part.schema == SCHEMA {
            Ok(part)
        } else {
            Err(Error::description(format!(
                "part {name}: schema {}, expected {SCHEMA:?}",
                quoted(&part.schema)
            )))
        }
    }
}

fn add(whole: &mut RawPart, more: RawPart) {
    replace(&mut whole.parameters, more.parameters);
    replace(&mut whole.keys, more.keys);
    let again: BTreeSet<&str> =
        more.tensors.iter().flat_map(|group| &group.tensor.0).map(|(name, _)| &**name).collect();
    for earlier in &mut whole.tensors {
        earlier.tensor.0.retain(|(name, _)| !again.contains(&**name));
    }
    whole.tensors.extend(more.tensors);
    whole.contradiction.extend(more.contradiction);
}

/// Entries of the same name replace what was there; others are appended.
fn replace<T>(whole: &mut Ordered<T>, more: Ordered<T>) {
    let mut places: BTreeMap<String, usize> =
        whole.0.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
    for (name, entry) in more.0 {
        if let Some((_, place)) = places.get(&name).and_then(|&place| whole.0.get_mut(place)) {
            *place = entry;
        } else {
            places.insert(name.clone(), whole.0.len());
            whole.0.push((name, entry));
        }
    }
}
