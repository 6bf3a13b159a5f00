//! The text form of graph operations in files and of compute steps: `docs/formats/graph-file.md`.

mod known;
mod outline;

use crate::error::quoted;
use crate::language::expression::{Loop, Node};

pub(crate) use outline::outline;
pub use outline::{StepOutline, StepsOutline};

pub(crate) use known::{INPUTS, OUTPUTS, Signature, is_operation, signature};

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
