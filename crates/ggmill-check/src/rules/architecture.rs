//! What an architecture demands: keys, and numbers that fit each other.

use ggmill_core::{RawStr, ValueType, keys};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Architecture;
    REQUIRED = "GG1501" Error Both {
        summary: "A hyper-parameter is missing",
        clause: "Specification, of the keys of an architecture: \"each key specified _must_ be present\"; llama.cpp: \"key not found in model\".",
        why: "llama.cpp refuses the model.",
        remedy: "Convert the model again, or set the key from its config.json.",
    }
    REQUIRED_BY_SPEC = "GG1502" Warning Specification {
        summary: "A hyper-parameter that has a default is missing",
        clause: "Specification, of the keys of an architecture: \"each key specified _must_ be present\". llama.cpp takes a default.",
        why: "Another program may take another default, or refuse the model.",
        remedy: "Set the key from the model's config.json.",
    }
    UNKNOWN = "GG1503" Note Reference {
        summary: "An architecture llama.cpp does not know",
        clause: "llama.cpp: \"unknown model architecture\". The specification lets communities have their own.",
        why: "Only the programs made for it load the file.",
        remedy: "Nothing, when the file is for such a program.",
    }
    KEY_TYPE = "GG1504" Error Reference {
        summary: "A hyper-parameter has another type",
        clause: "llama.cpp: \"key has wrong type\"; the reference's converter writes each key with the type that is read.",
        why: "llama.cpp refuses the model.",
        remedy: "Set the key again with the type it should have.",
    }
    HEADS = "GG1505" Warning Practice {
        summary: "Numbers of heads do not fit",
        clause: "Heads share the embedding evenly unless attention.key_length says otherwise, and query heads share key heads evenly.",
        why: "Tensors do not have the shapes that the numbers promise, and readers refuse the model.",
        remedy: "Set the numbers of heads from the model's config.json.",
    }
    BLOCKS = "GG1506" Error Both {
        summary: "Blocks are not as many as is said",
        clause: "Specification: block_count is \"the number of blocks of attention+feed-forward layers\"; tensors of a block are named blk.N, N from 0.",
        why: "llama.cpp refuses a model with a block missing, and one with tensors that no block uses.",
        remedy: "Set block_count to the number of blocks in the file, or convert the model again.",
    }
    ROPE_TYPE = "GG1507" Warning Both {
        summary: "An unknown method of RoPE scaling",
        clause: "Specification: rope.scaling.type \"can be `none`, `linear`, or `yarn`\"; llama.cpp knows longrope too.",
        why: "The model goes wrong beyond its first context, or is refused.",
        remedy: "Set the key to one of the known methods.",
    }
    ROPE_FACTOR = "GG1508" Warning Practice {
        summary: "RoPE scaling without its factor",
        clause: "Specification: rope.scaling.factor is \"a scale factor for RoPE to adjust the context length\".",
        why: "Readers scale by 1, which is not at all.",
        remedy: "Set rope.scaling.factor from the model's config.json.",
    }
    ROPE_OLD = "GG1509" Note Specification {
        summary: "RoPE scaling under its older key",
        clause: "Specification: \"it is recommended that models use the newer keys if possible\" instead of rope.scale_linear.",
        why: "Newer programs may not look for it.",
        remedy: "Set rope.scaling.type to linear and rope.scaling.factor to the value.",
    }
    NO_TENSORS = "GG1510" Note Practice {
        summary: "A model without tensors that is not called a vocabulary",
        clause: "The specification's name for such a file has the type `vocab`.",
        why: "Programs try to run it and fail.",
        remedy: "Set general.type to vocab, or fetch the whole model.",
    }
}

/// Every architecture llama.cpp has.
static KNOWN: &str = include_str!("../../data/architectures.txt");
/// What the specification's sections on the architectures list: a name and its keys in each line.
static REQUIRED_KEYS: &str = include_str!("../../data/required-keys.txt");
/// What llama.cpp reads of every language model, without a default.
const ALWAYS: [&str; 3] = ["context_length", "embedding_length", "block_count"];

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let Some(name) = input.architecture().filter(|_| input.is_whole()) else { return };
    if !matches!(input.kind(), "model" | "vocab") {
        return;
    }
    if !KNOWN.lines().any(|known| known == name) {
        if let Some(pair) = input.metadata().get(keys::GENERAL_ARCHITECTURE) {
            out.add(&UNKNOWN, Place::value(&pair), || format!("architecture {}", shown(RawStr::from(name))));
        }
        return;
    }
    // Only the first shard of a set has the keys, and a vocabulary need not have them.
    let is_first = input.number(keys::SPLIT_NO).unwrap_or(0) == 0;
    if !input.tensors().is_empty() {
        if is_first {
            required(input, name, out);
        }
        blocks(input, name, out);
    } else if is_first && input.text(keys::GENERAL_TYPE) == Some("model") && input.number(keys::SPLIT_COUNT).unwrap_or(0) < 2 {
        out.add(&NO_TENSORS, Place::FILE, || "there are no tensors".into());
    }
    types(input, name, out);
    heads(input, name, out);
    rope(input, name, out);
}

fn required(input: &Input<'_>, name: &str, out: &mut Findings<'_>) {
    let listed = REQUIRED_KEYS.lines().find_map(|line| line.split_once(' ').filter(|(known, _)| *known == name)).map_or("", |(_, keys)| keys);
    let missing = |key: &str| input.metadata().get(format!("{name}.{key}")).is_none();
    // Two architectures have other names for these.
    let always = ALWAYS.into_iter().filter(|_| !matches!(name, "clip" | "wavtokenizer-dec"));
    for key in always.filter(|key| missing(key)) {
        out.add(&REQUIRED, Place::missing(&format!("{name}.{key}")), || "there is no such key".into());
    }
    for key in listed.split(' ').filter(|key| !key.is_empty() && !ALWAYS.contains(key) && missing(key)) {
        out.add(&REQUIRED_BY_SPEC, Place::missing(&format!("{name}.{key}")), || "there is no such key".into());
    }
}

/// The types that the catalogue's description gives the keys. What it lacks is not judged.
fn types(input: &Input<'_>, name: &str, out: &mut Findings<'_>) {
    let built_in = ggmill_arch::Catalogue::new();
    let catalogue = input.catalogue.unwrap_or(&built_in);
    let Some(architecture) = catalogue.by_name(name) else { return };
    for pair in input.metadata().iter() {
        let Some((Some(expected), _)) = pair.key().to_str().ok().and_then(|key| architecture.key_types(key)) else { continue };
        // One value for each block is read where one for all is.
        let (found, general) = (pair.value_type(), pair.key().as_bytes().starts_with(b"general."));
        if found != expected && found != ValueType::ARRAY && !general {
            out.add(&KEY_TYPE, Place::value(&pair), || format!("is {found}, expected {expected}"));
        }
    }
}

fn heads(input: &Input<'_>, name: &str, out: &mut Findings<'_>) {
    let number = |key: &str| input.number(&format!("{name}.{key}"));
    let key = format!("{name}.attention.head_count");
    let (Some(pair), Some(heads)) = (input.metadata().get(&key), number("attention.head_count")) else { return };
    let embedding = number("embedding_length").filter(|_| number("attention.key_length").is_none());
    if heads == 0 {
        // Models without attention say 0.
        return;
    }
    if let Some(embedding) = embedding.filter(|embedding| !embedding.is_multiple_of(heads)) {
        out.add(&HEADS, Place::value(&pair), || format!("{heads} heads do not share an embedding of {embedding} evenly"));
    }
    if let Some(groups) = number("attention.head_count_kv").filter(|&groups| groups > 0 && !heads.is_multiple_of(groups)) {
        out.add(&HEADS, Place::value(&pair), || format!("{heads} heads do not share {groups} key heads evenly"));
    }
}

fn blocks(input: &Input<'_>, name: &str, out: &mut Findings<'_>) {
    if input.number(keys::SPLIT_COUNT).unwrap_or(0) > 1 {
        return;
    }
    let key = format!("{name}.block_count");
    let (Some(pair), Some(count)) = (input.metadata().get(&key), input.number(&key)) else { return };
    let number = |tensor: ggmill_core::Tensor<'_>| -> Option<u64> { tensor.name().to_str().ok()?.strip_prefix("blk.")?.split_once('.')?.0.parse().ok() };
    let mut numbers: Vec<u64> = input.tensors().iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    // Architectures with an encoder name its blocks otherwise.
    let Some(&last) = numbers.last() else { return };
    if last >= count {
        out.add(&BLOCKS, Place::value(&pair), || format!("{count} blocks, there are tensors of block {last}"));
    } else if let Some(gap) =
        numbers.iter().zip(0..).find(|(number, place)| *number != place).map(|(_, place)| place).or((last + 1 < count).then_some(last + 1))
    {
        out.add(&BLOCKS, Place::value(&pair), || format!("{count} blocks, there is no tensor of block {gap}"));
    }
}

fn rope(input: &Input<'_>, name: &str, out: &mut Findings<'_>) {
    let key = format!("{name}.rope.scaling.type");
    if let (Some(pair), Some(method)) = (input.metadata().get(&key), input.text(&key)) {
        let factor = format!("{name}.rope.scaling.factor");
        if !["none", "linear", "yarn", "longrope"].contains(&method) {
            out.add(&ROPE_TYPE, Place::value(&pair), || format!("method {}", shown(RawStr::from(method))));
        } else if matches!(method, "linear" | "yarn") && input.metadata().get(&factor).is_none() {
            out.add(&ROPE_FACTOR, Place::missing(&factor), || format!("the method is {method} and there is no factor"));
        }
    }
    if let Some(pair) = input.metadata().get(format!("{name}.rope.scale_linear")) {
        out.add(&ROPE_OLD, Place::key(&pair), || "is the older key".into());
    }
}
