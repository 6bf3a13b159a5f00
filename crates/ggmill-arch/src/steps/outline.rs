//! The steps of a description for programs that draw them.

use std::collections::BTreeMap;

use super::GraphTemplate;

/// Steps of a computation graph that share a loop and a condition, as the description has them.
///
/// ```
/// use ggmill_arch::Architecture;
/// let qwen3 = Architecture::builtin("qwen3").ok_or("built in")?;
/// let groups = qwen3.graph_outline().ok_or("has a graph")?;
/// let steps: Vec<_> = groups.iter().flat_map(|group| &group.steps).collect();
/// assert_eq!(steps[0].text, "x = rows(token_embd, tokens)");
/// assert!(groups.iter().any(|group| group.repeat.as_deref() == Some("bid in 0..block_count")));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepsOutline {
    /// The loop; groups one after the other with the same one are one body.
    pub repeat: Option<String>,
    /// The condition.
    pub when: Option<String>,
    /// Why a model for which the condition is true has no graph; such a group has no steps.
    pub because: Option<String>,
    /// The steps.
    pub steps: Vec<StepOutline>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepOutline {
    /// The whole step.
    pub text: String,
    /// The steps whose values it takes, counted over all groups, each with the name of the value. Of
    /// several steps that assign a name, the last one before this step, and the last one of the loop
    /// where the value also comes from the previous turn of it.
    pub takes: Vec<(usize, String)>,
}

impl GraphTemplate {
    pub(crate) fn outline(&self) -> Vec<StepsOutline> {
        let mut outlines = Vec::with_capacity(self.groups.len());
        let mut bound: BTreeMap<&str, usize> = BTreeMap::new();
        let mut number = 0usize;
        for group in &self.groups {
            let mut steps = Vec::with_capacity(group.steps.len());
            for step in &group.steps {
                let mut takes = Vec::new();
                for name in step.binding.value.names() {
                    let known = bound.get(name).map(|&from| (from, name.to_owned()));
                    let known = known.filter(|known| !takes.contains(known));
                    takes.extend(known);
                }
                for name in &step.binding.names {
                    bound.insert(name, number);
                }
                steps.push(StepOutline { text: step.text.to_string(), takes });
                number = number.saturating_add(1);
            }
            outlines.push(StepsOutline {
                repeat: group.repeat.as_ref().map(|(text, _)| text.to_string()),
                when: group.when.as_ref().map(|(text, _)| text.to_string()),
                because: group.because.as_ref().map(ToString::to_string),
                steps,
            });
        }
        self.add_turns(&mut outlines);
        outlines
    }

    /// Adds what steps of a loop take from its previous turn.
    fn add_turns(&self, outlines: &mut [StepsOutline]) {
        let starts: Vec<usize> = self
            .groups
            .iter()
            .scan(0usize, |next, group| {
                let start = *next;
                *next = next.saturating_add(group.steps.len());
                Some(start)
            })
            .collect();
        let mut first = 0usize;
        for body in super::bodies(&self.groups, |group| group.repeat.as_ref()) {
            let groups = first..first.saturating_add(body.len());
            first = groups.end;
            if body.first().is_none_or(|group| group.repeat.is_none()) {
                continue;
            }
            let begin = starts.get(groups.start).copied().unwrap_or(0);
            let mut last: BTreeMap<&str, usize> = BTreeMap::new();
            for (group, &start) in body.iter().zip(starts.iter().skip(groups.start)) {
                for (place, step) in group.steps.iter().enumerate() {
                    for name in &step.binding.names {
                        last.insert(name, start.saturating_add(place));
                    }
                }
            }
            for outline in outlines.get_mut(groups).unwrap_or_default() {
                for step in &mut outline.steps {
                    let from_before = step.takes.iter().filter(|(from, _)| *from < begin);
                    let turns = from_before.filter_map(|(_, name)| {
                        last.get(&**name).map(|&from| (from, name.clone()))
                    });
                    let turns: Vec<_> = turns.collect();
                    step.takes.extend(turns);
                }
            }
        }
    }
}
