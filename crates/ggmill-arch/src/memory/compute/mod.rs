//! The results that a model computes for a batch, with the memory of each: from the steps of a
//! description or from the computation graph.

mod build;
mod built;

use core::cell::Cell;
use std::sync::Arc;

pub(crate) use self::build::{Build, Late, Sums};
use self::built::Built;
use crate::data::schema::RawSteps;
use crate::error::{Error, ErrorKind, Result, quoted};
use crate::language::expression::{Binding, Expression, Function, Loop, Node, Scope, condition};
use crate::language::steps::{BLOCK_VARIABLE, Repeat, bodies};
use crate::limits::{MAX_STEPS, MAX_TENSORS};
use crate::value::ParameterValue;

/// The results that a model computes for one batch, in order, and the memory of each.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeSpec(Source);

/// The results that a model computes for a batch, from its computation graph.
pub(crate) trait ComputeResults: core::fmt::Debug + Send + Sync {
    /// Returns the results in the order in which they are computed.
    fn nodes(&self, numbers: ComputeNumbers) -> Result<Vec<ComputeNode>>;
}

/// The source of the results.
#[derive(Clone, Debug)]
enum Source {
    /// The steps of the description.
    Listed(Listed),
    /// The computation graph.
    Lowered(Arc<dyn ComputeResults>),
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Listed(a), Self::Listed(b)) => a == b,
            (Self::Lowered(a), Self::Lowered(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// The steps of a description, with the numbers of a model.
#[derive(Clone, Debug, PartialEq)]
struct Listed {
    parameters: Vec<(Box<str>, ParameterValue)>,
    groups: Arc<[ComputeGroup]>,
    /// The layer whose weights layer `bid` computes with, where it is not the layer itself.
    weights_of: Option<Expression>,
}

/// Steps that share a loop and a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComputeGroup {
    repeat: Option<Repeat>,
    when: Expression,
    steps: Vec<(Box<str>, Binding)>,
}

/// How a model is run, as far as it decides what is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ComputeNumbers {
    /// Tokens that are computed together.
    pub tokens: u64,
    /// The maximum number of them that give scores.
    pub outputs: u64,
    /// Sequences that they are of.
    pub sequences: u64,
    /// Caches side by side.
    pub streams: u64,
    /// Cells of a cache for the whole context, in each stream.
    pub cells: u64,
    /// Cells of a cache for a window, in each stream.
    pub window_cells: u64,
    /// If true, attention is computed in tiles.
    pub flash: bool,
    /// If true, cached values are kept apart from each other.
    pub transposed: bool,
    /// If true, cached keys are of F32.
    pub wide_keys: bool,
    /// If true, cached values are of F32.
    pub wide_values: bool,
    /// If true, cached keys are quantized.
    pub quantized_keys: bool,
    /// If true, cached values are quantized.
    pub quantized_values: bool,
    /// Bytes of 256 cached keys.
    pub key_bytes: u64,
    /// Bytes of 256 cached values.
    pub value_bytes: u64,
    /// Elements of the values of a token, in the block that has the most.
    pub longest_values: u64,
    /// If true, the weights of queries, keys and values are one tensor.
    pub fused: bool,
}

/// A result of a computation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComputeNode {
    /// The size in F32 numbers.
    pub elements: u64,
    /// Where it is stored.
    pub kind: ComputeKind,
    /// The part of the model that it is of: where it is computed with weights, that of the weights,
    /// which some models compute with in several layers.
    pub layer: ComputeLayer,
    /// If true, it is computed with weights or a cache of its layer, and so where these are;
    /// otherwise of results alone, beside what comes before it or behind it.
    pub weighted: bool,
    /// The results that it is computed of, by their places in the list.
    pub sources: Vec<usize>,
    /// The tensor that it is computed with, where steps name one and [`ComputeSpec::placed_nodes`]
    /// was asked. It is computed where that is if it is `weighted`.
    pub tensor: Option<Box<str>>,
}

/// Where a result is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComputeKind {
    /// In memory that exists before anything is computed: on the host, or where its layer is, as
    /// [`ComputeNode::weighted`] says. Before the blocks that is where the first one is.
    Input,
    /// In separate memory.
    Own,
    /// In no memory: a marker that keeps its source, which is a result of the model.
    Given,
    /// A tensor with no elements. ggml still assigns it an offset, so the free ranges on either side are
    /// not merged.
    Empty,
    /// A view of its source. It needs no memory; a device that uses it copies only the viewed elements;
    /// no operation writes in place to it.
    View,
    /// In the memory of the first source that has the same size and no later user; without one, in
    /// separate memory.
    InPlace,
}

/// A part of a model, as far as a device can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComputeLayer {
    /// The part before the blocks.
    Input,
    /// A block, by its number.
    Block(u64),
    /// The part after the blocks.
    Output,
}

/// The tokens behind the attention of a block: in the last one those that give scores.
const ROWS: &str = "rows";

impl ComputeNumbers {
    const NAMES: [&str; 17] = [
        "tokens",
        "outputs",
        ROWS,
        "sequences",
        "streams",
        "cells",
        "window_cells",
        "flash",
        "transposed",
        "wide_keys",
        "wide_values",
        "quantized_keys",
        "quantized_values",
        "key_bytes",
        "value_bytes",
        "longest_values",
        "fused",
    ];

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let numbers = [
            self.tokens,
            self.outputs,
            self.outputs,
            self.sequences,
            self.streams,
            self.cells,
            self.window_cells,
            u64::from(self.flash),
            u64::from(self.transposed),
            u64::from(self.wide_keys),
            u64::from(self.wide_values),
            u64::from(self.quantized_keys),
            u64::from(self.quantized_values),
            self.key_bytes,
            self.value_bytes,
            self.longest_values,
            u64::from(self.fused),
        ];
        Self::NAMES.into_iter().zip(numbers).collect()
    }
}

/// The operations of steps, with the sizes that their first argument is.
const RESULT: &str = "result";
const CACHED: &str = "cached";
const SHARED: &str = "shared";
const BESIDE_OUTPUT: &str = "beside_output";
const NORM: &str = "norm";
const UNWEIGHTED: &str = "unweighted";
const IN_PLACE: &str = "in_place";
const WEIGHTED: &str = "weighted";
const INPUT: &str = "input";
const CONSTANT: &str = "constant";
const GIVEN: &str = "given";
const EMPTY: &str = "empty";
const EXPANDED: &str = "expanded";
/// The option of a result that is computed before everything that follows the last expanded one.
const EARLY: &str = "early";
/// The options with the names of tensors: that of a result, of a norm before it and of one behind it.
const OF: &str = "of";
const NORM_BEFORE: &str = "norm";
const NORM_BEHIND: &str = "normed";
const VIEW: &str = "view";
const PARTS: &str = "parts";

fn is_operation(name: &str) -> bool {
    [
        RESULT,
        CACHED,
        SHARED,
        BESIDE_OUTPUT,
        NORM,
        UNWEIGHTED,
        IN_PLACE,
        WEIGHTED,
        INPUT,
        CONSTANT,
        GIVEN,
        EMPTY,
        EXPANDED,
        VIEW,
        PARTS,
    ]
    .contains(&name)
}

/// Returns `true` if an option says of an operation that can be early that it is.
fn is_early(operation: &str, (name, value): &(Box<str>, Node)) -> bool {
    let is_true = matches!(value, Node::Literal(ParameterValue::Bool(true)));
    [RESULT, CACHED, UNWEIGHTED, IN_PLACE, WEIGHTED, VIEW, EMPTY].contains(&operation)
        && &**name == EARLY
        && is_true
}

/// Returns `true` if an option names tensors of an operation that is computed with weights.
fn is_naming(operation: &str, (name, value): &(Box<str>, Node)) -> bool {
    let is_text = matches!(value, Node::Literal(ParameterValue::Str(_)));
    let named: &[&str] = match operation {
        RESULT => &[OF, NORM_BEFORE, NORM_BEHIND],
        IN_PLACE => &[OF, NORM_BEFORE],
        NORM | UNWEIGHTED | WEIGHTED => &[OF],
        _ => &[],
    };
    is_text && named.contains(&&**name)
}

/// Reads groups of steps. Every name is one of a hyperparameter, of the loop or of an earlier step.
pub(crate) fn groups(
    raw: &[RawSteps],
    is_declared: &dyn Fn(&str) -> bool,
) -> Result<Arc<[ComputeGroup]>> {
    let steps = raw.iter().fold(raw.len(), |sum, group| sum.saturating_add(group.steps.len()));
    if steps > MAX_STEPS {
        let message = format!("{steps} steps of the memory, the limit is {MAX_STEPS}");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let mut bound: Vec<Box<str>> = Vec::new();
    raw.iter().map(|group| ComputeGroup::from_raw(group, is_declared, &mut bound)).collect()
}

impl ComputeGroup {
    fn from_raw(
        raw: &RawSteps,
        is_declared: &dyn Fn(&str) -> bool,
        bound: &mut Vec<Box<str>>,
    ) -> Result<Self> {
        let repeat = raw.r#for.as_deref().map(Loop::parse).transpose()?;
        if let Some(repeat) = &repeat {
            repeat.check_names(is_declared)?;
        }
        let variable = repeat.as_ref().map(|repeat| &*repeat.variable);
        let is_number = |name: &str| {
            variable == Some(name) || ComputeNumbers::NAMES.contains(&name) || is_declared(name)
        };
        let mut steps = Vec::with_capacity(raw.steps.len());
        for text in &raw.steps {
            let binding = Binding::parse(text, is_operation)?;
            check(&binding.value, &is_number, bound)
                .map_err(|fault| Error::description(format!("step {}: {fault}", quoted(text))))?;
            let [name] = &*binding.names else {
                return Err(Error::description(format!(
                    "step {}: expected one name",
                    quoted(text)
                )));
            };
            if is_number(name) || is_operation(name) {
                let message = format!("step {}: the name {name} is already in use", quoted(text));
                return Err(Error::description(message));
            }
            bound.push(name.clone());
            steps.push((text.as_str().into(), binding));
        }
        Ok(Self {
            when: condition(raw.when.as_ref(), &is_number)?,
            repeat: raw.r#for.as_deref().map(Into::into).zip(repeat),
            steps,
        })
    }
}

/// Fails for what is not a result: an operation on sizes and results, one by a condition, or the
/// name of an earlier one.
fn check(
    value: &Node,
    is_number: &dyn Fn(&str) -> bool,
    bound: &[Box<str>],
) -> core::result::Result<(), String> {
    let numbers = |node: &Node| match node.names().into_iter().find(|name| !is_number(name)) {
        Some(name) => Err(format!("{} is not a hyperparameter", quoted(name))),
        None => Ok(()),
    };
    let is_result = |node: &Node| match node {
        Node::Name(name) if bound.contains(name) => Ok(()),
        Node::Name(name) => Err(format!("{} is not a result of an earlier step", quoted(name))),
        _ => Err("expected names of results".to_owned()),
    };
    match value {
        Node::Name(_) => is_result(value),
        Node::Call(Function::If, parts) => match &**parts {
            [condition, yes, no] => {
                numbers(condition)?;
                check(yes, is_number, bound)?;
                check(no, is_number, bound)
            }
            _ => Err("expected if(CONDITION, RESULT, RESULT)".to_owned()),
        },
        Node::Operation(name, parts, options) => match (&**name, &**parts) {
            (operation, _)
                if !options
                    .iter()
                    .all(|option| is_early(operation, option) || is_naming(operation, option)) =>
            {
                Err(format!("{name} has no such options"))
            }
            (INPUT | CONSTANT, [elements]) => numbers(elements),
            (
                RESULT | CACHED | SHARED | BESIDE_OUTPUT | NORM | UNWEIGHTED,
                [elements, sources @ ..],
            ) => {
                numbers(elements)?;
                sources.iter().try_for_each(is_result)
            }
            (VIEW, [elements, one]) => {
                numbers(elements)?;
                is_result(one)
            }
            (PARTS, [count, width, one]) => {
                numbers(count)?;
                numbers(width)?;
                is_result(one)
            }
            (EXPANDED, [one]) => is_result(one),
            (IN_PLACE | WEIGHTED | GIVEN | EMPTY, [_, ..]) => parts.iter().try_for_each(is_result),
            _ => Err(format!("{name} has other arguments")),
        },
        _ => Err("expected a result".to_owned()),
    }
}

impl ComputeSpec {
    pub(crate) fn listed(
        parameters: Vec<(Box<str>, ParameterValue)>,
        groups: Arc<[ComputeGroup]>,
        weights_of: Option<Expression>,
    ) -> Self {
        Self(Source::Listed(Listed { parameters, groups, weights_of }))
    }

    pub(crate) fn lowered(results: impl ComputeResults + 'static) -> Self {
        Self(Source::Lowered(Arc::new(results)))
    }

    /// Returns `true` if it is lowered from the computation graph; otherwise the description lists it.
    pub fn is_lowered(&self) -> bool {
        matches!(self.0, Source::Lowered(_))
    }

    /// Returns `true` if it is known which layers compute with the weights of which, where a model has more
    /// layers than weights.
    pub fn knows_weights(&self) -> bool {
        match &self.0 {
            Source::Listed(listed) => listed.weights_of.is_some(),
            Source::Lowered(_) => true,
        }
    }

    /// The results in the order in which they are computed.
    pub fn nodes(&self, numbers: ComputeNumbers) -> Result<Vec<ComputeNode>> {
        match &self.0 {
            Source::Listed(listed) => listed.built(numbers, None),
            Source::Lowered(lowering) => lowering.nodes(numbers),
        }
    }

    /// Returns the results of a model whose tensors are placed by name: each result with its tensor, if
    /// `has` returns `true` for it, and norms separate from their weights.
    pub fn placed_nodes(
        &self,
        numbers: ComputeNumbers,
        has: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ComputeNode>> {
        match &self.0 {
            Source::Listed(listed) => listed.built(numbers, Some(has)),
            Source::Lowered(lowering) => lowering.nodes(numbers),
        }
    }
}

impl Listed {
    fn built(
        &self,
        numbers: ComputeNumbers,
        has: Option<&dyn Fn(&str) -> bool>,
    ) -> Result<Vec<ComputeNode>> {
        let fuel = Cell::new(Scope::FUEL);
        let variables = numbers.variables();
        let scope = Scope::new(&self.parameters, &fuel).with(&variables);
        let mut built = Built::new(has);
        for body in bodies(&self.groups, |group| group.repeat.as_ref()) {
            let Some((_, repeat)) = body.first().and_then(|group| group.repeat.as_ref()) else {
                body.iter().try_for_each(|group| built.group(group, &scope))?;
                continue;
            };
            let mut inner: Vec<(&str, u64)> = variables.clone();
            let blocks = repeat.range(&scope, MAX_TENSORS)?;
            let end = blocks.end;
            for block in blocks {
                built.layer = ComputeLayer::Block(block);
                built.weights = built.layer;
                if let Some(weights_of) = &self.weights_of {
                    let layer = [(BLOCK_VARIABLE, block)];
                    let of = weights_of.evaluate_u64(&scope.with(&layer))?;
                    if of >= end {
                        let message = format!(
                            "weights_of: layer {block} has the weights of layer {of}, expected \
                             one below {end}"
                        );
                        return Err(Error::description(message));
                    }
                    built.weights = ComputeLayer::Block(of);
                }
                inner.truncate(variables.len());
                inner.push((&*repeat.variable, block));
                inner.push((
                    ROWS,
                    if block.saturating_add(1) == end { numbers.outputs } else { numbers.tokens },
                ));
                let scope = scope.with(&inner);
                for group in body {
                    built.group(group, &scope)?;
                }
            }
            built.layer = ComputeLayer::Output;
            built.weights = built.layer;
        }
        Ok(built.in_order())
    }
}
