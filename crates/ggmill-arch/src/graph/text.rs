//! Formats the steps of a graph, one operation each.

use super::{
    Arithmetic, Attention, Buckets, Function, Graph, Groups, Node, Operation, Output, Rope,
    RopeStyle, Rows,
};
use crate::error::{Error, ErrorKind, Result};
use crate::language::steps::OUTPUTS;

/// Formats a number so that parsing gives the same single-precision number.
fn number(value: f32) -> String {
    let short = format!("{value:?}");
    #[expect(clippy::cast_possible_truncation, reason = "as steps are read")]
    let read = short.parse::<f64>().map(|read| read as f32);
    if read == Ok(value) { short } else { format!("{:?}", f64::from(value)) }
}

fn sign(with: Arithmetic) -> char {
    match with {
        Arithmetic::Add => '+',
        Arithmetic::Subtract => '-',
        Arithmetic::Multiply => '*',
        Arithmetic::Divide => '/',
    }
}

fn of_function(function: Function) -> &'static str {
    match function {
        Function::Silu => "silu",
        Function::Gelu => "gelu",
        Function::GeluErf => "gelu_erf",
        Function::Relu => "relu",
        Function::Tanh => "tanh",
        Function::Sigmoid => "sigmoid",
        Function::Exp => "exp",
        Function::Softplus => "softplus",
        Function::Root => "root",
        Function::Nearest => "nearest",
    }
}

/// Formats the steps of a graph.
pub(super) struct Writer<'a> {
    graph: &'a Graph,
}

impl<'a> Writer<'a> {
    pub(super) fn of(graph: &'a Graph) -> Self {
        Self { graph }
    }

    pub(super) fn steps(&self) -> Result<Vec<String>> {
        let nodes = &self.graph.nodes;
        let mut steps = Vec::with_capacity(nodes.len());
        let mut number = 0usize;
        while let Some(node) = nodes.get(number) {
            let (names, next) = match node.operation {
                Operation::Slice { .. } => self.parts(number),
                _ => (self.name(number), number.saturating_add(1)),
            };
            let value = match node.operation {
                Operation::Slice { .. } => {
                    let parts = nodes.get(number..next).unwrap_or_default();
                    let lengths = parts.iter().map(|part| format!(", {}", part.extent.length));
                    format!("parts({}{})", self.input(node, 0), lengths.collect::<String>())
                }
                _ => self.value(node)?,
            };
            steps.push(format!("{names} = {value}"));
            number = next;
        }
        Ok(steps)
    }

    /// Returns the names of consecutive slices of a value that begin with this node, and the index of
    /// the next node.
    fn parts(&self, first: usize) -> (String, usize) {
        let nodes = &self.graph.nodes;
        let input = nodes.get(first).and_then(|node| node.inputs.first());
        let whole = input.and_then(|&input| nodes.get(input)).map_or(0, |node| node.extent.length);
        let (mut names, mut next, mut end) = (Vec::new(), first, 0u64);
        while let Some(Node { operation: Operation::Slice { .. }, extent, .. }) = nodes.get(next)
            && end < whole
        {
            names.push(self.name(next));
            end = end.saturating_add(extent.length);
            next = next.saturating_add(1);
        }
        (names.join(", "), next)
    }

    fn name(&self, node: usize) -> String {
        match self.graph.kind {
            _ if node != self.graph.output => format!("v{node}"),
            Output::Logits => OUTPUTS[0].to_owned(),
            Output::Embedding => OUTPUTS[1].to_owned(),
        }
    }

    fn input(&self, node: &Node, place: usize) -> String {
        node.inputs.get(place).map_or_else(String::new, |&input| self.name(input))
    }

    /// Returns a tensor name in quotation marks, without the suffix `.weight`.
    fn weight(&self, weight: usize) -> Result<String> {
        let name = self.graph.weights.get(weight).map_or("", |weight| &weight.name);
        if name.contains(['\'', '\n']) {
            let message =
                format!("the name of the tensor {name:?} cannot be written in the steps of a file");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(format!("'{}'", name.strip_suffix(".weight").unwrap_or(name)))
    }

    fn value(&self, node: &Node) -> Result<String> {
        let [a, b, c] = [0, 1, 2].map(|place| self.input(node, place));
        let weight = |weight: Option<usize>| match weight {
            Some(weight) => self.weight(weight),
            None => Ok("none".to_owned()),
        };
        Ok(match &node.operation {
            Operation::Rows { table, rows } => {
                let table = self.weight(*table)?;
                let rows = match rows {
                    Rows::Tokens => "tokens".to_owned(),
                    Rows::Positions => "positions".to_owned(),
                    Rows::Cyclic => "positions, cyclic = true".to_owned(),
                    Rows::Fixed(row) => row.to_string(),
                };
                let source = if node.of_source { ", source = true" } else { "" };
                format!("rows({table}, {rows}{source})")
            }
            Operation::HashedRows(hashed) => {
                let table = self.weight(hashed.table)?;
                let lists = [&hashed.multipliers, &hashed.sizes, &hashed.offsets];
                let [multipliers, sizes, offsets] = lists.map(|list| wholes(list));
                let end = hashed.end;
                format!("hashed_rows({table}, tokens, {multipliers}, {sizes}, {offsets}, {end})")
            }
            Operation::Linear { matrix, .. } => format!("linear({}, {a})", self.weight(*matrix)?),
            Operation::ExpertLinear { matrix, .. } => {
                format!("linear_of({}, {a}, {b})", self.weight(*matrix)?)
            }
            Operation::HeadLinear { matrix } => {
                format!("linear_heads({}, {a})", self.weight(*matrix)?)
            }
            Operation::RmsNorm { weight: by, epsilon } => {
                format!("rms_norm({a}, {}, {})", weight(*by)?, number(*epsilon))
            }
            Operation::LayerNorm { weight: by, epsilon, .. } => {
                format!("layer_norm({a}, {}, {})", weight(*by)?, number(*epsilon))
            }
            Operation::Rope(rope) => self.rope(rope, &a)?,
            Operation::Attention(options) => {
                let others = node.inputs.iter().skip(3).map(|&input| self.name(input));
                self.attention(options, &[a, b, c], others)?
            }
            Operation::View => match node.extent.parts {
                Some(parts) => format!("split({a}, {parts})"),
                None => format!("merge({a})"),
            },
            // Consecutive slices are one step.
            Operation::Slice { .. } => String::new(),
            Operation::Concat => format!("concat({a}, {b})"),
            Operation::Apply(function) => format!("{}({a})", of_function(*function)),
            Operation::Clamp { low, high } => {
                format!("clamp({a}, {}, {})", number(*low), number(*high))
            }
            Operation::Softmax => format!("softmax({a})"),
            Operation::Top { count, groups, shared } => {
                let mut text = format!("top({a}, {count}");
                if let Some(Groups { count: all, used }) = groups {
                    push(&mut text, "groups", &all.to_string());
                    push(&mut text, "used_groups", &used.to_string());
                }
                if *shared != 1 {
                    push(&mut text, "shared", &shared.to_string());
                }
                text + ")"
            }
            Operation::Constant(numbers) => {
                let numbers: Vec<String> = numbers.iter().copied().map(number).collect();
                format!("constant([{}])", numbers.join(", "))
            }
            Operation::IsToken { token } => format!("is_token({token})"),
            Operation::SelectTokens(options) => {
                let by = if options.weighted { c } else { "none".to_owned() };
                let mut text = format!("pick({a}, {b}, {by}, {}", options.count);
                if options.block != 1 {
                    push(&mut text, "block", &options.block.to_string());
                }
                if options.local > 0 {
                    push(&mut text, "local", &options.local.to_string());
                }
                if options.whole {
                    push(&mut text, "whole", "true");
                }
                text + ")"
            }
            Operation::Gather => format!("take({a}, {b})"),
            Operation::Normalize => format!("normalize({a})"),
            Operation::Repeat { count, each: false } => format!("repeat({a}, {count})"),
            Operation::Repeat { count, each: true } => format!("repeat({a}, {count}, each = true)"),
            Operation::L2Norm { epsilon } => format!("l2_norm({a}, {})", number(*epsilon)),
            Operation::Sum => format!("total({a})"),
            Operation::Sinkhorn { count, epsilon } => {
                format!("sinkhorn({a}, {count}, {})", number(*epsilon))
            }
            Operation::Choice { range } => format!("choice({a}, {range})"),
            Operation::Pool { run } => format!("pool({a}, {b}, {run})"),
            Operation::ByPosition(growth) => {
                let [length, factor] = [growth.length, growth.factor].map(number);
                let mut text = format!("by_position({a}, {length}, {factor}");
                push_unless(&mut text, "offset", growth.offset, 0.0);
                text + ")"
            }
            Operation::Shift { ahead: false } => format!("shift({a})"),
            Operation::Shift { ahead: true } => format!("shift({a}, ahead = true)"),
            Operation::SourceVectors => format!("source_vectors({})", node.extent.length),
            Operation::TapsLinear { kernel, .. } => {
                format!("linear_taps({}, {a})", self.weight(*kernel)?)
            }
            Operation::Convolution { kernel, dilation, .. } => {
                let mut text = format!("conv({}, {a}", self.weight(*kernel)?);
                if *dilation != 1 {
                    push(&mut text, "dilation", &dilation.to_string());
                }
                text + ")"
            }
            Operation::Recurrence(options) => {
                let operands: Vec<String> = (0..4).map(|place| self.input(node, place)).collect();
                let mut text = format!("recurrence({}", operands.join(", "));
                if let Some(rates) = options.rates {
                    push(&mut text, "rates", &self.weight(rates)?);
                }
                if options.output_before_update {
                    push(&mut text, "before", "true");
                }
                if options.delta_rule {
                    push(&mut text, "from", &self.input(node, 4));
                    push(&mut text, "to", &self.input(node, 5));
                }
                text + ")"
            }
            Operation::WeightedSum => format!("mix({a}, {b})"),
            Operation::SwigluOai => format!("swiglu_oai({a}, {b})"),
            Operation::Arithmetic(with) => format!("{a} {} {b}", sign(*with)),
            Operation::WithNumber { with, number: by, left } => {
                in_order(&a, *with, &number(*by), *left)
            }
            Operation::WithWeight { with, weight, left } => {
                in_order(&a, *with, &self.weight(*weight)?, *left)
            }
        })
    }

    fn rope(&self, rope: &Rope, of: &str) -> Result<String> {
        let style = match rope.style {
            RopeStyle::Pairs => "pairs",
            RopeStyle::Halves => "halves",
        };
        let mut text = format!("rope({of}, '{style}', {}, {}", rope.length, number(rope.base));
        if let Some(factors) = rope.factors {
            push(&mut text, "factors", &self.weight(factors)?);
        }
        push_unless(&mut text, "scale", rope.scale, 1.0);
        push_unless(&mut text, "magnitude", rope.magnitude, 1.0);
        if let Some(yarn) = &rope.yarn {
            let numbers = [yarn.context, yarn.fast, yarn.slow, yarn.share].map(number);
            push(&mut text, "yarn", &format!("[{}]", numbers.join(", ")));
        }
        if rope.back {
            push(&mut text, "back", "true");
        }
        text.push(')');
        Ok(text)
    }

    fn attention(
        &self,
        options: &Attention,
        of: &[String; 3],
        mut others: impl Iterator<Item = String>,
    ) -> Result<String> {
        let mut text = format!("attention({}, {}", of.join(", "), number(options.scale));
        if !options.causal {
            push(&mut text, "causal", "false");
        }
        if options.window > 0 {
            push(&mut text, "window", &options.window.to_string());
        }
        push_unless(&mut text, "softcap", options.softcap, 0.0);
        push_unless(&mut text, "alibi", options.alibi, 0.0);
        if let Some(sinks) = options.sinks {
            push(&mut text, "sinks", &self.weight(sinks)?);
        }
        if let Some(ahead) = options.ahead {
            push(&mut text, "ahead", &ahead.to_string());
        }
        if options.chunk > 0 {
            push(&mut text, "chunk", &options.chunk.to_string());
        }
        if let Some(buckets) = options.buckets {
            push(&mut text, "buckets", &self.weight(buckets.weight)?);
            if buckets.distance != Buckets::DISTANCE {
                push(&mut text, "distance", &buckets.distance.to_string());
            }
        }
        if options.picks {
            push(&mut text, "picks", &others.next().unwrap_or_default());
        }
        if options.run > 0 {
            push(&mut text, "run", &options.run.to_string());
            push(&mut text, "run_keys", &others.next().unwrap_or_default());
            push(&mut text, "run_values", &others.next().unwrap_or_default());
        }
        text.push(')');
        Ok(text)
    }
}

/// Formats a list of integers.
fn wholes(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

/// Formats a binary operation, with `other` on the left if `left`.
fn in_order(value: &str, with: Arithmetic, other: &str, left: bool) -> String {
    let sign = sign(with);
    if left { format!("{other} {sign} {value}") } else { format!("{value} {sign} {other}") }
}

fn push(text: &mut String, option: &str, value: &str) {
    text.push_str(", ");
    text.push_str(option);
    text.push_str(" = ");
    text.push_str(value);
}

/// Appends an option unless it has the default value.
#[expect(clippy::float_cmp, reason = "the default is written as nothing, and no other number")]
fn push_unless(text: &mut String, option: &str, value: f32, default: f32) {
    if value != default {
        push(text, option, &number(value));
    }
}
