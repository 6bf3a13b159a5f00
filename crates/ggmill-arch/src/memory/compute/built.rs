//! The results of steps, in the order in which they are computed.

use std::collections::BTreeMap;

use super::{
    BESIDE_OUTPUT, CACHED, CONSTANT, ComputeGroup, ComputeKind, ComputeLayer, ComputeNode, EARLY,
    EMPTY, EXPANDED, GIVEN, IN_PLACE, INPUT, NORM, NORM_BEFORE, NORM_BEHIND, OF, PARTS, RESULT,
    SHARED, UNWEIGHTED, VIEW, WEIGHTED,
};
use crate::error::{Error, ErrorKind, Result, quoted};
use crate::language::expression::{Node, Outcome, Scope};
use crate::limits::{MAX_NODES, MAX_PARTS};
use crate::value::ParameterValue;

/// Results so far, and which ones names stand for.
pub(super) struct Built<'a> {
    nodes: Vec<ComputeNode>,
    values: BTreeMap<&'a str, usize>,
    /// The part of the model whose steps are read.
    pub(super) layer: ComputeLayer,
    /// The part of the model with its weights.
    pub(super) weights: ComputeLayer,
    /// For each result the one behind which it is computed: itself for most.
    behind: Vec<usize>,
    /// The last result that is computed before what the steps from here on need.
    expanded: Option<usize>,
    /// If true, the model has a tensor, where tensors are placed by their names.
    has: Option<&'a dyn Fn(&str) -> bool>,
}

impl<'a> Built<'a> {
    pub(super) fn new(has: Option<&'a dyn Fn(&str) -> bool>) -> Self {
        Self {
            nodes: Vec::new(),
            values: BTreeMap::new(),
            layer: ComputeLayer::Input,
            weights: ComputeLayer::Input,
            behind: Vec::new(),
            expanded: None,
            has,
        }
    }

    pub(super) fn group(&mut self, group: &'a ComputeGroup, scope: &Scope<'_>) -> Result<()> {
        if !group.when.evaluate_bool(scope)? {
            return Ok(());
        }
        for (text, binding) in &group.steps {
            let value = self.value(&binding.value, scope);
            let value =
                value.map_err(|fault| Error::configuration(format!("step {text}: {fault}")))?;
            if self.nodes.len() > MAX_NODES {
                let message = format!("more than {MAX_NODES} results, the limit");
                return Err(Error::new(ErrorKind::Limit, message));
            }
            for name in &binding.names {
                self.values.insert(name, value);
            }
        }
        Ok(())
    }

    /// The place of a result in the list.
    fn value(&mut self, value: &Node, scope: &Scope<'_>) -> Outcome<usize> {
        let (operation, parts, options) = match value {
            Node::Name(_) => return self.named(value),
            Node::Call(_, parts) => {
                let [condition, yes, no] = &**parts else {
                    return Err("expected a condition and two results".to_owned());
                };
                let chosen = if condition.bool(scope)? { yes } else { no };
                return self.value(chosen, scope);
            }
            Node::Operation(name, parts, options) => (&**name, &**parts, &**options),
            _ => return Err("expected a result".to_owned()),
        };
        if let (EXPANDED, [one]) = (operation, parts) {
            self.expanded = self.nodes.len().checked_sub(1);
            return self.named(one);
        }
        if let (PARTS, [count, width, one]) = (operation, parts) {
            let number = |node: &Node| {
                let number = node.evaluate(scope)?;
                number.as_u64().ok_or_else(|| format!("{number} numbers"))
            };
            return self.sum_of_parts(number(count)?, number(width)?, self.named(one)?);
        }
        let (kind, weighted) = match operation {
            INPUT => (ComputeKind::Input, false),
            CONSTANT => (ComputeKind::Input, true),
            GIVEN => (ComputeKind::Given, false),
            EMPTY => (ComputeKind::Empty, false),
            VIEW => (ComputeKind::View, false),
            IN_PLACE => (ComputeKind::InPlace, false),
            WEIGHTED => (ComputeKind::InPlace, true),
            UNWEIGHTED | NORM => (ComputeKind::Own, false),
            _ => (ComputeKind::Own, true),
        };
        let (elements, sources) = match (kind, parts) {
            (ComputeKind::InPlace | ComputeKind::Given | ComputeKind::Empty, sources) => {
                (None, sources)
            }
            (_, [elements, sources @ ..]) => (Some(elements), sources),
            _ => return Err(format!("{operation} needs arguments")),
        };
        let mut sources: Vec<usize> =
            sources.iter().map(|source| self.named(source)).collect::<Outcome<_>>()?;
        let early = options.iter().any(|(name, _)| &**name == EARLY);
        let elements = match (elements, kind) {
            (Some(elements), _) => {
                let number = elements.evaluate(scope)?;
                number.as_u64().ok_or_else(|| format!("{number} numbers"))?
            }
            (None, ComputeKind::Given | ComputeKind::Empty) => 0,
            (None, _) => {
                let first = sources.first().and_then(|&first| self.nodes.get(first));
                first.map_or(0, |first| first.elements)
            }
        };
        let layer = match operation {
            SHARED => ComputeLayer::Block(0),
            BESIDE_OUTPUT => ComputeLayer::Output,
            RESULT | WEIGHTED => self.weights,
            _ => self.layer,
        };
        // That of what it is computed with, whether this decides where or not.
        let weights = if layer == self.layer { self.weights } else { layer };
        // Not before what it is computed of.
        let behind = self.expanded.filter(|&behind| {
            let mut places = sources.iter().map(|&source| self.behind.get(source).copied());
            early && places.all(|place| place <= Some(behind))
        });
        let tensor = self.tensor(OF, options, weights);
        let mut kind = kind;
        if let Some(norm) = self.tensor(NORM_BEFORE, options, weights)
            && let Some(first) = sources.first_mut()
        {
            *first = self.add(node(ComputeKind::Own, elements, layer, vec![*first]), None);
            let normed = node(ComputeKind::InPlace, elements, weights, vec![*first]);
            *first = self.add(normed.with(norm), None);
            kind = ComputeKind::InPlace;
        }
        let mut result = ComputeNode { weighted, ..node(kind, elements, layer, sources) };
        if operation != NORM {
            if self.has.is_some() && kind != ComputeKind::Input {
                let is_there = tensor.is_some() && operation != UNWEIGHTED;
                result.weighted = is_there || operation == CACHED;
            }
            result.tensor = tensor;
            let mut place = self.add(result, behind);
            if let Some(norm) = self.tensor(NORM_BEHIND, options, weights) {
                place = self.add(node(ComputeKind::InPlace, elements, layer, vec![place]), None);
                let normed = node(ComputeKind::InPlace, elements, weights, vec![place]);
                place = self.add(normed.with(norm), None);
            }
            return Ok(place);
        }
        let place = self.add(result, behind);
        // A normalized value is multiplied by weights in place. Those of a norm before the
        // blocks are beside the first block.
        let layer = if layer == ComputeLayer::Input { ComputeLayer::Block(0) } else { weights };
        let mut normed = node(ComputeKind::InPlace, elements, layer, vec![place]);
        normed.weighted = self.has.is_none() || tensor.is_some();
        normed.tensor = tensor;
        Ok(self.add(normed, None))
    }

    /// The first tensor of those that an option names that the model has. Nothing where tensors
    /// are not placed by their names.
    fn tensor(
        &self,
        option: &str,
        options: &[(Box<str>, Node)],
        layer: ComputeLayer,
    ) -> Option<Box<str>> {
        let has = self.has?;
        let names = options.iter().find_map(|(name, value)| match value {
            Node::Literal(ParameterValue::Str(names)) if &**name == option => Some(names),
            _ => None,
        })?;
        names.split(' ').find_map(|name| {
            let name = match layer {
                ComputeLayer::Block(block) => format!("blk.{block}.{name}"),
                _ => name.to_owned(),
            };
            let names = [format!("{name}.weight"), format!("{name}.bias"), name];
            names.into_iter().find(|name| has(name)).map(Into::into)
        })
    }

    /// Adds the sum of `count` parts of a result with `width` numbers each, which are adjacent for each
    /// token. A single part is copied.
    fn sum_of_parts(&mut self, count: u64, width: u64, whole: usize) -> Outcome<usize> {
        if count > MAX_PARTS {
            return Err(format!("{count} parts, the limit is {MAX_PARTS}"));
        }
        let layer = self.layer;
        let all = self.nodes.get(whole).map_or(0, |whole| whole.elements);
        let elements = all.checked_div(count).unwrap_or(0);
        // Between the first number of a part and its last are those of the others.
        let span = all.saturating_sub(width.saturating_mul(count.saturating_sub(1)));
        let mut node =
            |kind, elements, sources| self.add(self::node(kind, elements, layer, sources), None);
        let views: Vec<usize> =
            (0..count).map(|_| node(ComputeKind::View, span, vec![whole])).collect();
        let mut views = views.into_iter();
        let first = views.next().unwrap_or(whole);
        let mut sum = match views.next() {
            Some(second) => node(ComputeKind::Own, elements, vec![first, second]),
            None => node(ComputeKind::Own, elements, vec![first]),
        };
        for view in views {
            sum = node(ComputeKind::InPlace, elements, vec![sum, view]);
        }
        Ok(sum)
    }

    fn add(&mut self, node: ComputeNode, behind: Option<usize>) -> usize {
        let index = self.nodes.len();
        self.nodes.push(node);
        self.behind.push(behind.unwrap_or(index));
        index
    }

    /// The results, each behind the one that it is to be behind.
    pub(super) fn in_order(self) -> Vec<ComputeNode> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|&place| self.behind.get(place).copied());
        let mut places = vec![0; order.len()];
        for (place, &old) in order.iter().enumerate() {
            if let Some(new) = places.get_mut(old) {
                *new = place;
            }
        }
        let mut nodes: Vec<(usize, ComputeNode)> = places.iter().copied().zip(self.nodes).collect();
        nodes.sort_by_key(|(place, _)| *place);
        let renamed = |mut node: ComputeNode| {
            for source in &mut node.sources {
                *source = places.get(*source).copied().unwrap_or(*source);
            }
            node
        };
        nodes.into_iter().map(|(_, node)| renamed(node)).collect()
    }

    fn named(&self, name: &Node) -> Outcome<usize> {
        let Node::Name(name) = name else { return Err("expected names of results".to_owned()) };
        let found = self.values.get(&**name).copied();
        found.ok_or_else(|| format!("{} is not computed here", quoted(name)))
    }
}

/// A result that is computed of others alone.
fn node(kind: ComputeKind, elements: u64, layer: ComputeLayer, sources: Vec<usize>) -> ComputeNode {
    ComputeNode { elements, kind, layer, weighted: false, sources, tensor: None }
}

impl ComputeNode {
    /// Returns this result, computed with a tensor.
    fn with(self, tensor: Box<str>) -> Self {
        Self { weighted: true, tensor: Some(tensor), ..self }
    }
}
