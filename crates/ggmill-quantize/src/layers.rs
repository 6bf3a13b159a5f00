//! The order of the tensors in the output, and the removal of layers.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use ggmill_pipeline::SourceTensor;
use ggmill_pipeline::{Error, ErrorKind, Result};

/// A tensor of the output: its number in the source, and its name in the output.
#[derive(Debug)]
pub(crate) struct Remaining {
    pub(crate) number: usize,
    pub(crate) name: Vec<u8>,
}

/// Returns the numbers of the tensors in the order in which the reference writes one file: by
/// layer, then by name. Tensors of no layer come first.
pub(crate) fn by_layer(tensors: &[SourceTensor]) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..tensors.len()).collect();
    numbers.sort_by(|&a, &b| order(&tensors[a].name, &tensors[b].name));
    numbers
}

/// Returns the numbers of the tensors by layer, with the tensors of one layer in file order.
pub(crate) fn by_layer_stable(tensors: &[SourceTensor]) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..tensors.len()).collect();
    numbers.sort_by_key(|&number| layer(&tensors[number].name));
    numbers
}

/// Returns an error if a layer to be removed does not exist.
pub(crate) fn check_pruned(tensors: &[SourceTensor], pruned: &BTreeSet<u64>) -> Result<()> {
    if pruned.is_empty() {
        return Ok(());
    }
    let layers: BTreeSet<u64> =
        tensors.iter().filter_map(|tensor| block(&tensor.name)).map(|block| block.layer).collect();
    let Some(missing) = pruned.difference(&layers).next() else { return Ok(()) };
    Err(Error::new(
        ErrorKind::Misuse,
        format!("there is no layer {missing} to remove: {}", describe(&layers)),
    ))
}

/// Describes the existing layers for an error message.
fn describe(layers: &BTreeSet<u64>) -> String {
    const NAMED: usize = 32;
    let (Some(first), Some(last)) = (layers.first(), layers.last()) else {
        return "the model has no layers".to_owned();
    };
    if last - first == layers.len() as u64 - 1 {
        return format!("the model has layers {first} to {last}");
    }
    let named: Vec<String> = layers.iter().take(NAMED).map(u64::to_string).collect();
    format!(
        "the model has layers {}{}",
        named.join(", "),
        if layers.len() > NAMED { ", …" } else { "" }
    )
}

/// Removes the tensors of pruned layers and renumbers the other layers. Returns the remaining
/// tensors and the number of remaining layers.
pub(crate) fn remaining(
    tensors: &[SourceTensor],
    numbers: Vec<usize>,
    pruned: &BTreeSet<u64>,
) -> (Vec<Remaining>, u64) {
    let layers: BTreeSet<u64> = tensors
        .iter()
        .filter_map(|tensor| block(&tensor.name))
        .map(|block| block.layer)
        .filter(|layer| !pruned.contains(layer))
        .collect();
    let new_number = |layer: u64| pruned.range(..layer).count() as u64;
    let remaining = numbers.into_iter().filter_map(|number| {
        let name = &tensors[number].name;
        let Some(block) = block(name).filter(|_| !pruned.is_empty()) else {
            return Some(Remaining { number, name: name.clone() });
        };
        if pruned.contains(&block.layer) {
            return None;
        }
        let new = (block.layer - new_number(block.layer)).to_string();
        Some(Remaining {
            number,
            name: [&name[..block.start], new.as_bytes(), &name[block.end..]].concat(),
        })
    });
    let count = layers.last().map_or(0, |&last| last + 1 - new_number(last));
    (remaining.collect(), count)
}

fn order(a: &[u8], b: &[u8]) -> Ordering {
    layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
}

/// A layer number in a name, `blk.N.`, possibly after a prefix.
struct Block {
    layer: u64,
    start: usize,
    end: usize,
}

fn block(name: &[u8]) -> Option<Block> {
    const MARK: &[u8] = b"blk.";
    name.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK).find_map(
        |(at, _)| {
            let start = at + MARK.len();
            let end = start + name[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let layer = std::str::from_utf8(&name[start..end]).ok()?.parse().ok()?;
            (name.get(end) == Some(&b'.')).then_some(Block { layer, start, end })
        },
    )
}

/// Returns the number of a tensor's layer: `N` if its name begins with `blk.N.`.
pub(crate) fn layer(name: &[u8]) -> Option<u64> {
    let rest = name.strip_prefix(b"blk.")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use ggmill_core::{GgmlType, Shape};

    use super::*;

    fn names(names: &[&str], pruned: &[u64]) -> (Vec<String>, u64) {
        let tensor =
            |name: &&str| SourceTensor::new(*name, GgmlType::F32, Shape::new(&[1]).unwrap());
        let tensors: Vec<_> = names.iter().map(tensor).collect();
        let (remaining, layers) =
            remaining(&tensors, by_layer(&tensors), &pruned.iter().copied().collect());
        (
            remaining.into_iter().map(|tensor| String::from_utf8(tensor.name).unwrap()).collect(),
            layers,
        )
    }

    #[test]
    fn tensors_without_a_layer_come_first() {
        let (sorted, _) = names(
            &[
                "blk.10.a",
                "output.weight",
                "blk.2.b",
                "blk.2.a",
                "enc.blk.0.a",
                "token_embd.weight",
            ],
            &[],
        );
        assert_eq!(
            sorted,
            ["enc.blk.0.a", "output.weight", "token_embd.weight", "blk.2.a", "blk.2.b", "blk.10.a"]
        );
    }

    #[test]
    fn removing_a_missing_layer_is_an_error() {
        let check = |names: &[&str], pruned: &[u64]| {
            let tensor =
                |name: &&str| SourceTensor::new(*name, GgmlType::F32, Shape::new(&[1]).unwrap());
            check_pruned(
                &names.iter().map(tensor).collect::<Vec<_>>(),
                &pruned.iter().copied().collect(),
            )
            .map_err(|error| error.to_string())
        };
        assert_eq!(check(&["blk.0.a", "blk.1.a", "output.weight"], &[1]), Ok(()));
        assert_eq!(check(&["output.weight"], &[]), Ok(()));
        let wrong = |message: &str| Err(message.to_owned());
        assert_eq!(
            check(&["blk.0.a", "blk.1.a"], &[1, 99]),
            wrong("there is no layer 99 to remove: the model has layers 0 to 1")
        );
        assert_eq!(
            check(&["blk.0.a", "blk.3.a"], &[2]),
            wrong("there is no layer 2 to remove: the model has layers 0, 3")
        );
        assert_eq!(
            check(&["output.weight"], &[0]),
            wrong("there is no layer 0 to remove: the model has no layers")
        );
    }

    #[test]
    fn remaining_layers_are_renumbered() {
        let all = ["blk.0.a", "blk.1.a", "blk.2.a", "blk.3.a", "blk.4.a", "output.weight"];
        assert_eq!(
            names(&all, &[1, 3]),
            (vec!["output.weight".into(), "blk.0.a".into(), "blk.1.a".into(), "blk.2.a".into()], 3)
        );
        assert_eq!(
            names(&all, &[0]),
            (
                vec![
                    "output.weight".into(),
                    "blk.0.a".into(),
                    "blk.1.a".into(),
                    "blk.2.a".into(),
                    "blk.3.a".into()
                ],
                4
            )
        );
    }
}
