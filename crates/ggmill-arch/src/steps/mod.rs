//! The steps of a computation graph as a description writes them: `docs/formats/graph.md`.

mod known;
mod outline;

use crate::block::without_block;
use crate::error::{Error, Result, quoted};
use crate::expression::{Binding, Loop, Node, parse_condition};
use crate::schema::RawSteps;
use crate::tensor::TensorGroup;

pub use outline::{StepOutline, StepsOutline};

pub(crate) use known::{INPUTS, OUTPUTS, Signature, is_operation, signature};

/// The graph of an architecture: groups of steps, in order.
#[derive(Clone, Debug)]
pub(crate) struct GraphTemplate {
    pub(crate) groups: Vec<StepGroup>,
}

/// The number of the block whose tensors names refer to, where it is not that of the loop.
pub(crate) const BLOCK_VARIABLE: &str = "bid";

/// A loop, with its text.
pub(crate) type Repeat = (Box<str>, Loop);

/// Groups of steps, together where they are one after the other in the same loop: they are one body.
/// A group without a loop is alone.
pub(crate) fn bodies<G>(
    groups: &[G],
    repeat: impl Fn(&G) -> Option<&Repeat>,
) -> impl Iterator<Item = &[G]> {
    groups.chunk_by(move |one, next| match (repeat(one), repeat(next)) {
        (Some((one, _)), Some((next, _))) => one == next,
        _ => false,
    })
}

/// Steps that share a loop and a condition.
#[derive(Clone, Debug)]
pub(crate) struct StepGroup {
    pub(crate) repeat: Option<Repeat>,
    pub(crate) when: Option<(Box<str>, Node)>,
    /// Why a model for which the condition holds has no graph.
    pub(crate) because: Option<Box<str>>,
    pub(crate) steps: Vec<Step>,
}

/// One step, with its text.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) text: Box<str>,
    pub(crate) binding: Binding,
}

impl GraphTemplate {
    /// Reads groups of steps. Every name is one of a hyperparameter, of the loop, of an earlier
    /// step or of a tensor.
    pub(crate) fn understand(
        raw: &[RawSteps],
        known: &dyn Fn(&str) -> bool,
        tensors: &[TensorGroup],
    ) -> Result<Self> {
        let weights: Vec<String> = tensors
            .iter()
            .flat_map(TensorGroup::outline)
            .map(|tensor| without_block(tensor.name))
            .collect();
        let mut names = Names { known, weights: &weights, bound: Vec::new() };
        let mut groups: Vec<StepGroup> = Vec::with_capacity(raw.len());
        for group in raw {
            let mut group = StepGroup::understand(group, &mut names)?;
            // An exclusion between two groups of a loop does not end the loop.
            if group.because.is_some() && group.repeat.is_none() {
                group.repeat = groups.last().and_then(|last| last.repeat.clone());
            }
            groups.push(group);
        }
        if !OUTPUTS.iter().any(|output| names.bound.iter().any(|name| &**name == *output)) {
            let outputs = OUTPUTS.join(" or ");
            return Err(Error::description(format!("no step produces {outputs}")));
        }
        Ok(Self { groups })
    }

    /// As a person reads it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut open: Option<&str> = None;
        for group in &self.groups {
            let repeat = group.repeat.as_ref().map(|(text, _)| &**text);
            if let Some(header) = repeat.filter(|_| repeat != open) {
                push(&mut text, 0, &format!("for {header}:"));
            }
            open = repeat;
            let mut depth = usize::from(repeat.is_some());
            if let Some((when, _)) = &group.when {
                push(&mut text, depth, &format!("when {when}:"));
                depth = depth.saturating_add(1);
            }
            if let Some(because) = &group.because {
                push(&mut text, depth, &format!("no graph: {because}"));
            }
            for step in &group.steps {
                push(&mut text, depth, &step.text);
            }
        }
        text
    }
}

/// Adds a line.
fn push(text: &mut String, depth: usize, line: &str) {
    for _ in 0..depth {
        text.push_str("    ");
    }
    text.push_str(line);
    text.push('\n');
}

/// The names that a step may use.
struct Names<'a> {
    known: &'a dyn Fn(&str) -> bool,
    weights: &'a [String],
    bound: Vec<Box<str>>,
}

impl Names<'_> {
    fn has(&self, name: &str, variable: Option<&str>) -> bool {
        let is_weight = |weight: &String| {
            weight.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        variable == Some(name)
            || INPUTS.contains(&name)
            || (self.known)(name)
            || self.bound.iter().any(|bound| **bound == *name)
            || self.weights.iter().any(is_weight)
    }

    fn check(&self, node: &Node, variable: Option<&str>, text: &str) -> Result<()> {
        match node.names().into_iter().find(|name| !self.has(name, variable)) {
            None => Ok(()),
            Some(name) => Err(Error::description(format!(
                "step {}: {} is neither a hyperparameter, nor a value of an earlier step, nor a \
                 tensor",
                quoted(text),
                quoted(name)
            ))),
        }
    }
}

impl StepGroup {
    fn understand(raw: &RawSteps, names: &mut Names<'_>) -> Result<Self> {
        let repeat = raw.r#for.as_deref().map(Loop::parse).transpose()?;
        if let Some(repeat) = &repeat {
            repeat.check_names(names.known)?;
        }
        let variable = repeat.as_ref().map(|repeat| &*repeat.variable);
        let when = raw.when.as_ref().map(|when| {
            let text = when.text();
            let node = parse_condition(&text, is_operation)?;
            names.check(&node, variable, &text)?;
            Ok::<_, Error>((text.into(), node))
        });
        let when = when.transpose()?;
        if raw.because.is_some() && (when.is_none() || !raw.steps.is_empty()) {
            return Err(Error::description("because requires when, and excludes steps"));
        }
        let mut steps = Vec::with_capacity(raw.steps.len());
        for text in &raw.steps {
            let binding = Binding::parse(text, is_operation)?;
            names.check(&binding.value, variable, text)?;
            check_operations(&binding.value)
                .map_err(|fault| Error::description(format!("step {}: {fault}", quoted(text))))?;
            for name in &binding.names {
                let is_taken = (names.known)(name) || INPUTS.contains(&&**name);
                if is_taken || variable == Some(name) || is_operation(name) {
                    let message =
                        format!("step {}: the name {name} is already in use", quoted(text));
                    return Err(Error::description(message));
                }
                names.bound.push(name.clone());
            }
            steps.push(Step { text: text.as_str().into(), binding });
        }
        let repeat = raw.r#for.as_deref().map(Into::into).zip(repeat);
        Ok(Self { repeat, when, because: raw.because.as_deref().map(Into::into), steps })
    }
}

/// Fails for an operation with the wrong number of arguments or an option that it does not have.
pub(crate) fn check_operations(node: &Node) -> Result<(), String> {
    if let Node::Operation(name, arguments, options) = node {
        let Signature { arguments: (least, most), options: known, .. } =
            signature(name).ok_or_else(|| format!("there is no operation {}", quoted(name)))?;
        if !(least..=most).contains(&arguments.len()) {
            let expected =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            let found = arguments.len();
            return Err(format!("{name} takes {expected} arguments, found {found}"));
        }
        if let Some((option, _)) = options.iter().find(|(option, _)| !known.contains(&&**option)) {
            return Err(format!("{name} has no option {}", quoted(option)));
        }
    }
    let mut result = Ok(());
    node.each_part(&mut |part| {
        if result.is_ok() {
            result = check_operations(part);
        }
    });
    result
}
