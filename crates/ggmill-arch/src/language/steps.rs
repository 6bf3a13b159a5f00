//! The text form of graph operations in files and of compute steps: `docs/formats/graph-file.md`.

use std::collections::BTreeMap;

use crate::error::quoted;
use crate::language::expression::{Binding, Loop, Node};

/// The arguments and options of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub(crate) name: &'static str,
    /// The minimum and maximum number of arguments.
    pub(crate) arguments: (usize, usize),
    pub(crate) options: &'static [&'static str],
}

const fn of(
    name: &'static str,
    least: usize,
    most: usize,
    options: &'static [&'static str],
) -> Signature {
    Signature { name, arguments: (least, most), options }
}

/// All operation sets. An operation never changes its meaning; new operations belong to a set with a
/// higher number (`Operation::set`).
const OPERATIONS: [Signature; 45] = [
    of("rows", 2, 2, &["source", "cyclic"]),
    of("linear", 2, 2, &[]),
    of("linear_of", 3, 3, &[]),
    of("rms_norm", 3, 3, &[]),
    of("layer_norm", 3, 3, &[]),
    of("rope", 4, 4, &["factors", "scale", "magnitude", "yarn", "back"]),
    of(
        "attention",
        4,
        4,
        &[
            "causal",
            "window",
            "softcap",
            "alibi",
            "sinks",
            "ahead",
            "chunk",
            "buckets",
            "distance",
            "picks",
            "run",
            "run_keys",
            "run_values",
        ],
    ),
    of("split", 2, 2, &[]),
    of("merge", 1, 1, &[]),
    of("parts", 2, 9, &[]),
    of("concat", 2, 2, &[]),
    of("silu", 1, 1, &[]),
    of("gelu", 1, 1, &[]),
    of("gelu_erf", 1, 1, &[]),
    of("relu", 1, 1, &[]),
    of("tanh", 1, 1, &[]),
    of("sigmoid", 1, 1, &[]),
    of("swiglu_oai", 2, 2, &[]),
    of("clamp", 3, 3, &[]),
    of("softmax", 1, 1, &[]),
    of("top", 2, 2, &["groups", "used_groups", "shared"]),
    of("take", 2, 2, &[]),
    of("normalize", 1, 1, &[]),
    of("mix", 2, 2, &[]),
    of("linear_heads", 2, 2, &[]),
    of("repeat", 2, 2, &["each"]),
    of("exp", 1, 1, &[]),
    of("softplus", 1, 1, &[]),
    of("l2_norm", 2, 2, &[]),
    of("total", 1, 1, &[]),
    of("by_position", 3, 3, &["offset"]),
    of("shift", 1, 1, &["ahead"]),
    of("conv", 2, 2, &["dilation"]),
    of("constant", 1, 1, &[]),
    of("pick", 4, 4, &["block", "local", "whole"]),
    of("source_vectors", 1, 1, &[]),
    of("linear_taps", 2, 2, &[]),
    of("root", 1, 1, &[]),
    of("sinkhorn", 3, 3, &[]),
    of("choice", 2, 2, &[]),
    of("pool", 3, 3, &[]),
    of("nearest", 1, 1, &[]),
    of("is_token", 1, 1, &[]),
    of("recurrence", 4, 4, &["rates", "before", "from", "to"]),
    of("hashed_rows", 6, 6, &[]),
];

/// The inputs of a graph: token IDs, and positions in the text.
pub(crate) const INPUTS: [&str; 2] = ["tokens", "positions"];
/// The possible outputs of a graph: a logit per token of the vocabulary, or a vector.
pub(crate) const OUTPUTS: [&str; 2] = ["logits", "embedding"];

/// Returns `true` for the name of an operation.
pub(crate) fn is_operation(name: &str) -> bool {
    signature(name).is_some()
}

/// Returns the signature of the operation with this name.
pub(crate) fn signature(name: &str) -> Option<Signature> {
    OPERATIONS.into_iter().find(|operation| operation.name == name)
}

/// The kind of output of a graph, per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// Logits: a score for each token of the vocabulary.
    Logits,
    /// A vector.
    Embedding,
}

/// The loop variable of the blocks of a model.
pub(crate) const BLOCK_VARIABLE: &str = "bid";

/// A loop with its text.
pub(crate) type Repeat = (Box<str>, Loop);

/// Groups consecutive step groups with the same loop: they form one loop body. A group without a loop
/// is separate.
pub(crate) fn bodies<G>(
    groups: &[G],
    repeat: impl Fn(&G) -> Option<&Repeat>,
) -> impl Iterator<Item = &[G]> {
    groups.chunk_by(move |one, next| match (repeat(one), repeat(next)) {
        (Some((one, _)), Some((next, _))) => one == next,
        _ => false,
    })
}

/// Fails for an unknown operation, a wrong number of arguments or an unknown option.
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

/// Statements of a computation graph that share a function, a loop and a condition, or the steps of a
/// graph in a file.
///
/// ```
/// use ggmill_arch::Architecture;
/// let qwen3 = Architecture::builtin("qwen3").ok_or("built in")?;
/// let groups = qwen3.graph_outline().ok_or("has a graph")?;
/// let steps: Vec<_> = groups.iter().flat_map(|group| &group.steps).collect();
/// assert_eq!(steps[0].text, "def layer(x, i, rope_params)");
/// assert!(groups.iter().any(|group| group.repeat.as_deref() == Some("i in range(block_count)")));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepsOutline {
    /// The loop. Consecutive groups with the same loop are one loop body.
    pub repeat: Option<String>,
    /// The condition.
    pub when: Option<String>,
    /// The reason why models that meet the condition have no graph; such a group has no steps.
    pub because: Option<String>,
    /// The steps.
    pub steps: Vec<StepOutline>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepOutline {
    /// The text of the step.
    pub text: String,
    /// The steps whose values it uses, counted over all groups, each with the name of the value. If
    /// several steps assign a name, these are the last one before this step and, in a loop, the last
    /// one of the previous iteration.
    pub takes: Vec<(usize, String)>,
}

/// Returns steps as one group, each with the steps whose values it uses.
pub(crate) fn outline(steps: &[(String, Binding)]) -> Vec<StepsOutline> {
    let mut bound: BTreeMap<&str, usize> = BTreeMap::new();
    let mut outlines = Vec::with_capacity(steps.len());
    for (number, (text, binding)) in steps.iter().enumerate() {
        let mut takes = Vec::new();
        for name in binding.value.names() {
            let known = bound.get(name).map(|&from| (from, name.to_owned()));
            let known = known.filter(|known| !takes.contains(known));
            takes.extend(known);
        }
        for name in &binding.names {
            bound.insert(name, number);
        }
        outlines.push(StepOutline { text: text.clone(), takes });
    }
    vec![StepsOutline { repeat: None, when: None, because: None, steps: outlines }]
}
