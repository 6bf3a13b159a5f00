//! The requirements of an architecture: keys, consistent numbers, tensors and the computation graph.

mod contents;
mod limits;

use std::collections::HashMap;

use ggmill_arch::graph::{Graph, STEPS_KEY, Weight};
use ggmill_arch::{
    Architecture, Catalogue, ModelView, RequiredBy, SpecifiedKey, TensorNames, distance,
};
use ggmill_core::{Entry, RawStr, Value, ValueType, keys};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Input, Options, Profile, Rule};

use self::contents::{blocks, foreign_tensors, needs, tensor_names, tensors};
use self::limits::limits;
use super::metadata::retyped;

rules! { Architecture;
    REQUIRED = "GG1501" Error Both {
        summary: "Missing hyperparameter",
        clause: "Reported when a hyperparameter that both the specification and llama.cpp require is missing. The specification says of the keys of each architecture: \"Each key specified _must_ be present.\" llama.cpp rejects the model: \"key not found in model\".",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Convert the model again, or set the key from the model's config.json.",
        fixed: "llama.context_length = 16",
    }
    REQUIRED_BY_SPEC = "GG1502" Warning Must {
        summary: "Missing hyperparameter required by the specification",
        clause: "Reported when a hyperparameter that the specification requires, but llama.cpp does not, is missing. The specification says of the keys of each architecture: \"Each key specified _must_ be present.\" llama.cpp uses a default for the key, if it supports the architecture.",
        why: "A program that has no default for the key rejects the model, and programs with different defaults compute different results.",
        remedy: "Set the key from the model's config.json.",
        fixed: "llama.rope.dimension_count = 4",
    }
    REQUIRED_BY_LOADER = "GG1518" Error Reference {
        summary: "Missing hyperparameter required by llama.cpp",
        clause: "Reported when a hyperparameter that llama.cpp requires, but the specification does not, is missing. llama.cpp rejects the model (\"key not found in model\"), or uses 0, which does not match the tensors.",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Convert the model again, or set the key from the model's config.json.",
        fixed: "every hyperparameter that llama.cpp requires for gpt2, such as gpt2.feed_forward_length",
    }
    REQUIRED_AND_RARE = "GG1519" Error Letter {
        summary: "Missing required hyperparameter that is rare in practice",
        clause: "Reported when a hyperparameter that the specification requires, but that few published files have, is missing. The specification says of the keys of each architecture: \"Each key specified _must_ be present.\" llama.cpp uses a default or does not read the key.",
        why: "A program that strictly implements the specification would reject the model, but no such program is known.",
        remedy: "Set the key from the model's config.json.",
        fixed: "every key that the specification requires for falcon, such as falcon.attention.use_norm",
    }
    UNKNOWN = "GG1503" Note Reference {
        summary: "Unknown architecture",
        clause: "Reported when llama.cpp does not know the value of `general.architecture`, and nothing in the file suggests that the value is a misspelled name of a known architecture. llama.cpp rejects such a file: \"unknown model architecture\". The specification lists known architectures, but does not exclude others.",
        why: "Only programs that support this architecture can load the file.",
        remedy: "No change is needed if the file is intended for a program that supports this architecture. Otherwise, set general.architecture to the architecture of the model.",
        fixed: "general.architecture = \"llama\", if the model is a LLaMA model",
    }
    KEY_TYPE = "GG1504" Error Reference {
        summary: "Wrong type for a hyperparameter",
        clause: "Reported when a hyperparameter has a different type from the one llama.cpp expects. For most counts and lengths, that type is uint32, which llama.cpp's converter writes. The specification uses uint64 by convention and recommends that readers support both, so integers of either width conform to it; a value of another kind, such as a string instead of a number, does not. This rule is not checked with `--profile spec`, so neither case is reported there.",
        why: "llama.cpp rejects the model: \"key %s has wrong type %s but expected type %s\".",
        remedy: "Change the type of the value to the expected type.",
        fixed: "llama.context_length = 16 (u32)",
        automatic: "changes the type of an integer if the value fits the expected type",
    }
    HEADS = "GG1505" Warning Practice {
        summary: "Head counts are inconsistent",
        clause: "Reported when the embedding length is not a multiple of the number of heads and there is no `attention.key_length`, or the number of heads is not a multiple of the number of KV heads. Without `attention.key_length`, the size of a head is the embedding length divided by the number of heads; each KV head is shared by the same number of query heads.",
        why: "Attention cannot be computed with these numbers, so programs may reject the model or compute wrong results.",
        remedy: "Set the head counts from the model's config.json.",
        fixed: "llama.attention.head_count = 2",
    }
    BLOCKS = "GG1506" Error Both {
        summary: "block_count does not match the number of layers",
        clause: "Reported when block_count differs from the number of layers (blk.N) in the file. According to the specification, block_count is \"the number of blocks of attention+feed-forward layers\"; the tensors of layer N have names that begin with `blk.N.`, and layers are numbered from 0.",
        why: "llama.cpp rejects a model that lacks the tensors of a layer (\"missing tensor\"), and a model that has tensors of more layers than block_count says (\"wrong number of tensors\").",
        remedy: "If the file has all layers of the model, set block_count to their number. Otherwise, download or convert the model again.",
        fixed: "llama.block_count = 1",
    }
    ROPE_TYPE = "GG1507" Warning Both {
        summary: "Unknown RoPE scaling method",
        clause: "Reported when the value of `rope.scaling.type` is not a known method. According to the specification, it \"can be `none`, `linear`, or `yarn`\"; llama.cpp also supports `longrope`. llama.cpp maps any other value to LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED, which triggers an assertion failure.",
        why: "llama.cpp aborts while loading the model. A program that ignores the unknown method produces poor results beyond the model's original context length.",
        remedy: "Set the key to the method in the model's config.json (rope_scaling).",
        fixed: "llama.rope.scaling.type = \"linear\"",
    }
    ROPE_FACTOR = "GG1508" Warning Practice {
        summary: "RoPE scaling has no factor",
        clause: "Reported when the file uses a RoPE scaling method that needs a factor, and `rope.scaling.factor` is missing. The specification defines the factor as \"a scale factor for RoPE to adjust the context length\".",
        why: "llama.cpp uses a factor of 1, which means no scaling, so results can be poor beyond the model's original context length.",
        remedy: "Set rope.scaling.factor from the model's config.json.",
        fixed: "llama.rope.scaling.factor = 4.0",
    }
    ROPE_OLD = "GG1509" Note Specification {
        summary: "RoPE scaling uses a deprecated key",
        clause: "Reported when the file has the key `rope.scale_linear`, which the newer keys `rope.scaling.*` replace. The specification says: \"It is recommended that models use the newer keys if possible\".",
        why: "Newer programs may not read the old key.",
        remedy: "Set rope.scaling.type to linear and rope.scaling.factor to the value of \
                 rope.scale_linear, and remove the old key.",
        fixed: "llama.rope.scaling.type = \"linear\", llama.rope.scaling.factor = 2.0",
    }
    NO_TENSORS = "GG1510" Note Practice {
        summary: "Model has no tensors",
        clause: "Reported when `general.type` is `model`, but the file has no tensors. In a file that contains only a vocabulary, `general.type` should be `vocab`.",
        why: "Programs that rely on general.type try to run the file as a model, and fail.",
        remedy: "If the file is meant to contain only a vocabulary, set general.type to vocab. Otherwise, download or convert the model again.",
        fixed: "general.type = \"vocab\"",
    }
    NUMBERS = "GG1511" Error Reference {
        summary: "Contradictory hyperparameters",
        clause: "Reported when hyperparameters contradict each other, for example when more experts are used per token than the model has. llama.cpp rejects such models with errors such as \"invalid n_rot\" and \"wrong array length\", or crashes, for example by dividing by zero.",
        why: "These hyperparameters do not describe a model that can be run.",
        remedy: "Set the keys from the model's config.json, or convert the model again.",
        fixed: "llama.rope.dimension_count = 4",
    }
    MISSING_TENSOR = "GG1512" Error Reference {
        summary: "Missing tensor",
        clause: "Reported when a tensor that the architecture requires is missing. llama.cpp rejects the model: \"tensor '%s' not found\" or \"missing tensor '%s'\".",
        why: "The model is incomplete, and llama.cpp rejects it.",
        remedy: "Download the file again in case it is incomplete, or convert the model again.",
        fixed: "tensor \"blk.0.ffn_up.weight\": dimensions [8, 12]",
    }
    UNEXPECTED_TENSOR = "GG1513" Error Reference {
        summary: "Unexpected tensor",
        clause: "Reported when the file has a tensor that the architecture does not use. llama.cpp rejects a file with more tensors than the architecture uses: \"wrong number of tensors\". If ggmill does not know exactly which tensors llama.cpp loads, only names that the converter never writes for the architecture are reported.",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Remove the tensor, or correct general.architecture or the hyperparameters that determine which tensors the model has.",
        fixed: "no tensor \"blk.0.ffn_side.weight\"",
    }
    TENSOR_SHAPE = "GG1514" Error Reference {
        summary: "Wrong tensor shape",
        clause: "Reported when the shape of a tensor does not match the hyperparameters. llama.cpp rejects the model: \"has wrong shape\".",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Set the hyperparameters from the model's config.json, or convert the model again.",
        fixed: "tensor \"blk.0.ffn_up.weight\": dimensions [8, 12]",
    }
    MISNAMED = "GG1517" Error Reference {
        summary: "Architecture unknown to llama.cpp",
        clause: "Reported when llama.cpp does not know the value of `general.architecture`, but the other keys of the file, or a known architecture with a similar name, show which architecture was meant. With `--profile ggml`, every unknown value is reported. llama.cpp rejects any value that is not exactly the name of an architecture it supports: \"unknown model architecture\".",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Set general.architecture to the name with which the model's hyperparameter keys begin (such as llama in llama.block_count), or use the program for which the file was created.",
        fixed: "general.architecture = \"llama\", if the model is a LLaMA model",
    }
    NOT_AS_DESCRIBED = "GG1515" Warning Practice {
        summary: "File does not match the description of its architecture",
        clause: "Reported when llama.cpp does not support the architecture, and the file does not match the description of the architecture. A description is a TOML file that lists hyperparameters, tensor names and shapes; it is built into ggmill or supplied by the user.",
        why: "A program that supports this architecture may reject the model.",
        remedy: "Check whether general.architecture is correct, whether the file is complete, and whether the description is correct.",
        fixed: "general.architecture = \"llama\", which matches the keys and tensors of the file",
    }
    TENSOR_NAME = "GG1516" Warning Practice {
        summary: "Unknown tensor name for the architecture",
        clause: "Reported when a tensor name is not in gguf-py's table for the architecture (`MODEL_TENSORS`), which lists the names that llama.cpp's converter writes. llama.cpp rejects a model that has tensors other than those it uses: \"wrong number of tensors\".",
        why: "A program that expects the names in the table rejects the model or ignores the tensor.",
        remedy: "Rename the tensor to the name that the converter writes for this architecture, or correct general.architecture.",
        fixed: "only tensor names that are in gguf-py's table for the architecture",
    }
    NO_CONTEXT = "GG1529" Warning Both {
        summary: "Context length is 0",
        clause: "Reported when `context_length` is 0. According to the specification, it is the \"length of the context (in tokens) that the model was trained on\". llama.cpp loads the model, but creates no context unless the caller specifies a length: \"n_ctx and model->hparams.n_ctx_train cannot both be zero\".",
        why: "A program that takes the context length from the file cannot run the model, and other programs cannot tell how long a text the model supports.",
        remedy: "Set the key from the model's config.json (max_position_embeddings).",
        fixed: "llama.context_length = 16",
    }
    LIMIT = "GG1530" Error Reference {
        summary: "Hyperparameter exceeds a limit of llama.cpp",
        clause: "Reported when `block_count` is 0 or larger than 512, `nextn_predict_layers`, `posnet.block_count` or `convnext.block_count` is larger than `block_count`, or `rope.dimension_sections` has more than 4 elements or none that is positive. llama.cpp keeps the numbers of each layer in arrays of LLAMA_MAX_LAYERS (512) elements, and rejects a model that exceeds them; versions before August 2026 wrote beyond their end.",
        why: "llama.cpp rejects the model, and older versions corrupt their memory.",
        remedy: "Set the key from the model's config.json. If the number is right, use a program that supports it.",
        fixed: "llama.block_count = 1",
    }
    NO_HEADS = "GG1531" Error Practice {
        summary: "Attention has no heads",
        clause: "Reported when `attention.head_count` or `attention.head_count_kv` is 0 in every layer, although the file has tensors of attention (attn_q, attn_k or attn_qkv).",
        why: "The size of a head is the embedding length divided by the number of heads, so programs that do not check the number divide by zero.",
        remedy: "Set the key from the model's config.json.",
        fixed: "llama.attention.head_count = 2",
    }
    GRAPH = "GG1528" Warning Practice {
        summary: "Computation graph does not match the file",
        clause: "Reported when the computation graph that ggmill can store in the metadata \
                 (`ggmill.graph`) cannot be read, does not match the tensors, exceeds the size limits \
                 for such graphs, or differs from the graph in ggmill's description of the \
                 architecture.",
        why: "A program that runs the model from its stored graph rejects the model, or computes \
              different results from a program that implements the architecture itself.",
        remedy: "Write the graph again with `ggmill edit --add-graph`, or remove it with `ggmill edit --unset 'ggmill.graph*'`.",
        fixed: "ggmill.graph = [\"v0 = rows('token_embd', tokens)\", …]",
    }
}

/// The keys that llama.cpp requires for every language model.
const ALWAYS: [&str; 3] = ["context_length", "embedding_length", "block_count"];

pub(super) fn check(input: &Input<'_>, options: &Options, out: &mut Findings<'_>) {
    // The metadata is in the first file, the tensors are in all.
    let Some(name) = input.architecture().filter(|_| input.is_whole() && input.is_first()) else {
        return;
    };
    if !matches!(input.kind(), "model" | "vocab") {
        return;
    }
    limits(input, name, out);
    let built_in = Catalogue::new();
    let described = input.catalogue.unwrap_or(&built_in).by_name(name);
    graph(input, described, out);
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
        // Non-finite values are reported by another rule. llama.cpp writes some infinite values that the
        // architecture does not use.
        let is_used = |entry: &Entry<'_>| {
            entry.key().to_str().is_ok_and(|key| {
                described.is_some_and(|architecture| architecture.key_types(key).is_some())
            })
        };
        let finite = |entry: Entry<'_>| {
            entry.value().ok().and_then(|value| value.as_f64()).is_none_or(f64::is_finite)
                || !is_used(&entry)
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
                    foreign_tensors(input, names, described, by_loader, out);
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
    context(input, &model, out);
    rope(input, &model, out);
}

/// Checks that the context length is not 0.
fn context(input: &Input<'_>, model: &ModelView<'_>, out: &mut Findings<'_>) {
    let Some(entry) = input.metadata().get(model.key("context_length")) else { return };
    if model.integer("context_length") == Some(0) {
        out.add(&NO_CONTEXT, Place::value(&entry), || "context_length is 0".into());
    }
}

/// Returns `true` if a file without tensors is a vocabulary, which need not have the keys of a model.
fn is_vocabulary(input: &Input<'_>) -> bool {
    input.text(keys::GENERAL_TYPE) == Some("vocab")
        || input.metadata().get(keys::TOKENIZER_TOKENS).is_some()
}

/// Checks that all required keys exist, and returns `true` if those that determine the tensors do.
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
        let by_loader = key.required_by.is_some_and(RequiredBy::includes_loader);
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

/// Returns the rule about a key that only the specification requires.
fn by_specification(key: &SpecifiedKey) -> &'static Rule {
    if key.is_rare { &REQUIRED_AND_RARE } else { &REQUIRED_BY_SPEC }
}

/// Returns the message about a missing key, with the source that requires it.
fn absent(key: &str, by_loader: bool) -> String {
    let Some(specified) = SpecifiedKey::of(key) else {
        return if by_loader {
            "the key is missing; it is required by llama.cpp, but not by the specification".into()
        } else {
            "the key is missing; it is required by the description of the architecture".into()
        };
    };
    let other = specified.definition.map(|name| format!(", and no {name}")).unwrap_or_default();
    let loader = if by_loader { " and by llama.cpp" } else { "" };
    format!(
        "the key is missing{other}; it is required by the specification (section \"{}\", line {}){loader}",
        specified.section, specified.line
    )
}

/// Checks the types of the keys in the description, and returns `true` if they are correct.
fn types(input: &Input<'_>, architecture: &Architecture, out: &mut Findings<'_>) -> bool {
    let mut fit = true;
    for entry in input.metadata() {
        let Some((single, element)) =
            entry.key().to_str().ok().and_then(|key| architecture.key_types(key))
        else {
            continue;
        };
        // Keys of the format itself are checked by another rule.
        if ["general.", "tokenizer."]
            .iter()
            .any(|space| entry.key().as_bytes().starts_with(space.as_bytes()))
        {
            continue;
        }
        let found = entry.value_type();
        if found == ValueType::ARRAY {
            let elements =
                entry.value().ok().and_then(|value| Some(value.as_array()?.element_type()));
            // Readers accept signed and unsigned integers in an array, and numbers as bools.
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
                out.add(&KEY_TYPE, Place::value(&entry), || {
                    format!("is {found}, expected {expected}")
                });
            }
        } else if single != Some(found) {
            let expected =
                single.map_or_else(|| "an array".to_owned(), |single| single.to_string());
            let fix = single
                .zip(entry.key().to_str().ok())
                .and_then(|(single, key)| retyped(&entry, key, single));
            // Another integer type has the same value.
            fit &= fix.is_some();
            out.add_fixable(&KEY_TYPE, Place::value(&entry), || {
                (format!("is {found}, expected {expected}"), fix)
            });
        }
    }
    fit
}

fn heads(input: &Input<'_>, model: &ModelView<'_>, out: &mut Findings<'_>) {
    let number = |key: &str| model.integer(key);
    let (Some(entry), Some(heads)) =
        (input.metadata().get(model.key("attention.head_count")), number("attention.head_count"))
    else {
        return;
    };
    let embedding = number("embedding_length").filter(|_| number("attention.key_length").is_none());
    if heads == 0 {
        // Models without attention have 0.
        return;
    }
    if let Some(embedding) = embedding.filter(|embedding| !embedding.is_multiple_of(heads)) {
        out.add(&HEADS, Place::value(&entry), || {
            format!("embedding_length {embedding} is not a multiple of head_count {heads}")
        });
    }
    if let Some(groups) = number("attention.head_count_kv")
        .filter(|&groups| groups > 0 && !heads.is_multiple_of(groups))
    {
        out.add(&HEADS, Place::value(&entry), || {
            format!("head_count {heads} is not a multiple of head_count_kv {groups}")
        });
    }
}

fn rope(input: &Input<'_>, model: &ModelView<'_>, out: &mut Findings<'_>) {
    let method = model.value("rope.scaling.type");
    if let (Some(entry), Some(method)) = (
        input.metadata().get(model.key("rope.scaling.type")),
        method.and_then(|method| method.as_str()),
    ) {
        if !["none", "linear", "yarn", "longrope"].contains(&method) {
            out.add(&ROPE_TYPE, Place::value(&entry), || {
                format!("unknown method {}", shown(RawStr::from(method)))
            });
        } else if matches!(method, "linear" | "yarn") && !model.has("rope.scaling.factor") {
            out.add(&ROPE_FACTOR, Place::missing(&model.key("rope.scaling.factor")), || {
                format!("the method is {method}, but the factor is missing")
            });
        }
    }
    if let Some(entry) = input.metadata().get(model.key("rope.scale_linear")) {
        out.add(&ROPE_OLD, Place::key(&entry), || "deprecated key".into());
    }
}

/// Checks that the computation graph in a file can be read and is that of the description.
fn graph(input: &Input<'_>, described: Option<&Architecture>, out: &mut Findings<'_>) {
    let Some(entry) = input.metadata().get(STEPS_KEY).filter(|_| input.is_complete()) else {
        return;
    };
    let tensors: HashMap<&str, Vec<u64>> = input
        .model_tensors()
        .filter_map(|(_, tensor)| {
            Some((tensor.name().to_str().ok()?, tensor.shape().dimensions().to_vec()))
        })
        .collect();
    let dimensions = |name: &str| tensors.get(name).cloned();
    let stored = match Graph::stored(input.metadata(), &dimensions) {
        None => return,
        Some(Ok(stored)) => stored,
        Some(Err(error)) => {
            return out.add(&GRAPH, Place::value(&entry), || error.to_string());
        }
    };
    // Models that do not match the description are reported by other rules.
    let of_description = described
        .filter(|described| described.has_graph())
        .and_then(|described| described.resolve_file(input.metadata()).ok())
        .and_then(|model| model.graph(&|name| tensors.contains_key(name)).ok());
    let Some(expected) = of_description else { return };
    let place = || expected.nodes().iter().zip(stored.nodes()).position(|(a, b)| a != b);
    // Shapes are compared by another rule, which knows the permitted differences.
    let names = |(a, b): (&Weight, &Weight)| a.name == b.name;
    let (ours, theirs) = (expected.weights(), stored.weights());
    let is_same = expected.nodes() == stored.nodes()
        && ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(names);
    if !is_same {
        out.add(&GRAPH, Place::value(&entry), || match place() {
            Some(number) => {
                format!(
                    "differs from the description of the architecture, first in operation {number}"
                )
            }
            None => "differs from the description of the architecture".into(),
        });
    }
}

/// The maximum number of experts in llama.cpp.
const MAX_EXPERTS: u64 = 1024;
/// Keys with one number, or an array with one for each block.
const BY_BLOCK: [&str; 5] = [
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "expert_used_count",
    "expert_feed_forward_length",
];

/// Checks numbers of experts and lengths of arrays, and returns `true` if they are consistent.
fn numbers(
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

/// Reports an unknown architecture: as a misspelling if the file shows which one is meant.
fn unknown(input: &Input<'_>, options: &Options, name: &str, out: &mut Findings<'_>) {
    let Some(pair) = input.metadata().get(keys::GENERAL_ARCHITECTURE) else { return };
    let own = format!("{name}.");
    let has_own = !name.is_empty()
        && input.metadata().iter().any(|pair| pair.key().as_bytes().starts_with(own.as_bytes()));
    let meant = if has_own { None } else { meant_architecture(input, name) };
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

/// Returns the known architecture whose keys the file has, or whose name differs by one edit.
fn meant_architecture(input: &Input<'_>, name: &str) -> Option<&'static str> {
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
