//! Metadata held side by side.

use std::collections::BTreeMap;

use ggmill_core::{Array, Entry, Model, Result, Value};

use super::{Diff, KeyDiff, first_moved};
use crate::Selection;

impl<'a> Diff<'a> {
    pub(super) fn compare_metadata(
        &mut self,
        a: &'a Model,
        b: &'a Model,
        selection: &Selection,
    ) -> Result<()> {
        let (a, b) = (entries(a, selection), entries(b, selection));
        let mut in_b: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (number, entry) in b.iter().enumerate().rev() {
            in_b.entry(entry.key().as_bytes()).or_default().push(number);
        }
        let mut taken = vec![false; b.len()];
        let mut places = Vec::new();
        let mut found = Vec::new();
        for entry in &a {
            let other = in_b.get_mut(entry.key().as_bytes()).and_then(Vec::pop);
            let (before, mut after) = (entry.value()?, None);
            if let Some(number) = other {
                places.push((entry.key(), number));
                if let (Some(taken), Some(entry)) = (taken.get_mut(number), b.get(number)) {
                    *taken = true;
                    after = Some(entry.value()?);
                }
            }
            match &after {
                Some(after) if is_same(&before, after) => self.same_keys += 1,
                _ => {
                    let first_difference =
                        after.as_ref().and_then(|after| first_difference(&before, after));
                    found.push(KeyDiff {
                        key: entry.key(),
                        sides: [Some(before), after],
                        first_difference,
                    });
                }
            }
        }
        for (entry, _) in b.iter().zip(&taken).filter(|(_, taken)| !**taken) {
            found.push(KeyDiff {
                key: entry.key(),
                sides: [None, Some(entry.value()?)],
                first_difference: None,
            });
        }
        self.moved_key = first_moved(places.into_iter());
        self.metadata = Some(found);
        Ok(())
    }
}

/// The entries of a model; those that say how it is divided into shards, and the space that edits
/// reserve, are not about it.
fn entries<'a>(model: &'a Model, selection: &Selection) -> Vec<Entry<'a>> {
    let is_set = model.parts().len() > 1;
    let admitted = |entry: &Entry<'_>| {
        let key = entry.key().as_bytes();
        selection.has_key(entry.key())
            && key != ggmill_core::keys::GGMILL_PADDING.as_bytes()
            && !(is_set && key.starts_with(b"split."))
    };
    model.metadata().iter().filter(admitted).collect()
}

/// Whether two values are of the same type and equal, floats bit for bit.
fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Value::Array(b)) => {
            a.element_type() == b.element_type()
                && a.len() == b.len()
                && first_of_arrays(a, b).is_none()
        }
        _ => a == b,
    }
}

fn first_difference(a: &Value<'_>, b: &Value<'_>) -> Option<u64> {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if a.element_type() == b.element_type() => {
            first_of_arrays(a, b)
        }
        (Value::Str(a), Value::Str(b)) => {
            Some(a.as_bytes().iter().zip(b.as_bytes()).take_while(|(a, b)| a == b).count() as u64)
        }
        _ => None,
    }
}

fn first_of_arrays(a: &Array<'_>, b: &Array<'_>) -> Option<u64> {
    let differ =
        a.iter().zip(b.iter()).position(|pair| !matches!(pair, (Ok(a), Ok(b)) if is_same(&a, &b)));
    differ.map(|index| index as u64).or_else(|| (a.len() != b.len()).then(|| a.len().min(b.len())))
}
