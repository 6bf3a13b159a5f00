//! Numbers that contradict each other in any architecture: experts, and arrays with a number for each block.

use ggmill_core::Value;

use super::{NOT_AS_DESCRIBED, NUMBERS};
use crate::Input;
use crate::report::{Findings, Place};

/// Experts that llama.cpp has room for.
const MOST_EXPERTS: u64 = 1024;
/// Keys that have one number, or one for each block.
const BY_BLOCK: [&str; 5] = ["feed_forward_length", "attention.head_count", "attention.head_count_kv", "expert_used_count", "expert_feed_forward_length"];

/// Whether the numbers of experts and the lengths of arrays fit.
pub(super) fn numbers(input: &Input<'_>, name: &str, by_loader: bool, out: &mut Findings<'_>) -> bool {
    let rule = if by_loader { &NUMBERS } else { &NOT_AS_DESCRIBED };
    let value = |key: &str| input.value(&format!("{name}.{key}"));
    let mut faults = wrong_lengths(value);
    faults.extend(wrong_experts(value));
    for (key, message) in &faults {
        let key = format!("{name}.{key}");
        let place = input.metadata().get(&key).map_or(Place::missing(&key), |pair| Place::value(&pair));
        out.add(rule, place, || message.clone());
    }
    faults.is_empty()
}

type Faults = Vec<(&'static str, String)>;

fn wrong_lengths<'a>(value: impl Fn(&str) -> Option<Value<'a>>) -> Faults {
    let Some(blocks) = value("block_count").and_then(|value| value.as_u64()) else { return Faults::new() };
    let wrong = |key: &'static str| {
        let len = value(key)?.as_array()?.len();
        (len != blocks).then(|| (key, format!("an array of {len}, expected one number for each of {blocks} blocks")))
    };
    BY_BLOCK.into_iter().filter_map(wrong).collect()
}

fn wrong_experts<'a>(value: impl Fn(&str) -> Option<Value<'a>>) -> Faults {
    let number = |key: &str| value(key).and_then(|value| value.as_u64()).unwrap_or(0);
    let (experts, groups, groups_used) = (number("expert_count"), number("expert_group_count"), number("expert_group_used_count"));
    let used = match value("expert_used_count") {
        Some(Value::Array(array)) => array.integers().into_iter().flatten().max(),
        value => value.and_then(|value| value.as_i128()),
    };
    let used = used.unwrap_or(0);
    let mut faults = Faults::new();
    if experts > MOST_EXPERTS {
        faults.push(("expert_count", format!("{experts} experts, llama.cpp takes {MOST_EXPERTS}")));
    }
    if used > i128::from(experts) {
        faults.push(("expert_used_count", format!("{used} experts used at a time, and there are {experts}")));
    } else if experts > 0 && used <= 0 {
        faults.push(("expert_used_count", format!("no expert is used, and there are {experts}")));
    }
    if groups > 0 && groups >= experts {
        faults.push(("expert_group_count", format!("{groups} groups of {experts} experts")));
    } else if groups > 1 {
        if !experts.is_multiple_of(groups) {
            faults.push(("expert_group_count", format!("{groups} groups do not share {experts} experts evenly")));
        }
        if groups_used == 0 || groups_used >= groups {
            faults.push(("expert_group_used_count", format!("{groups_used} of {groups} groups of experts used at a time")));
        }
    }
    faults
}
