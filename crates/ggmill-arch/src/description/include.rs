//! Merges included parts into a description.

use std::collections::{BTreeMap, BTreeSet};

use crate::data::schema::{Merge as _, RawArchitecture, RawPart, RawStage};
use crate::error::{Error, ErrorKind, Result, quoted};
use crate::limits::MAX_INCLUDES;

/// The schema name of parts.
const SCHEMA: &str = "ggmill.architecture-part/1";

/// A collection of parts.
pub(crate) trait Parts {
    /// Returns the names of all parts.
    fn names(&self) -> Vec<&str>;

    /// Returns the part with this name, if it exists.
    fn part(&self, name: &str) -> Option<Result<RawPart>>;

    /// Returns the source of the graphs of the built-in architecture with this name.
    fn program(&self, name: &str) -> Option<String>;
}

/// Parts as pairs of name and TOML text.
impl Parts for &[(&str, &str)] {
    fn names(&self) -> Vec<&str> {
        self.iter().map(|(name, _)| *name).collect()
    }

    fn part(&self, name: &str) -> Option<Result<RawPart>> {
        let text = self.iter().find(|(part, _)| *part == name).map(|(_, text)| *text);
        text.map(|text| RawPart::parse(name, text))
    }

    fn program(&self, _name: &str) -> Option<String> {
        None
    }
}

impl RawArchitecture {
    /// Merges the included parts into the description, in order. A definition in the description
    /// overrides those in parts field by field.
    pub(crate) fn include_parts(&mut self, parts: &dyn Parts) -> Result<()> {
        if self.include.len() > MAX_INCLUDES {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("includes {} parts, the limit is {MAX_INCLUDES}", self.include.len()),
            ));
        }
        let mut whole = RawPart::default();
        for name in core::mem::take(&mut self.include) {
            let part = parts.part(&name).ok_or_else(|| {
                Error::description(format!(
                    "include {}: there is no such part; the parts are {}",
                    quoted(&name),
                    parts.names().join(", ")
                ))
            })?;
            add(&mut whole, part?);
        }
        for name in core::mem::take(&mut self.drop) {
            if !whole.remove(&name) {
                let message = format!("drop {}: no included part contains it", quoted(&name));
                return Err(Error::description(message));
            }
        }
        for (name, fields) in core::mem::take(&mut self.change).0 {
            let mut groups = whole.tensors.iter_mut();
            let tensor = groups.find_map(|group| group.tensor.get_mut(&name)).ok_or_else(|| {
                Error::description(format!(
                    "change {}: no included part has this tensor",
                    quoted(&name)
                ))
            })?;
            tensor.merge(fields);
        }
        add(&mut whole, self.take_part());
        self.set_part(whole);
        self.order_keys()
    }
}

impl RawArchitecture {
    /// Sorts keys by the `order` list, if there is one. All other keys are only written by other
    /// programs.
    fn order_keys(&mut self) -> Result<()> {
        let Some(order) = &self.order else { return Ok(()) };
        let mut ordered = Vec::with_capacity(self.keys.0.len());
        for name in order {
            let key = self.keys.remove(name).ok_or_else(|| {
                Error::description(format!("order: {} is not a key, or occurs twice", quoted(name)))
            })?;
            ordered.push((name.clone(), key));
        }
        for (name, mut key) in core::mem::take(&mut self.keys.0) {
            key.stage = Some(RawStage::Never);
            ordered.push((name, key));
        }
        self.keys.0 = ordered;
        Ok(())
    }
}

impl RawPart {
    /// Removes the hyperparameter, key or tensor with this name. Returns `true` if it existed.
    fn remove(&mut self, name: &str) -> bool {
        let groups = &mut self.tensors;
        self.parameters.remove(name).is_some()
            || self.keys.remove(name).is_some()
            || groups.iter_mut().any(|group| group.tensor.remove(name).is_some())
    }

    /// Parses a part.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let part: Self = toml::from_str(text)
            .map_err(|error| Error::description(format!("part {name}: {}", error.message())))?;
        if part.schema == SCHEMA {
            Ok(part)
        } else {
            Err(Error::description(format!(
                "part {name}: schema is {}, expected {SCHEMA:?}",
                quoted(&part.schema)
            )))
        }
    }
}

/// Merges a later part: it overrides definitions field by field. Tensors move to the group that defines
/// them last.
fn add(whole: &mut RawPart, mut more: RawPart) {
    whole.parameters.merge(more.parameters);
    whole.keys.merge(more.keys);
    whole.order = more.order.or(whole.order.take());
    let again: BTreeSet<String> = more
        .tensors
        .iter()
        .flat_map(|group| &group.tensor.0)
        .map(|(name, _)| name.clone())
        .collect();
    let mut earlier = BTreeMap::new();
    for group in &mut whole.tensors {
        for name in &again {
            earlier.extend(group.tensor.remove(name).map(|tensor| (name.clone(), tensor)));
        }
    }
    for group in &mut more.tensors {
        group.tensor.complete(&mut earlier);
    }
    whole.tensors.extend(more.tensors);
    whole.ignore.extend(more.ignore);
    whole.only.extend(more.only);
    whole.zeros.extend(more.zeros);
    whole.rename.extend(more.rename);
    whole.vocabulary = more.vocabulary.or(whole.vocabulary.take());
    match (&mut whole.memory, more.memory) {
        (Some(whole), Some(more)) => whole.merge(more),
        (whole, more) => *whole = whole.take().or(more),
    }
    whole.contradiction.extend(more.contradiction);
    whole.refuse.extend(more.refuse);
    whole.warn.extend(more.warn);
    whole.assume.extend(more.assume);
}
