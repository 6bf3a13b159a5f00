//! Which tensor of the file each tensor of a checkpoint goes into, and in what order the file has
//! them.

use std::collections::BTreeMap;

use crate::description::tensor::{Origin, Source, TensorSpec};
use crate::error::Result;
use crate::resolve::Resolved;

/// The tensors a checkpoint gives, in the order of the file, and what it has beyond them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Assignment<'r> {
    /// The tensors of the file in order: those whose source says so ([`Source::first`]), then
    /// computed ones, then each at the place of the last of its sources in the checkpoint.
    pub tensors: Vec<Assigned<'r>>,
    /// Positions of checkpoint tensors that no tensor of the file comes from and that the
    /// description does not ignore either.
    pub unknown: Vec<usize>,
}

/// A tensor of the file with where its data come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Assigned<'r> {
    /// The tensor.
    pub spec: &'r TensorSpec,
    /// The operations and names in the checkpoint, or `None` when the tensor is computed.
    pub source: Option<&'r Source>,
    /// Positions of the source's names in the checkpoint, in the order of the source.
    pub positions: Vec<usize>,
}

impl Resolved<'_> {
    /// Says which tensors the file has when the checkpoint has tensors of these names, and in what
    /// order. The names are those that [`name_rules`](Self::name_rules) give; tensors that they
    /// ignore count as absent.
    ///
    /// The order of the file is that of the reference when `names` are in its order: shards by file
    /// name, the names within each sorted. Fails when a required tensor is missing, or some of
    /// the parts of one.
    pub fn assign<'r>(&'r self, names: &[impl AsRef<str>]) -> Result<Assignment<'r>> {
        self.assigned(names, true)
    }

    /// The same for a checkpoint that has only some of the tensors, as an adapter has factors for
    /// some: none is required, and none is computed. Fails only when a tensor of the file lacks
    /// some of its parts.
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
        // The place of every group that is written together.
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
        // A stable sort: tensors of one place stay in the order of the description, computed ones
        // first, and `None`, a computed tensor without a place, goes before all.
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
