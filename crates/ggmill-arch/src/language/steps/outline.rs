//! Outlines of computation graphs, for programs that draw them.

use std::collections::BTreeMap;

use crate::language::expression::Binding;

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
