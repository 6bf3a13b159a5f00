//! Unknown architectures, and tensors that another one has.

use ggmill_arch::{Architecture, TensorNames};
use ggmill_core::{RawStr, keys};

use super::{MISNAMED, NOT_AS_DESCRIBED, UNEXPECTED_TENSOR, UNKNOWN};
use crate::report::{Findings, Place, shown};
use crate::{Input, Options, Profile};
use ggmill_arch::distance;

/// An unknown name: another program's, unless the file shows that it is a slip.
pub(super) fn unknown(input: &Input<'_>, options: &Options, name: &str, out: &mut Findings<'_>) {
    let Some(pair) = input.metadata().get(keys::GENERAL_ARCHITECTURE) else { return };
    let own = format!("{name}.");
    let has_own = !name.is_empty()
        && input.metadata().iter().any(|pair| pair.key().as_bytes().starts_with(own.as_bytes()));
    let meant = if has_own { None } else { meant(input, name) };
    let shown = shown(RawStr::from(name));
    match meant {
        Some(meant) => out.add(&MISNAMED, Place::value(&pair), || {
            format!("architecture {shown}; did you mean {meant}?")
        }),
        None if options.profile == Profile::Ggml || name.is_empty() => {
            out.add(&MISNAMED, Place::value(&pair), || format!("architecture {shown}"));
        }
        None => out.add(&UNKNOWN, Place::value(&pair), || format!("architecture {shown}")),
    }
}

/// The known architecture whose keys the file has, or whose name is a letter away.
fn meant(input: &Input<'_>, name: &str) -> Option<&'static str> {
    const MAX_LEN: usize = 64;
    let all = || TensorNames::all().map(|(known, _)| known);
    let mut spaces = input
        .metadata()
        .iter()
        .filter_map(|pair| pair.key().to_str().ok()?.split_once('.').map(|(space, _)| space));
    let by_keys = spaces.find_map(|space| all().find(|known| *known == space));
    let plain = name.trim().to_ascii_lowercase();
    let is_near = |known: &&str| {
        *known == plain
            || (4..MAX_LEN).contains(&plain.len())
                && distance(known.as_bytes(), plain.as_bytes()) == 1
    };
    by_keys.or_else(|| all().find(is_near))
}

/// Tensors of another architecture, in a model whose own are not known to the last: the names tell
/// it without the numbers.
pub(super) fn aliens(
    input: &Input<'_>,
    names: &TensorNames,
    described: Option<&Architecture>,
    by_loader: bool,
    out: &mut Findings<'_>,
) {
    // The list of names is Python's, which lacks some that a description has.
    let is_known = |name: &str| {
        names.contains(name) || described.is_some_and(|architecture| architecture.can_have(name))
    };
    let rule = if by_loader { &UNEXPECTED_TENSOR } else { &NOT_AS_DESCRIBED };
    for (shard, tensor) in input.model_tensors() {
        if !tensor.name().to_str().is_ok_and(is_known) {
            out.add(rule, Place::info(&tensor).in_shard(shard), || {
                "not a tensor name of this architecture".into()
            });
        }
    }
}
