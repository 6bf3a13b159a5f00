//! Records the texts of a template with which it compares the contents of messages.

use std::cell::RefCell;

use crate::conversation::Field;
use crate::error::Result;
use crate::meter::Meter;
use crate::value::{Text, Value};

/// Maximum number of recorded comparisons of a rendering, and length of their texts in bytes.
const MAX_PROBES: usize = 128;
const MAX_LEN: usize = 200;

/// The relation of a content to a text that a template tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Comparison {
    Equals,
    Contains,
    Begins,
    Ends,
}

/// A comparison of the content of a message, or of a part of it, with a text of the template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Probe {
    /// The path of the content, such as `messages[0].content`.
    pub(crate) path: String,
    pub(crate) comparison: Comparison,
    pub(crate) text: String,
}

/// The comparisons of a rendering.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    found: RefCell<Vec<Probe>>,
    /// The path of each field that is the content of a message.
    contents: RefCell<Vec<Option<String>>>,
}

impl Probes {
    /// Sets the fields of the conversation that is rendered.
    pub(crate) fn begin(&self, fields: &[Field]) {
        let content = |field: &Field| {
            let path = &field.path;
            let is_content = path.starts_with("messages[")
                && path.contains("].content")
                && !path.ends_with("(name)")
                && path.rsplit('.').next() != Some("type");
            is_content.then(|| path.clone())
        };
        *self.contents.borrow_mut() = fields.iter().map(content).collect();
    }

    /// Returns the comparisons, ordered and without duplicates.
    #[cfg(feature = "tokens")]
    pub(crate) fn into_found(self) -> Vec<Probe> {
        let mut found = self.found.into_inner();
        found.sort();
        found.dedup();
        found
    }

    /// Records that the template compares two values: texts, or a text with the items of a list or the
    /// keys of a dictionary.
    pub(crate) fn compare(
        &self,
        comparison: Comparison,
        value: &Value,
        other: &Value,
        meter: &Meter,
    ) -> Result<()> {
        match (value, other) {
            (Value::Text(first), Value::Text(second)) => {
                self.texts(comparison, first, second, meter)?;
                if comparison == Comparison::Equals {
                    self.texts(comparison, second, first, meter)?;
                }
            }
            (Value::Seq(items), Value::Text(text)) if comparison == Comparison::Contains => {
                for item in items.read()? {
                    if let Value::Text(item) = item {
                        self.texts(Comparison::Equals, text, item, meter)?;
                    }
                }
            }
            (Value::Dict(entries), Value::Text(text)) if comparison == Comparison::Contains => {
                // Most keys are names that the template writes out.
                if self.content(text, meter)?.is_none() {
                    return Ok(());
                }
                for (key, _) in entries.read()? {
                    if let Value::Text(key) = key {
                        self.texts(Comparison::Equals, text, key, meter)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the path of the content from which a part of a text comes.
    fn content(&self, text: &Text, meter: &Meter) -> Result<Option<String>> {
        meter.spend(1)?;
        let contents = self.contents.borrow();
        let mut marks = text.pieces(0..text.len()).take(MAX_PROBES).map(|(_, mark)| mark.number());
        let number = marks.find_map(|number| {
            number.filter(|&number| contents.get(number).is_some_and(Option::is_some))
        });
        Ok(number.and_then(|number| contents.get(number).cloned().flatten()))
    }

    fn texts(
        &self,
        comparison: Comparison,
        content: &Text,
        text: &Text,
        meter: &Meter,
    ) -> Result<()> {
        let is_full = self.found.borrow().len() >= MAX_PROBES;
        if is_full || text.is_empty() || text.len() > MAX_LEN {
            return Ok(());
        }
        let Some(path) = self.content(content, meter)? else { return Ok(()) };
        if text.pieces(0..text.len()).any(|(_, mark)| mark.number().is_some()) {
            return Ok(());
        }
        let text = text.read()?;
        if !text.trim().is_empty() {
            self.found.borrow_mut().push(Probe { path, comparison, text: text.to_owned() });
        }
        Ok(())
    }
}
