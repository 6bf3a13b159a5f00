//! The tensors of a model that a graph needs, by the names that steps have for them.

use std::collections::BTreeMap;

use crate::block::BLOCK;
use crate::graph::Weight;
use crate::resolve::Resolved;

/// Tensors of one model.
pub(super) struct Weights<'a> {
    model: &'a Resolved<'a>,
    present: &'a dyn Fn(&str) -> bool,
    pub(super) list: Vec<Weight>,
    by_name: BTreeMap<String, usize>,
}

impl<'a> Weights<'a> {
    pub(super) fn new(model: &'a Resolved<'a>, present: &'a dyn Fn(&str) -> bool) -> Self {
        Self { model, present, list: Vec::new(), by_name: BTreeMap::new() }
    }

    /// The name that a step means: of the block where the block has such tensors, else of the
    /// model.
    pub(super) fn whole_name(&self, name: &str, block: Option<u64>) -> String {
        if let Some(block) = block {
            let of_block = format!("{BLOCK}{block}.{name}");
            let is_described = ["", ".weight", ".bias"]
                .iter()
                .any(|ending| self.model.tensor(&format!("{of_block}{ending}")).is_some());
            if is_described {
                return of_block;
            }
        }
        name.to_owned()
    }

    /// The tensor with this name, or the one that does its work: with its dimensions, those of 1 at
    /// the end left out.
    pub(super) fn find(&mut self, name: &str) -> Option<usize> {
        let name = if (self.present)(name) {
            name
        } else {
            let tied = self.model.tensor(name)?.tied.as_deref()?;
            Some(tied).filter(|tied| (self.present)(tied))?
        };
        if let Some(&known) = self.by_name.get(name) {
            return Some(known);
        }
        let dimensions = self.model.tensor(name)?.shape.dimensions();
        let used = dimensions.iter().rposition(|&dimension| dimension != 1);
        let used = used.map_or(1, |last| last.saturating_add(1)).min(dimensions.len());
        let dimensions = dimensions.get(..used).unwrap_or_default().to_vec();
        Some(self.add(name, dimensions))
    }

    /// A tensor that no description has, because programs that quantize add it: its dimensions
    /// follow from what it belongs to.
    pub(super) fn scale(&mut self, name: &str, dimensions: &[u64]) -> Option<usize> {
        if !(self.present)(name) {
            return None;
        }
        let known = self.by_name.get(name).copied();
        Some(known.unwrap_or_else(|| self.add(name, dimensions.to_vec())))
    }

    fn add(&mut self, name: &str, dimensions: Vec<u64>) -> usize {
        let number = self.list.len();
        self.by_name.insert(name.to_owned(), number);
        self.list.push(Weight { name: name.to_owned(), dimensions });
        number
    }

    pub(super) fn dimensions(&self, weight: usize) -> &[u64] {
        self.list.get(weight).map_or(&[], |weight| &weight.dimensions)
    }

    pub(super) fn name(&self, weight: usize) -> &str {
        self.list.get(weight).map_or("", |weight| &weight.name)
    }
}
