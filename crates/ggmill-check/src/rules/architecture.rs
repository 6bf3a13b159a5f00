//! What an architecture demands: keys, and numbers that fit each other.

mod names;
mod numbers;

use ggmill_arch::{
    Architecture, Catalogue, Demand, Difference, ModelView, Resolved, SpecifiedKey, TensorNames,
};
use ggmill_core::{Pair, RawStr, Tensor, ValueType, keys};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Input, Options, Rule};
use names::{aliens, unknown};
use numbers::numbers;

use super::metadata::retyped;

rules! { Architecture;
    REQUIRED = "GG1501" Error Both {
        summary: "A hyper-parameter is missing",
        clause: "Specification, of the keys of an architecture: \"each key specified _must_ be present\"; llama.cpp: \"key not found in model\".",
        why: "llama.cpp refuses the model.",
        remedy: "Convert the model again, or set the key from its config.json.",
    }
    REQUIRED_BY_SPEC = "GG1502" Warning Must {
        summary: "A hyper-parameter that the specification demands is missing",
        clause: "Specification, of the keys of an architecture: \"each key specified _must_ be present\". llama.cpp takes a default, or has no such model.",
        why: "A program without a default refuses the model, and two defaults make two models of one file.",
        remedy: "Set the key from the model's config.json.",
    }
    REQUIRED_BY_LOADER = "GG1518" Error Reference {
        summary: "A hyper-parameter that llama.cpp requires is missing",
        clause: "llama.cpp: \"key not found in model\", or a number taken as 0 with which the tensors do not load. The specification does not require the key of this architecture.",
        why: "llama.cpp refuses the model.",
        remedy: "Convert the model again, or set the key from its config.json.",
    }
    REQUIRED_AND_RARE = "GG1519" Error Letter {
        summary: "A hyper-parameter that the specification requires and hardly any file has is missing",
        clause: "Specification, of the keys of an architecture: \"each key specified _must_ be present\". llama.cpp takes a default or does not read the key.",
        why: "A program that follows the specification to the letter refuses the model; no such program is known.",
        remedy: "Set the key from the model's config.json.",
    }
    UNKNOWN = "GG1503" Note Reference {
        summary: "An architecture that is not known",
        clause: "llama.cpp: \"unknown model architecture\". The specification lets communities have their own.",
        why: "Only the programs made for it load the file.",
        remedy: "Nothing, when the file is for such a program.",
    }
    KEY_TYPE = "GG1504" Error Reference {
        summary: "A hyper-parameter has another type",
        clause: "llama.cpp: \"key has wrong type\"; the reference's converter writes each key with the type that is read.",
        why: "llama.cpp refuses the model.",
        remedy: "Set the key again with the type it should have; `ggmill check --fix` does so for whole numbers that fit.",
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
    NUMBERS = "GG1511" Error Reference {
        summary: "Hyper-parameters contradict each other",
        clause: "llama.cpp stops where numbers do not fit: \"invalid n_rot\", \"wrong array length\", a division by zero.",
        why: "No set of tensors belongs to these numbers, and llama.cpp refuses the model or stops without a word.",
        remedy: "Set the keys from the model's config.json, or convert it again.",
    }
    MISSING_TENSOR = "GG1512" Error Reference {
        summary: "A tensor is missing",
        clause: "llama.cpp: \"tensor not found\", for each tensor that its description of the architecture demands.",
        why: "The model is incomplete, and llama.cpp refuses it.",
        remedy: "Convert the model again, or fetch the whole file.",
    }
    UNEXPECTED_TENSOR = "GG1513" Error Reference {
        summary: "A tensor that the architecture does not have",
        clause: "llama.cpp: \"wrong number of tensors\", when a file has more than the architecture takes.",
        why: "llama.cpp refuses the model.",
        remedy: "Remove the tensor, or set general.architecture and the numbers that belong to the tensors.",
    }
    TENSOR_SHAPE = "GG1514" Error Reference {
        summary: "A tensor has another shape than the hyper-parameters say",
        clause: "llama.cpp: \"tensor has wrong shape\".",
        why: "llama.cpp refuses the model.",
        remedy: "Set the hyper-parameters from the model's config.json, or convert it again.",
    }
    MISNAMED = "GG1517" Error Reference {
        summary: "An architecture that llama.cpp does not know",
        clause: "llama.cpp: \"unknown model architecture\", for any name that is not, letter for letter, one of its own.",
        why: "llama.cpp refuses the model.",
        remedy: "Set general.architecture to the name that the keys of the file begin with, or use the program that the file is made for.",
    }
    NOT_AS_DESCRIBED = "GG1515" Warning Practice {
        summary: "Not as the description of the architecture says",
        clause: "The catalogue's or the user's description of an architecture that no loader at hand holds files to.",
        why: "A program made for the architecture may refuse the model.",
        remedy: "Look whether the file is whole, and whether the description is right.",
    }
    TENSOR_NAME = "GG1516" Warning Practice {
        summary: "A tensor name that the architecture is not known to have",
        clause: "gguf's table of the architecture's tensors lacks the name.",
        why: "A reader that goes by the table refuses the model or leaves the tensor out.",
        remedy: "Name the tensor as the architecture's converter does.",
    }
}

/// What llama.cpp reads of every language model, without a default.
const ALWAYS: [&str; 3] = ["context_length", "embedding_length", "block_count"];

pub(super) fn check(input: &Input<'_>, options: &Options, out: &mut Findings<'_>) {
    // What a model is its first file says, for the tensors of all.
    let Some(name) = input.architecture().filter(|_| input.is_whole() && input.is_first()) else {
        return;
    };
    if !matches!(input.kind(), "model" | "vocab") {
        return;
    }
    let built_in = Catalogue::new();
    let described = input.catalogue.unwrap_or(&built_in).by_name(name);
    let names = if described.is_some() { None } else { TensorNames::of(name) };
    if described.is_none() && names.is_none() {
        return unknown(input, options, name, out);
    }
    let model = input.model().described_by(described);
    // A vocabulary need not have the keys of a model.
    if input.model_tensors().next().is_some() {
        let types_fit = described.is_none_or(|architecture| {
            architecture.loader().is_none() || types(input, architecture, out)
        });
        let by_loader = described.is_none_or(|architecture| architecture.loader().is_some());
        // What is no number was told of its key. llama.cpp saves some infinite ones that the
        // architecture does not use.
        let is_used = |pair: &Pair<'_>| {
            pair.key().to_str().is_ok_and(|key| {
                described.is_some_and(|architecture| architecture.key_types(key).is_some())
            })
        };
        let finite = |pair: Pair<'_>| {
            pair.value().ok().and_then(|value| value.as_f64()).is_none_or(f64::is_finite)
                || !is_used(&pair)
        };
        let keys_fit = required(input, &model, name, out) & types_fit
            && input.metadata().iter().all(finite)
            && numbers(input, &model, by_loader, out);
        let resolved = described
            .filter(|_| keys_fit && input.is_complete())
            .and_then(|architecture| Some((architecture, model.resolve()?)));
        let needed =
            |block| !matches!(&resolved, Some((_, Ok(resolved))) if !needs(resolved, block));
        let blocks_fit = !input.is_complete() || blocks(input, &model, needed, out);
        match (&resolved, names) {
            (None, Some(names)) => tensor_names(input, names, out),
            (Some((architecture, Ok(resolved))), _) if blocks_fit => {
                tensors(input, architecture, resolved, out);
            }
            (resolved, _) => {
                if let Some((_, Err(error))) = resolved {
                    out.add(
                        if by_loader { &NUMBERS } else { &NOT_AS_DESCRIBED },
                        Place::FILE,
                        || error.to_string(),
                    );
                }
                if let Some(names) = TensorNames::of(name) {
                    aliens(input, names, described, by_loader, out);
                }
            }
        }
    } else {
        if input.is_complete() && !is_vocabulary(input) {
            required(input, &model, name, out);
        }
        if input.text(keys::GENERAL_TYPE) == Some("model") && input.is_complete() {
            out.add(&NO_TENSORS, Place::FILE, || "there are no tensors".into());
        }
        if let Some(architecture) = described.filter(|architecture| architecture.loader().is_some())
        {
            types(input, architecture, out);
        }
    }
    heads(input, &model, out);
    rope(input, &model, out);
}

/// Whether a file without tensors is a vocabulary, which need not have the keys of a model.
fn is_vocabulary(input: &Input<'_>) -> bool {
    input.text(keys::GENERAL_TYPE) == Some("vocab")
        || input.metadata().get(keys::TOKENIZER_TOKENS).is_some()
}

/// Whether every key is there without which there is no set of tensors.
fn required(input: &Input<'_>, model: &ModelView<'_>, name: &str, out: &mut Findings<'_>) -> bool {
    let mut complete = true;
    let mut missing = |rule, key: &str, by_loader| {
        out.add(rule, Place::missing(key), || absent(key, by_loader));
    };
    let metadata = input.metadata();
    let Some(architecture) = model.description() else {
        for key in ALWAYS.map(|key| model.key(key)) {
            if metadata.get(&*key).is_none() {
                complete = false;
                missing(&REQUIRED_BY_LOADER, &key, true);
            }
        }
        return complete;
    };
    let described = architecture.missing_keys(metadata);
    for key in &described {
        let by_loader = key.demand.is_some_and(Demand::is_by_loader);
        complete &= !by_loader;
        let by_loader = by_loader && architecture.loader().is_some();
        let specified = SpecifiedKey::of(key.name);
        let rule = match (by_loader, specified) {
            (true, Some(_)) => &REQUIRED,
            (true, None) => &REQUIRED_BY_LOADER,
            (false, Some(key)) => by_specification(&key),
            (false, None) => &NOT_AS_DESCRIBED,
        };
        missing(rule, key.name, by_loader);
    }
    let is_told = |key: &SpecifiedKey| described.iter().any(|told| told.name == key.name);
    for key in SpecifiedKey::all()
        .filter(|key| key.architecture() == name && !is_told(key) && !key.is_in(metadata))
    {
        missing(by_specification(&key), key.name, false);
    }
    complete
}

/// The rule about a key that the specification requires and llama.cpp does not.
fn by_specification(key: &SpecifiedKey) -> &'static Rule {
    if key.is_rare { &REQUIRED_AND_RARE } else { &REQUIRED_BY_SPEC }
}

/// What is said of a key that is missing: who requires it.
fn absent(key: &str, by_loader: bool) -> String {
    let Some(specified) = SpecifiedKey::of(key) else {
        return if by_loader {
            "there is no such key: required by llama.cpp, not required by the specification".into()
        } else {
            "there is no such key: required by the description of the architecture".into()
        };
    };
    let other = specified.definition.map(|name| format!(", and no {name}")).unwrap_or_default();
    let loader = if by_loader { " and by llama.cpp" } else { "" };
    format!(
        "there is no such key{other}: required by the specification ({}, line {}){loader}",
        specified.section, specified.line
    )
}

/// Whether keys have the types that the catalogue's description gives them. What it lacks is not
/// judged.
fn types(input: &Input<'_>, architecture: &Architecture, out: &mut Findings<'_>) -> bool {
    let mut fit = true;
    for pair in input.metadata().iter() {
        let Some((single, element)) =
            pair.key().to_str().ok().and_then(|key| architecture.key_types(key))
        else {
            continue;
        };
        // Keys of the format itself have a rule of their own.
        if ["general.", "tokenizer."]
            .iter()
            .any(|space| pair.key().as_bytes().starts_with(space.as_bytes()))
        {
            continue;
        }
        let found = pair.value_type();
        if found == ValueType::ARRAY {
            let elements =
                pair.value().ok().and_then(|value| Some(value.as_array()?.element_type()));
            // Readers take integers of either sign in an array, and numbers for bools.
            let integer = |element: ValueType| [ValueType::U32, ValueType::I32].contains(&element);
            let fits = |expected| {
                elements.is_some_and(|found| {
                    found == expected
                        || (integer(found) && (integer(expected) || expected == ValueType::BOOL))
                })
            };
            if !element.is_some_and(fits) {
                let expected = element.map_or_else(
                    || single.unwrap_or(ValueType::ARRAY).to_string(),
                    |element| format!("an array of {element}"),
                );
                let found = elements
                    .map_or_else(|| "an array".to_owned(), |found| format!("an array of {found}"));
                fit = false;
                out.add(&KEY_TYPE, Place::value(&pair), || {
                    format!("is {found}, expected {expected}")
                });
            }
        } else if single != Some(found) {
            let expected =
                single.map_or_else(|| "an array".to_owned(), |single| single.to_string());
            let fix = single
                .zip(pair.key().to_str().ok())
                .and_then(|(single, key)| retyped(&pair, key, single));
            // Another type of integer says the same number.
            fit &= fix.is_some();
            out.add_fixable(&KEY_TYPE, Place::value(&pair), || {
                (format!("is {found}, expected {expected}"), fix)
            });
        }
    }
    fit
}

/// The tensors against those that the description says a model with these numbers has.
fn tensors(
    input: &Input<'_>,
    architecture: &Architecture,
    model: &Resolved<'_>,
    out: &mut Findings<'_>,
) {
    // What a loader does not hold files to is no error.
    let rule = |rule: &'static Rule| {
        if architecture.loader().is_some() { rule } else { &NOT_AS_DESCRIBED }
    };
    let (shards, all): (Vec<usize>, Vec<Tensor<'_>>) = input.model_tensors().unzip();
    let place = |number: usize| {
        let found = all.get(number).zip(shards.get(number));
        found.map_or(Place::FILE, |(tensor, &shard)| Place::info(tensor).in_shard(shard))
    };
    for difference in model.compare(&all) {
        match difference {
            Difference::Missing(spec) => {
                out.add(rule(&MISSING_TENSOR), Place::absent(&spec.name), || {
                    format!("there is no such tensor, of shape {}", spec.shape)
                });
            }
            Difference::Unexpected(number) => {
                out.add(rule(&UNEXPECTED_TENSOR), place(number), || {
                    format!("is not a tensor of {}", architecture.title())
                });
            }
            Difference::Excluded { spec, place: number } => {
                out.add(rule(&UNEXPECTED_TENSOR), place(number), || {
                    format!("cannot be beside {}", spec.unless.as_deref().unwrap_or("another"))
                });
            }
            Difference::Shape { expected, place: number } => {
                out.add(rule(&TENSOR_SHAPE), place(number), || {
                    let found = all
                        .get(number)
                        .map(|tensor| tensor.shape().to_string())
                        .unwrap_or_default();
                    format!("shape {found}, expected {}", expected.shape)
                });
            }
            _ => {}
        }
    }
}

/// The names of the tensors of an architecture that is known by name alone.
fn tensor_names(input: &Input<'_>, names: &TensorNames, out: &mut Findings<'_>) {
    for (shard, tensor) in input.model_tensors() {
        if !tensor.name().to_str().is_ok_and(|name| names.contains(name)) {
            out.add(&TENSOR_NAME, Place::info(&tensor).in_shard(shard), || {
                "is not among the names of this architecture's tensors".into()
            });
        }
    }
}

fn heads(input: &Input<'_>, model: &ModelView<'_>, out: &mut Findings<'_>) {
    let number = |key: &str| model.integer(key);
    let (Some(pair), Some(heads)) =
        (input.metadata().get(model.key("attention.head_count")), number("attention.head_count"))
    else {
        return;
    };
    let embedding = number("embedding_length").filter(|_| number("attention.key_length").is_none());
    if heads == 0 {
        // Models without attention say 0.
        return;
    }
    if let Some(embedding) = embedding.filter(|embedding| !embedding.is_multiple_of(heads)) {
        out.add(&HEADS, Place::value(&pair), || {
            format!("{heads} heads do not share an embedding of {embedding} evenly")
        });
    }
    if let Some(groups) = number("attention.head_count_kv")
        .filter(|&groups| groups > 0 && !heads.is_multiple_of(groups))
    {
        out.add(&HEADS, Place::value(&pair), || {
            format!("{heads} heads do not share {groups} key heads evenly")
        });
    }
}

/// Whether the model is incomplete without anything in the block.
fn needs(model: &Resolved<'_>, block: u64) -> bool {
    let prefix = format!("blk.{block}.");
    model.tensors().iter().any(|tensor| tensor.required && tensor.name.starts_with(&prefix))
}

/// Whether there are as many blocks as the metadata say.
fn blocks(
    input: &Input<'_>,
    model: &ModelView<'_>,
    needed: impl Fn(u64) -> bool,
    out: &mut Findings<'_>,
) -> bool {
    let (Some(pair), Some(count)) =
        (input.metadata().get(model.key("block_count")), model.integer("block_count"))
    else {
        return true;
    };
    let number = |tensor: ggmill_core::Tensor<'_>| -> Option<u64> {
        tensor.name().to_str().ok()?.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
    };
    let mut numbers: Vec<u64> =
        input.model_tensors().filter_map(|(_, tensor)| number(tensor)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    // Architectures with an encoder name its blocks otherwise.
    let Some(&last) = numbers.last() else { return true };
    if last >= count {
        out.add(&BLOCKS, Place::value(&pair), || {
            format!("{count} blocks, there are tensors of block {last}")
        });
        return false;
    }
    let gap = numbers
        .iter()
        .zip(0..)
        .find(|(number, place)| *number != place)
        .map(|(_, place)| place)
        .or((last + 1 < count).then_some(last + 1))
        .filter(|&gap| needed(gap));
    if let Some(gap) = gap {
        out.add(&BLOCKS, Place::value(&pair), || {
            format!("{count} blocks, there is no tensor of block {gap}")
        });
    }
    gap.is_none()
}

fn rope(input: &Input<'_>, model: &ModelView<'_>, out: &mut Findings<'_>) {
    let method = model.value("rope.scaling.type");
    if let (Some(pair), Some(method)) = (
        input.metadata().get(model.key("rope.scaling.type")),
        method.and_then(|method| method.as_str()),
    ) {
        if !["none", "linear", "yarn", "longrope"].contains(&method) {
            out.add(&ROPE_TYPE, Place::value(&pair), || {
                format!("method {}", shown(RawStr::from(method)))
            });
        } else if matches!(method, "linear" | "yarn") && !model.has("rope.scaling.factor") {
            out.add(&ROPE_FACTOR, Place::missing(&model.key("rope.scaling.factor")), || {
                format!("the method is {method} and there is no factor")
            });
        }
    }
    if let Some(pair) = input.metadata().get(model.key("rope.scale_linear")) {
        out.add(&ROPE_OLD, Place::key(&pair), || "is the older key".into());
    }
}
