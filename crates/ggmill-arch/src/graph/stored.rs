//! Graphs stored in the metadata of a file: the steps of one model, without loops, conditions and
//! hyperparameters. `docs/formats/graph-file.md` defines the format.

use core::cell::Cell;
use std::collections::BTreeMap;

use ggmill_core::{ByteSize, Metadata, MetadataBuf};

use super::build;
use super::shape::{Dimensions, Extent};
use super::text::Writer;
use super::{Graph, Node, OPERATION_SET, Operation, Section};
use crate::error::{Error, ErrorKind, Result};
use crate::language::block::block_of_side;
use crate::language::expression::{Binding, Node as Term, Operator, Scope};
use crate::language::steps::{StepsOutline, check_operations, is_operation, outline};
use crate::limits::{
    MAX_GRAPH_BYTES, MAX_GRAPH_NUMBERS, MAX_GRAPH_PAIRS, MAX_GRAPH_READS, MAX_GRAPH_REUSE,
    MAX_NODES,
};
use crate::value::ParameterValue;

/// The metadata key of the steps: an array of strings.
pub const STEPS_KEY: &str = "ggmill.graph";
/// The metadata key of the operation set.
pub const VERSION_KEY: &str = "ggmill.graph.version";

impl Graph {
    /// Returns the graph in the metadata of a file, if it has one; `dimensions` are those of its
    /// tensors, in stored order (see [`dimensions_of`](super::dimensions_of)).
    ///
    /// The work is bounded before a tensor is read: at most 32,768 operations; per token at most 2²⁷
    /// elements of all results, 2²⁸ elements that operations read, and 64 multiplications per weight
    /// element; per pair of tokens at most 2²⁴ multiplications of attention, and one per weight
    /// element. Fails beyond these limits, for a newer operation set, and for steps that contradict
    /// each other or the tensors.
    pub fn stored(metadata: Metadata<'_>, dimensions: &Dimensions<'_>) -> Option<Result<Self>> {
        metadata.get(STEPS_KEY)?;
        let read = || {
            let wrong = |error: ggmill_core::Error| Error::configuration(error.to_string());
            let version = metadata.u64(VERSION_KEY).map_err(wrong)?;
            if version == 0 || version > u64::from(OPERATION_SET) {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "{VERSION_KEY} is {version}, but the newest operation set that is known is \
                         {OPERATION_SET}"
                    ),
                ));
            }
            let strings = metadata.array(STEPS_KEY).map_err(wrong)?.strings();
            let strings = strings.ok_or_else(|| {
                Error::configuration(format!("{STEPS_KEY} is not an array of strings"))
            })?;
            let mut steps = Vec::new();
            let mut bytes = 0usize;
            for step in strings {
                let step = step.ok().and_then(|step| step.to_str().ok());
                let step = step.ok_or_else(|| {
                    Error::configuration(format!(
                        "{STEPS_KEY}: step {} is not valid UTF-8",
                        steps.len()
                    ))
                })?;
                bytes = bytes.saturating_add(step.len());
                if steps.len() >= MAX_NODES || bytes > MAX_GRAPH_BYTES {
                    let most = ByteSize::from(MAX_GRAPH_BYTES);
                    return Err(Error::new(
                        ErrorKind::Limit,
                        format!("{STEPS_KEY} exceeds the limit of {MAX_NODES} steps or {most}"),
                    ));
                }
                steps.push(step);
            }
            let graph = Self::of_steps(&steps, dimensions)?;
            let needed = graph.operation_set();
            if u64::from(needed) > version {
                return Err(Error::configuration(format!(
                    "{VERSION_KEY} is {version}, but the steps have operations of set {needed}"
                )));
            }
            Ok(graph)
        };
        Some(read())
    }

    /// Returns the graph of these steps, in the format of files. Limits and errors are those of
    /// [`stored`](Self::stored).
    ///
    /// ```
    /// use ggmill_arch::graph::Graph;
    /// let steps = ["v0 = rows('token_embd', tokens)", "logits = linear('output', v0)"];
    /// let dimensions = |name: &str| match name {
    ///     "token_embd.weight" | "output.weight" => Some(vec![8, 100]),
    ///     _ => None,
    /// };
    /// let graph = Graph::of_steps(&steps, &dimensions)?;
    /// assert_eq!(graph.nodes()[graph.output()].extent.length, 100);
    /// assert_eq!(graph.steps()?, steps);
    /// # Ok::<(), ggmill_arch::Error>(())
    /// ```
    pub fn of_steps(steps: &[&str], dimensions: &Dimensions<'_>) -> Result<Self> {
        if steps.len() > MAX_NODES {
            let message = format!("{} steps, but the limit is {MAX_NODES}", steps.len());
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let mut bindings = Vec::with_capacity(steps.len());
        for step in steps {
            let binding = Binding::parse(step, is_operation)?;
            let wrong = |fault: &str| build::wrong(step, fault);
            check_operations(&binding.value).map_err(|fault| wrong(&fault))?;
            if !is_plain(&binding.value) {
                return Err(wrong("a step stored in a file must have exactly one operation"));
            }
            bindings.push((*step, binding));
        }
        let fuel = Cell::new(Scope::FUEL >> 4);
        let mut graph = build::of_bindings(&bindings, dimensions, &fuel)?;
        graph.sections = sections(&graph);
        check_work(&graph)?;
        Ok(graph)
    }

    /// Returns the steps of the graph in one group, each with the steps whose values it uses.
    ///
    /// Fails as [`steps`](Self::steps) does.
    pub fn outline(&self) -> Result<Vec<StepsOutline>> {
        let read = |text: String| {
            let binding = Binding::parse(&text, is_operation)?;
            Ok((text, binding))
        };
        let steps: Vec<_> = self.steps()?.into_iter().map(read).collect::<Result<_>>()?;
        Ok(outline(&steps))
    }

    /// Returns the steps of the graph in the format of files: one operation each.
    ///
    /// Fails for a graph that the format cannot represent: a bias that does not belong to its matrix, a
    /// tensor name with a quotation mark, or a graph beyond the limits.
    pub fn steps(&self) -> Result<Vec<String>> {
        let steps = Writer::of(self).steps()?;
        let texts: Vec<&str> = steps.iter().map(String::as_str).collect();
        let weights = self.weights.iter().map(|weight| (&*weight.name, &weight.dimensions));
        let weights: BTreeMap<&str, &Vec<u64>> = weights.collect();
        let of_weight = |name: &str| weights.get(name).map(|&dimensions| dimensions.clone());
        let read = Self::of_steps(&texts, &of_weight)?;
        if read.nodes == self.nodes && read.weights == self.weights && read.output == self.output {
            return Ok(steps);
        }
        let message = "the graph has a tensor with the name of a bias or scale of a different \
                       tensor";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Sets the metadata keys of the graph.
    ///
    /// Fails as [`steps`](Self::steps) does.
    pub fn write(&self, metadata: &mut MetadataBuf) -> Result<()> {
        let steps = self.steps()?;
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        metadata.set(VERSION_KEY, self.operation_set());
        metadata.set(STEPS_KEY, steps.as_slice());
        Ok(())
    }

    /// Returns the number of elements of all results per token: the approximate work without matrices.
    pub fn numbers(&self) -> u64 {
        self.nodes.iter().fold(0u64, |sum, node| sum.saturating_add(node.extent.elements()))
    }

    /// Returns the number of elements that all operations read per token: their operands and, for each
    /// expert, the selections that are searched for it.
    pub fn reads(&self) -> u64 {
        let elements = |node: usize| self.nodes.get(node).map_or(0, |node| node.extent.elements());
        let of = |node: &Node| {
            let operands = node.inputs.iter();
            let operands = operands.fold(0u64, |sum, &input| sum.saturating_add(elements(input)));
            match node.operation {
                Operation::View => 0,
                Operation::Convolution { kernel, .. } => {
                    let taps = self.weights.get(kernel).and_then(|found| found.dimensions.first());
                    operands.saturating_mul(taps.copied().unwrap_or(1))
                }
                Operation::Slice { .. } | Operation::Repeat { .. } => node.extent.elements(),
                Operation::Sinkhorn { count, .. } => {
                    operands.saturating_mul(count.saturating_mul(2))
                }
                Operation::ExpertLinear { matrix, .. } => {
                    let dimensions = self.weights.get(matrix).map(|found| &found.dimensions);
                    let experts = dimensions.and_then(|found| found.get(2)).copied().unwrap_or(1);
                    let chosen = node.extent.parts.unwrap_or(1);
                    operands.saturating_add(experts.saturating_mul(chosen))
                }
                _ => operands,
            }
        };
        self.nodes.iter().fold(0u64, |sum, node| sum.saturating_add(of(node)))
    }

    /// Returns the number of multiplications of attention per pair of tokens: of queries with keys, and
    /// of weights with values.
    pub fn attention_multiplications(&self) -> u64 {
        let extent = |node: &Node, input: usize| {
            let input = node.inputs.get(input).and_then(|&input| self.nodes.get(input));
            input.map_or(Extent::run(0), |input| input.extent)
        };
        let of = |node: &Node| match node.operation {
            Operation::SelectTokens(_) => extent(node, 0).elements(),
            Operation::Attention(ref attention) => {
                let (queries, values) = (extent(node, 0), extent(node, 2));
                let heads = queries.parts.unwrap_or(1);
                let all = heads.saturating_mul(queries.length.saturating_add(values.length));
                let of_runs = match attention.run {
                    0 => 0,
                    run => all.div_ceil(run),
                };
                all.saturating_add(of_runs)
            }
            _ => 0,
        };
        self.nodes.iter().fold(0u64, |sum, node| sum.saturating_add(of(node)))
    }

    /// Returns the number of elements of the state of a recurrence, over all heads; 0 for other nodes.
    pub fn state_of(&self, node: &Node) -> u64 {
        let keys = node.inputs.get(1).and_then(|&keys| self.nodes.get(keys));
        match (&node.operation, keys) {
            (Operation::Recurrence(_), Some(keys)) => {
                node.extent.elements().saturating_mul(keys.extent.length)
            }
            _ => 0,
        }
    }

    /// Returns the number of multiplications with matrices and recurrent states per token.
    /// [`attention_multiplications`](Self::attention_multiplications), which grow with the length of a
    /// text, are separate.
    pub fn multiplications(&self) -> u64 {
        let of = |node: &Node| match node.operation {
            Operation::Linear { matrix, .. }
            | Operation::ExpertLinear { matrix, .. }
            | Operation::HeadLinear { matrix } => {
                let columns = self.weights.get(matrix).and_then(|found| found.dimensions.first());
                node.extent.elements().saturating_mul(columns.copied().unwrap_or(1))
            }
            Operation::TapsLinear { kernel, .. } => {
                let dimensions = self.weights.get(kernel).map(|found| &*found.dimensions);
                let taken = dimensions.unwrap_or_default().iter().take(2);
                let taken = taken.fold(1u64, |all, &size| all.saturating_mul(size));
                node.extent.elements().saturating_mul(taken)
            }
            // The state of each head is multiplied by the decay and with the query, and two outer products
            // are added.
            Operation::Recurrence(_) => self.state_of(node).saturating_mul(4),
            _ => 0,
        };
        self.nodes.iter().fold(0u64, |sum, node| sum.saturating_add(of(node)))
    }
}

/// Fails for a graph that needs more work than real models with as many weights.
fn check_work(graph: &Graph) -> Result<()> {
    let (numbers, reads) = (graph.numbers(), graph.reads());
    let (products, pairs) = (graph.multiplications(), graph.attention_multiplications());
    let weights = graph.weights.iter().fold(0u64, |sum, weight| {
        let elements = weight.dimensions.iter().fold(1u64, |all, &size| all.saturating_mul(size));
        sum.saturating_add(elements)
    });
    let most = weights.saturating_mul(MAX_GRAPH_REUSE);
    let most_pairs = weights.min(MAX_GRAPH_PAIRS);
    let message = if numbers > MAX_GRAPH_NUMBERS {
        format!(
            "the graph produces {numbers} numbers per token, but the limit is {MAX_GRAPH_NUMBERS}"
        )
    } else if reads > MAX_GRAPH_READS {
        format!("the graph reads {reads} numbers per token, but the limit is {MAX_GRAPH_READS}")
    } else if pairs > most_pairs {
        format!(
            "the attention of the graph needs {pairs} multiplications per pair of tokens, but \
             the limit is {most_pairs}"
        )
    } else if products > most {
        format!(
            "the graph needs {products} multiplications per token, but the limit is {most}: \
             {MAX_GRAPH_REUSE} per number in its tensors"
        )
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Limit, message))
}

/// Returns `true` if a step is one operation on names and literals.
fn is_plain(term: &Term) -> bool {
    let is_number = |term: &Term| match term {
        Term::Literal(value) => value.as_f64().is_some(),
        Term::Negate(operand) => {
            matches!(&**operand, Term::Literal(value) if value.as_f64().is_some())
        }
        _ => false,
    };
    let is_atom = |term: &Term| match term {
        Term::Name(_) => true,
        Term::Literal(value) => !matches!(value, ParameterValue::List(_)),
        other => is_number(other),
    };
    let is_argument = |term: &Term| match term {
        Term::List(terms) => terms.iter().all(is_number),
        other => is_atom(other),
    };
    match term {
        Term::Operation(_, arguments, options) => {
            arguments.iter().all(is_argument) && options.iter().all(|(_, value)| is_argument(value))
        }
        Term::Binary(operator, left, right) => {
            use Operator::{Add, Divide, Multiply, Subtract};
            matches!(operator, Add | Subtract | Multiply | Divide)
                && is_atom(left)
                && is_atom(right)
        }
        _ => false,
    }
}

/// Divides a graph without loops into sections: a block begins with its first tensor, and ends before
/// the first tensor outside blocks that follows its last one. Tensors of an earlier block do not end
/// it.
fn sections(graph: &Graph) -> Vec<Section> {
    let block_of = |node: &Node| {
        let mut weights = node.operation.weights().into_iter();
        weights.find_map(|weight| block_of_side(&graph.weights.get(weight)?.name))
    };
    let mut last = BTreeMap::new();
    for (number, node) in graph.nodes.iter().enumerate() {
        if let Some(block) = block_of(node) {
            last.insert(block, number);
        }
    }
    let mut sections: Vec<Section> = Vec::new();
    let mut current = None;
    for (number, node) in graph.nodes.iter().enumerate() {
        let block = block_of(node).filter(|&block| current.is_none_or(|current| current <= block));
        let is_over = |block: u64| last.get(&block).is_some_and(|&last| last < number);
        if block.is_some() {
            current = block;
        } else if current.is_some_and(is_over) && !node.operation.weights().is_empty() {
            current = None;
        }
        let end = number.saturating_add(1);
        match sections.last_mut() {
            Some(section) if section.block == current => section.nodes.end = end,
            _ => sections.push(Section { block: current, nodes: number..end }),
        }
    }
    sections
}
