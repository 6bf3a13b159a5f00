//! Numbers that contradict each other in any architecture: experts, and arrays with a number for
//! each block.

use ggmill_arch::ModelView;
use ggmill_core::Value;

use super::{NOT_AS_DESCRIBED, NUMBERS};
use crate::Input;
use crate::report::{Findings, Place};

/// Experts that llama.cpp has room for.
const MAX_EXPERTS: u64 = 1024;
/// Keys that have one number, or one for each block.
const BY_BLOCK: [&str; 5] = [
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "expert_used_count",
    "expert_feed_forward_length",
];

/// Whether the numbers of experts and the lengths of arrays fit.
pub(super) fn numbers(
    input: &Input<'_>,
    model: &ModelView<'_>,
    by_loader: bool,
    out: &mut Findings<'_>,
) -> bool {
    let rule = if by_loader { &NUMBERS } else { &NOT_AS_DESCRIBED };
    let mut faults = wrong_lengths(model);
    faults.extend(wrong_experts(model));
    for (key, message) in &faults {
        let key = model.key(key);
        let place =
            input.metadata().get(&key).map_or(Place::missing(&key), |pair| Place::value(&pair));
        out.add(rule, place, || message.clone());
    }
    faults.is_empty()
}

type Faults = Vec<(&'static str, String)>;

fn wrong_lengths(model: &ModelView<'_>) -> Faults {
    let Some(blocks) = model.integer("block_count") else { return Faults::new() };
    let wrong = |key: &'static str| {
        let len = model.len_of(key)?;
        (len != blocks).then(|| {
            (key, format!("array of {len} elements, expected one for each of {blocks} layers"))
        })
    };
    BY_BLOCK.into_iter().filter_map(wrong).collect()
}

fn wrong_experts(model: &ModelView<'_>) -> Faults {
    let number = |key: &str| model.integer(key).unwrap_or(0);
    let (experts, groups, groups_used) =
        (number("expert_count"), number("expert_group_count"), number("expert_group_used_count"));
    let used = match model.value("expert_used_count") {
        Some(Value::Array(array)) => array.integers().into_iter().flatten().max(),
        value => value.and_then(|value| value.as_i128()),
    };
    let used = used.unwrap_or(0);
    let mut faults = Faults::new();
    if experts > MAX_EXPERTS {
        faults.push((
            "expert_count",
            format!("{experts} experts, but llama.cpp allows at most {MAX_EXPERTS}"),
        ));
    }
    if used > i128::from(experts) {
        faults.push((
            "expert_used_count",
            format!("{used} experts used per token, but there are {experts}"),
        ));
    } else if experts > 0 && used <= 0 {
        faults.push(("expert_used_count", format!("no expert is used, but there are {experts}")));
    }
    if groups > 0 && groups >= experts {
        faults.push(("expert_group_count", format!("{groups} groups of {experts} experts")));
    } else if groups > 1 {
        if !experts.is_multiple_of(groups) {
            faults.push((
                "expert_group_count",
                format!("{experts} experts are not a multiple of {groups} groups"),
            ));
        }
        if groups_used == 0 || groups_used >= groups {
            faults.push((
                "expert_group_used_count",
                format!("{groups_used} of {groups} expert groups used per token"),
            ));
        }
    }
    faults
}
