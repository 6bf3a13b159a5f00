//! Assigns checkpoint tensors to tensors of the file.

use std::collections::BTreeMap;

use crate::description::tensor::{Origin, Source, TensorSpec};
use crate::error::Result;
use crate::resolve::Resolved;

/// The tensors of the file with their sources in a checkpoint, and unassigned checkpoint tensors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Assignment<'r> {
    /// The tensors of the file in order: first those whose source is marked ([`Source::first`]), then
    /// computed ones, then each at the position of the last of its sources in the checkpoint.
    pub tensors: Vec<Assigned<'r>>,
    /// Positions of checkpoint tensors that are neither used nor ignored.
    pub unknown: Vec<usize>,
}

/// A tensor of the file with its source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Assigned<'r> {
    /// The tensor.
    pub spec: &'r TensorSpec,
    /// The checkpoint names and operations; `None` if the tensor is computed.
    pub source: Option<&'r Source>,
    /// Positions of the source tensors in the checkpoint, in the order of the source.
    pub positions: Vec<usize>,
}

impl Resolved<'_> {
    /// Assigns the tensors of a checkpoint with these tensor names, as [`name_rules`](Self::name_rules)
    /// rename them. Ignored tensors count as missing.
    ///
    /// The order of the file equals the reference's if `names` are in its order: shards by file name,
    /// names sorted within each. Fails if a required tensor is missing or incomplete.
    pub fn assign<'r>(&'r self, names: &[impl AsRef<str>]) -> Result<Assignment<'r>> {
        self.assigned(names, true)
    }

    /// Like [`assign`](Self::assign), for a checkpoint with only some of the tensors, such as an
    /// adapter: no tensor is required, and none is computed. Fails only if a tensor is incomplete.
    pub fn assign_some<'r>(&'r self, names: &[impl AsRef<str>]) -> Result<Assignment<'r>> {
        self.assigned(names, false)
    }

    fn assigned<'r>(
        &'r self,
        names: &[impl AsRef<str>],
        is_complete: bool,
    ) -> Result<Assignment<'r>> {
        let positions_of: BTreeMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(position, name)| (name.as_ref(), position))
            .filter(|(name, _)| !self.name_rules().ignores(name))
            .collect();
        let mut used = vec![false; names.len()];
        let mut assigned = Vec::with_capacity(self.tensors().len());
        // The position of each group of tensors that are written consecutively.
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for spec in self.tensors() {
            if !is_complete && !spec.has_some(|name| positions_of.contains_key(name)) {
                continue;
            }
            let source = spec
                .source(|name| positions_of.contains_key(name))
                .map_err(|error| error.within(self.architecture().name()))?;
            if source.is_none() && !matches!(spec.origin, Origin::Computed(_)) {
                continue;
            }
            let positions: Vec<usize> = source
                .iter()
                .flat_map(|source| &source.names)
                .filter_map(|name| positions_of.get(&**name).copied())
                .collect();
            for &position in &positions {
                if let Some(used) = used.get_mut(position) {
                    *used = true;
                }
            }
            if let (Some(group), Some(&last)) = (&spec.together, positions.iter().max()) {
                let place = places.entry(group).or_insert(last);
                *place = last.max(*place);
            }
            let before = spec.before.iter().find_map(|name| positions_of.get(&**name).copied());
            assigned.push((before, Assigned { spec, source, positions }));
        }
        // The sort is stable: tensors with the same position stay in the order of the description, and
        // computed ones (position `None`) come first.
        assigned.sort_by_key(|(before, tensor)| {
            let together =
                tensor.spec.together.as_deref().and_then(|group| places.get(group).copied());
            let place = together.or_else(|| tensor.positions.iter().max().copied());
            let first = tensor.source.is_some_and(|source| source.first);
            (!first, before.or(place), before.is_none())
        });
        let assigned = assigned.into_iter().map(|(_, tensor)| tensor).collect();
        let known = |(position, name): (usize, &str)| {
            used.get(position) == Some(&true) || self.name_rules().ignores(name)
        };
        let unknown = (0..names.len())
            .filter(|&position| {
                names.get(position).is_some_and(|name| !known((position, name.as_ref())))
            })
            .collect();
        Ok(Assignment { tensors: assigned, unknown })
    }
}
