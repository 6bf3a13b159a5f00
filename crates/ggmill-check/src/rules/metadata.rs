//! Types and values of metadata.

use ggmill_core::{Array, Entry, RawStr, Value, ValueType, is_digits, keys};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::rules::texts;
use crate::{Fix, Input, Options, Rule};

rules! { Metadata;
    NO_ARCHITECTURE = "GG1101" Error Both {
        summary: "Missing general.architecture",
        clause: "Reported when the file has no `general.architecture`. The specification requires `general.architecture: string`; llama.cpp rejects a model without it.",
        why: "Without this key, a program can tell neither how to run the model nor which other keys to read.",
        remedy: "Set general.architecture to the name of the architecture, such as llama.",
        fixed: "general.architecture = \"llama\"",
    }
    RELIED_TYPE = "GG1102" Error Both {
        summary: "Wrong type for a key that the specification defines and llama.cpp reads",
        clause: "Reported when the value of a key that llama.cpp reads has a different type from the one given in the specification. The specification gives a type for each key that it lists, and llama.cpp rejects any other type: \"key %s has wrong type %s but expected type %s\".",
        why: "llama.cpp rejects the model. Other readers may reject it too, or ignore the value and use a default.",
        remedy: "Change the type of the value to the expected type.",
        fixed: "general.file_type = 0 (u32)",
        automatic: "changes the type of an integer where the value fits the expected type",
    }
    DESCRIPTIVE_TYPE = "GG1103" Warning Specification {
        summary: "Wrong type for a key that the specification defines and llama.cpp does not read",
        clause: "Reported when the value of a key that llama.cpp does not read while loading a model has a different type from the one given in the specification. Examples are `tokenizer.huggingface.json` and descriptive keys such as `general.author`.",
        why: "Programs that expect the specified type, such as model hubs, may ignore the key or fail.",
        remedy: "Change the type of the value to the expected type.",
        fixed: "general.author = \"Someone\" (string)",
    }
    BOOL_BYTE = "GG1104" Warning Must {
        summary: "Invalid bool value",
        clause: "Reported when a value of type bool is stored as a byte other than 0 or 1. The specification defines a bool as a \"1-byte value where 0 is false and 1 is true. Anything else is invalid\".",
        why: "llama.cpp reads such a byte as true; readers that follow the specification strictly may reject the file.",
        remedy: "Set the key to true or false.",
        fixed: "llama.attention.causal = true",
        automatic: "sets an invalid scalar value to true, which is how llama.cpp reads it; arrays are left unchanged",
    }
    NOT_UTF8 = "GG1105" Warning Must {
        summary: "String is not valid UTF-8",
        clause: "Reported when a string value is not valid UTF-8. The specification defines a string as \"a UTF-8 non-null-terminated string, with length prepended\".",
        why: "Readers that decode strings as UTF-8, such as Python programs, replace the invalid bytes or fail.",
        remedy: "Set the value again, encoded as UTF-8.",
        fixed: "general.name = \"Tiny\"",
    }
    NUL = "GG1106" Warning Practice {
        summary: "String contains a NUL byte",
        clause: "Reported when a string value contains a NUL byte. According to the specification, strings are \"non-null-terminated\"; llama.cpp passes them on as C strings, which end at the first NUL.",
        why: "Readers disagree about the text: some do not see anything after the NUL.",
        remedy: "Set the string again without the NUL.",
        fixed: "general.name = \"ab\"",
    }
    NESTED_ARRAY = "GG1107" Error Reference {
        summary: "Nested array",
        clause: "Reported when an array contains arrays. llama.cpp accepts only arrays of scalars or strings; the specification says: \"Arrays can be nested\".",
        why: "Programs based on llama.cpp cannot load the file.",
        remedy: "Store the value as one flat array, or under several keys.",
        fixed: "x.y = [\"a\"]",
    }
    ARCHITECTURE_NAME = "GG1108" Note Must {
        summary: "Architecture name has characters other than a-z and 0-9",
        clause: "Reported when the value of `general.architecture` has a character other than a-z and 0-9. The specification says of it: \"All lowercase ASCII, with only `[a-z0-9]+` characters allowed.\"",
        why: "llama.cpp itself uses names such as command-r and nemotron_h, so readers accept them; a program that implements the specification strictly may not.",
        remedy: "Keep the name if llama.cpp knows it. For a new architecture, use only lowercase letters and digits.",
        fixed: "general.architecture = \"mymodel\"",
    }
    UNKNOWN_KIND = "GG1109" Note Practice {
        summary: "Unknown general.type",
        clause: "Reported when the value of `general.type` is not one of the known types: model, adapter, imatrix and mmproj, which gguf-py defines, and vocab, controlvector and clip-vision.",
        why: "Programs that select files by type cannot classify this file.",
        remedy: "Set general.type to one of the known types, or remove it.",
        fixed: "general.type = \"model\"",
    }
    NOT_FINITE = "GG1110" Warning Practice {
        summary: "Metadata number is infinite or NaN",
        clause: "Reported when a number in the metadata, or an element of an array, is infinite or NaN. The only exception is negative infinity in a key that ends with `_lower_bound`, which stands for a missing bound.",
        why: "Computations that use such a value can produce NaN or infinite results.",
        remedy: "Set the key to a finite number.",
        fixed: "llama.rope.freq_base = 10000.0",
    }
    NO_ALIGNMENT = "GG1111" Note Letter {
        summary: "Missing general.alignment",
        clause: "Reported when the file has no `general.alignment`. The specification lists `general.alignment: uint32` among the required keys, but adds that \"some writers may not write the alignment\"; the default is then 32.",
        why: "Omitting the key is harmless in practice, because readers then use 32. The rule is meant for files that must meet every requirement of the specification.",
        remedy: "Set general.alignment to 32 (u32).",
        fixed: "general.alignment = 32",
        automatic: "adds general.alignment with the value 32",
    }
    SAMPLING = "GG1112" Warning Practice {
        summary: "Sampling setting out of range",
        clause: "Reported when the value of a `general.sampling.*` key is outside the range that is valid for that key. llama.cpp uses these values as default sampling parameters. Probabilities must be between 0 and 1, temperatures and penalty factors must be at least 0, and mirostat must be 0, 1 or 2.",
        why: "Programs that use the setting may reject it, ignore it or generate poor output.",
        remedy: "Set the key to the value from the model's generation_config.json, or remove the key.",
        fixed: "general.sampling.top_p = 0.95",
    }
    NOT_PARALLEL = "GG1113" Error Reference {
        summary: "general.tensor_extra arrays differ in length",
        clause: "Reported when the arrays `general.tensor_extra.name` and `general.tensor_extra.prec_a4` differ in length. They are parallel arrays of tensor names and flags: each flag says whether llama.cpp may use 4-bit activations when it multiplies by the corresponding tensor. llama.cpp rejects the model: \"tensor/value length mismatch\".",
        why: "Programs based on llama.cpp cannot load the model, because the flags cannot be matched to the tensor names.",
        remedy: "Regenerate the file, for example by converting the model again.",
        fixed: "general.tensor_extra.name = [\"a\"], general.tensor_extra.prec_a4 = [true]",
    }
    LOADER_TYPE = "GG1114" Error Reference {
        summary: "Wrong type for a key that only llama.cpp defines",
        clause: "Reported when llama.cpp reads a key that the specification does not list, and the value has a different type from the one that llama.cpp expects. Loading the model then fails with \"key %s has wrong type %s but expected type %s\".",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Change the type of the value to the expected type.",
        fixed: "tokenizer.ggml.token_type_count = 2 (u32)",
        automatic: "changes the type of an integer where the value fits the expected type",
    }
    CUSTOMARY_TYPE = "GG1115" Warning Practice {
        summary: "Unusual type for a key",
        clause: "Reported when the value of a key has a different type from the one that gguf-py and llama.cpp write. The rule applies only to keys that the specification does not list.",
        why: "Programs that expect the usual type may ignore the key or fail.",
        remedy: "Change the type of the value to the expected type.",
        fixed: "general.dataset.0.name = \"TinyStories\" (string)",
    }
}

/// Keys whose type is specified and required by llama.cpp.
const RELIED_ON: &[(&str, ValueType)] = &[
    (keys::GENERAL_ARCHITECTURE, ValueType::STRING),
    (keys::GENERAL_NAME, ValueType::STRING),
    (keys::GENERAL_FILE_TYPE, ValueType::U32),
    (keys::GENERAL_ALIGNMENT, ValueType::U32),
    (keys::TOKENIZER_MODEL, ValueType::STRING),
    (keys::TOKENIZER_CHAT_TEMPLATE, ValueType::STRING),
    (keys::TOKENIZER_TOKENS, ValueType::ARRAY),
    (keys::TOKENIZER_MERGES, ValueType::ARRAY),
    ("tokenizer.ggml.bos_token_id", ValueType::U32),
    ("tokenizer.ggml.eos_token_id", ValueType::U32),
    ("tokenizer.ggml.unknown_token_id", ValueType::U32),
    ("tokenizer.ggml.padding_token_id", ValueType::U32),
];

/// Keys whose type llama.cpp requires and the specification does not list, without ids of special
/// tokens.
const READ_BY_LOADER: &[(&str, ValueType)] = &[
    (keys::SPLIT_NO, ValueType::U16),
    (keys::SPLIT_COUNT, ValueType::U16),
    (keys::SPLIT_TENSORS_COUNT, ValueType::I32),
    (keys::TOKENIZER_PRE, ValueType::STRING),
    ("tokenizer.ggml.precompiled_charsmap", ValueType::ARRAY),
    ("tokenizer.ggml.token_type_count", ValueType::U32),
    ("tokenizer.ggml.add_bos_token", ValueType::BOOL),
    ("tokenizer.ggml.add_eos_token", ValueType::BOOL),
    ("tokenizer.ggml.add_space_prefix", ValueType::BOOL),
    ("tokenizer.ggml.remove_extra_whitespaces", ValueType::BOOL),
];

/// Keys whose type is specified and that llama.cpp does not read.
const SPECIFIED: &[(&str, ValueType)] = &[
    (keys::GENERAL_QUANTIZATION_VERSION, ValueType::U32),
    ("tokenizer.huggingface.json", ValueType::STRING),
    ("tokenizer.rwkv.world", ValueType::STRING),
    ("tokenizer.ggml.separator_token_id", ValueType::U32),
];

/// Descriptive string keys, without `general.` (or `general.source.`, …).
const STRINGS: &[&str] = &[
    "type",
    "name",
    "author",
    "version",
    "organization",
    "basename",
    "finetune",
    "description",
    "quantized_by",
    "size_label",
    "license",
    "license.name",
    "license.link",
    "url",
    "doi",
    "uuid",
    "repo_url",
];
const STRING_ARRAYS: &[&str] = &["tags", "languages", "datasets", "tensor_extra.name"];
/// Sampler defaults that are numbers, without `general.sampling.`: type, minimum and maximum.
const SAMPLING_SETTINGS: &[(&str, ValueType, f64, f64)] = &[
    ("top_k", ValueType::I32, -1.0, f64::MAX),
    ("top_p", ValueType::F32, 0.0, 1.0),
    ("min_p", ValueType::F32, 0.0, 1.0),
    ("xtc_probability", ValueType::F32, 0.0, 1.0),
    ("xtc_threshold", ValueType::F32, 0.0, 1.0),
    ("temp", ValueType::F32, 0.0, f64::MAX),
    ("penalty_last_n", ValueType::I32, -1.0, f64::MAX),
    ("penalty_repeat", ValueType::F32, 0.0, f64::MAX),
    ("mirostat", ValueType::I32, 0.0, 2.0),
    ("mirostat_tau", ValueType::F32, 0.0, f64::MAX),
    ("mirostat_eta", ValueType::F32, 0.0, f64::MAX),
];
const PARENT_STRINGS: &[&str] =
    &["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

/// Returns every known key of `general.`, except those of parent models.
pub(crate) fn known_general() -> impl Iterator<Item = &'static str> {
    let counted = [
        "architecture",
        "quantization_version",
        "alignment",
        "file_type",
        "base_model.count",
        "dataset.count",
        "tensor_extra.prec_a4",
    ];
    STRINGS.iter().chain(STRING_ARRAYS).copied().chain(counted)
}

/// Returns `true` if a key of `general.` is standard, including those of parent models and samplers.
pub(super) fn is_known_general(name: &str) -> bool {
    known_general().any(|known| known == name) || descriptive(&format!("general.{name}")).is_some()
}

/// Returns the expected type of a key of the format itself, and its rule.
fn relied_on(key: &str) -> Option<(ValueType, &'static Rule)> {
    let among = |list: &[(&str, ValueType)], rule| {
        list.iter().find(|(known, _)| *known == key).map(|&(_, expected)| (expected, rule))
    };
    let special = || {
        (key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id"))
            .then_some((ValueType::U32, &LOADER_TYPE))
    };
    among(RELIED_ON, &RELIED_TYPE)
        .or_else(|| among(SPECIFIED, &DESCRIPTIVE_TYPE))
        .or_else(|| among(READ_BY_LOADER, &LOADER_TYPE))
        .or_else(special)
}

/// Returns the rule about the type of a descriptive key, which depends on whether it is specified.
fn descriptive_rule(key: &str) -> &'static Rule {
    let is_customary = ["general.sampling.", "general.dataset.", "general.tensor_extra."]
        .iter()
        .any(|space| key.starts_with(space))
        || ["general.type", "general.source.huggingface.repository", "tokenizer.chat_templates"]
            .contains(&key)
        || key.starts_with("general.base_model.") && key.ends_with(".description");
    if is_customary { &CUSTOMARY_TYPE } else { &DESCRIPTIVE_TYPE }
}

/// Returns the name of the expected type of a standard key.
#[cfg(test)]
pub(crate) fn expected_type(key: &str) -> Option<String> {
    if let Some((expected, _)) = relied_on(key) {
        return Some(expected.to_string());
    }
    let (expected, element) = descriptive(key)?;
    Some(element.map_or_else(|| expected.to_string(), |element| format!("{expected} of {element}")))
}

/// Returns the expected type of a descriptive key, and the element type of an array.
fn descriptive(key: &str) -> Option<(ValueType, Option<ValueType>)> {
    if key == "tokenizer.ggml.added_tokens" || key == "tokenizer.chat_templates" {
        return Some((ValueType::ARRAY, Some(ValueType::STRING)));
    }
    let name = key.strip_prefix("general.")?;
    if let Some(setting) = name.strip_prefix("sampling.") {
        if setting == "sequence" {
            return Some((ValueType::STRING, None));
        }
        return SAMPLING_SETTINGS
            .iter()
            .find(|(known, ..)| *known == setting)
            .map(|&(_, expected, ..)| (expected, None));
    }
    if STRINGS.contains(&name) {
        return Some((ValueType::STRING, None));
    }
    if STRING_ARRAYS.contains(&name) {
        return Some((ValueType::ARRAY, Some(ValueType::STRING)));
    }
    if name == "base_model.count" || name == "dataset.count" {
        return Some((ValueType::U32, None));
    }
    if let Some(name) = name.strip_prefix("source.") {
        return ["url", "doi", "uuid", "repo_url", "huggingface.repository"]
            .contains(&name)
            .then_some((ValueType::STRING, None));
    }
    let parent = name.strip_prefix("base_model.").or_else(|| name.strip_prefix("dataset."))?;
    let (number, name) = parent.split_once('.')?;
    (is_digits(number) && PARENT_STRINGS.contains(&name)).then_some((ValueType::STRING, None))
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    if input.is_whole()
        && input.is_first()
        && input.metadata().get(keys::GENERAL_ARCHITECTURE).is_none()
        && input.kind() != "imatrix"
    {
        out.add(&NO_ARCHITECTURE, Place::missing(keys::GENERAL_ARCHITECTURE), || {
            "the key is missing".into()
        });
    }
    for entry in input.metadata() {
        types(&entry, out);
        if let Ok(value) = entry.value() {
            content(&entry, &value, out);
            sampling(&entry, &value, out);
        }
    }
    if input.is_whole()
        && input.is_first()
        && input.metadata().get(keys::GENERAL_ALIGNMENT).is_none()
    {
        let alignment = input.part.alignment().get();
        out.add_fixable(&NO_ALIGNMENT, Place::missing(keys::GENERAL_ALIGNMENT), || {
            (
                "the key is missing".into(),
                Some(Fix::set(keys::GENERAL_ALIGNMENT, ValueType::U32, alignment)),
            )
        });
    }
    parallel(input, out);
    if let (Some(entry), Some(name)) =
        (input.metadata().get(keys::GENERAL_ARCHITECTURE), input.architecture())
        && (name.is_empty()
            || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
    {
        out.add(&ARCHITECTURE_NAME, Place::value(&entry), || {
            if name.is_empty() {
                "the name is empty".into()
            } else {
                format!("architecture {}", shown(RawStr::from(name)))
            }
        });
    }
    if let (Some(entry), Some(kind)) =
        (input.metadata().get(keys::GENERAL_TYPE), input.text(keys::GENERAL_TYPE))
        && !["model", "adapter", "imatrix", "mmproj", "vocab", "controlvector", "clip-vision"]
            .contains(&kind)
    {
        out.add(&UNKNOWN_KIND, Place::value(&entry), || {
            format!("type {}", shown(RawStr::from(kind)))
        });
    }
}

/// Checks arrays of names of tensors and of their descriptions, which must have equal lengths.
fn parallel(input: &Input<'_>, out: &mut Findings<'_>) {
    let len = |key: &str| input.value(key).and_then(|value| Some(value.as_array()?.len()));
    let (names, entries) = ("general.tensor_extra.name", "general.tensor_extra.prec_a4");
    if let (Some(entry), Some(left), Some(right)) =
        (input.metadata().get(entries), len(names), len(entries))
        && left != right
    {
        out.add(&NOT_PARALLEL, Place::value(&entry), || {
            format!("length {right}, expected {left} as in {names}")
        });
    }
}

fn types(entry: &Entry<'_>, out: &mut Findings<'_>) {
    let (Ok(key), found) = (entry.key().to_str(), entry.value_type()) else { return };
    if let Some((expected, rule)) = relied_on(key) {
        // An alignment that is not an integer is reported by another rule.
        if found != expected && (key != keys::GENERAL_ALIGNMENT || found.is_integer()) {
            out.add_fixable(rule, Place::value(entry), || {
                (format!("is {found}, expected {expected}"), retyped(entry, key, expected))
            });
        }
    } else if let Some((expected, element)) = descriptive(key) {
        let rule = descriptive_rule(key);
        let elements = entry.value().ok().and_then(|value| Some(value.as_array()?.element_type()));
        if found != expected && !(expected.is_integer() && found.is_integer()) {
            out.add(rule, Place::value(entry), || format!("is {found}, expected {expected}"));
        } else if let (Some(expected), Some(found)) = (element, elements)
            && expected != found
        {
            out.add(rule, Place::value(entry), || {
                format!("is an array of {found}, expected array of {expected}")
            });
        }
    }
}

/// Returns the fix that changes the type of an integer, if the value is in range.
pub(super) fn retyped(entry: &Entry<'_>, key: &str, expected: ValueType) -> Option<Fix> {
    let number = entry.value().ok()?.as_i128()?;
    let most: i128 = match expected {
        ValueType::U16 => u16::MAX.into(),
        ValueType::I32 => i32::MAX.into(),
        ValueType::U32 => u32::MAX.into(),
        _ => return None,
    };
    (0..=most).contains(&number).then(|| Fix::set(key, expected, number))
}

/// Checks the default settings of samplers.
fn sampling(entry: &Entry<'_>, value: &Value<'_>, out: &mut Findings<'_>) {
    let setting = entry.key().to_str().ok().and_then(|key| key.strip_prefix("general.sampling."));
    let Some(&(_, _, least, most)) =
        setting.and_then(|name| SAMPLING_SETTINGS.iter().find(|(known, ..)| *known == name))
    else {
        return;
    };
    #[expect(clippy::cast_precision_loss, reason = "only the range counts")]
    let number = value.as_f64().or_else(|| value.as_i128().map(|number| number as f64));
    // Numbers that are not finite are reported by another rule.
    let number = number.filter(|number| number.is_finite());
    if let Some(number) = number.filter(|number| !(least..=most).contains(number)) {
        let range = if most >= f64::MAX {
            format!("{least} or more")
        } else {
            format!("{least} to {most}")
        };
        out.add(&SAMPLING, Place::value(entry), || format!("is {number}, expected {range}"));
    }
}

fn content(entry: &Entry<'_>, value: &Value<'_>, out: &mut Findings<'_>) {
    match value {
        Value::Str(text) => {
            if let Err(error) = text.to_str() {
                out.add(&NOT_UTF8, Place::value(entry), || {
                    format!("invalid UTF-8 at byte {}: {}", error.valid_up_to(), shown(*text))
                });
            }
            if text.as_bytes().contains(&0) {
                out.add(&NUL, Place::value(entry), || format!("contains NUL: {}", shown(*text)));
            }
        }
        Value::Bool(_) => {
            if let Some(&byte) = entry.value_bytes().first().filter(|&&byte| byte > 1) {
                let fix = entry.key().to_str().ok().map(|key| Fix::set(key, ValueType::BOOL, true));
                out.add_fixable(&BOOL_BYTE, Place::value(entry), || {
                    (format!("the byte is {byte}, expected 0 or 1"), fix)
                });
            }
        }
        // llama.cpp writes this for "no bound".
        Value::F32(f32::NEG_INFINITY) if entry.key().as_bytes().ends_with(b"_lower_bound") => {}
        Value::F32(number) if !number.is_finite() => {
            out.add(&NOT_FINITE, Place::value(entry), || format!("is {number}"));
        }
        Value::F64(number) if !number.is_finite() => {
            out.add(&NOT_FINITE, Place::value(entry), || format!("is {number}"));
        }
        Value::Array(array) => elements(entry, array, out),
        _ => {}
    }
}

fn elements(entry: &Entry<'_>, array: &Array<'_>, out: &mut Findings<'_>) {
    match array.element_type() {
        ValueType::F32 | ValueType::F64 => {
            let mut odd = array
                .floats()
                .into_iter()
                .flatten()
                .enumerate()
                .filter(|(_, number)| !number.is_finite());
            if let Some((at, number)) = odd.next() {
                let more = odd.count();
                let others = if more > 0 { format!(", and {more} more") } else { String::new() };
                out.add(&NOT_FINITE, Place::value(entry), || {
                    format!("element {at} is {number}{others}")
                });
            }
        }
        ValueType::ARRAY => {
            out.add(&NESTED_ARRAY, Place::value(entry), || "is an array of arrays".into());
        }
        ValueType::BOOL => {
            if let Some(at) = array.as_bytes().iter().position(|&byte| byte > 1) {
                let byte = array.as_bytes().get(at).copied().unwrap_or_default();
                out.add(&BOOL_BYTE, Place::value(entry), || {
                    format!("element {at} is {byte}, expected 0 or 1")
                });
            }
        }
        ValueType::STRING if !are_utf8(array) => {
            // One finding per array, as a damaged vocabulary would fill the report.
            let mut odd = texts(array).enumerate().filter(|(_, text)| text.to_str().is_err());
            if let Some((at, text)) = odd.next() {
                let more = odd.count();
                let others =
                    if more > 0 { format!(", and so are {more} more") } else { String::new() };
                out.add(&NOT_UTF8, Place::value(entry), || {
                    format!("element {at} is not UTF-8: {}{others}", shown(text))
                });
            }
        }
        _ => {}
    }
}

/// Returns `true` if every string of an array is UTF-8.
///
/// Short strings are validated together with their lengths: the bytes of a length below 128 are ASCII, so
/// a character cannot continue across strings.
fn are_utf8(array: &Array<'_>) -> bool {
    const LONG: usize = 128;
    // Bytes that are validated while they are still cached.
    const STRETCH: usize = 64 << 10;
    let bytes = array.as_bytes();
    let valid = |from: usize, to: usize| {
        bytes.get(from..to).is_some_and(|stretch| simdutf8::basic::from_utf8(stretch).is_ok())
    };
    let (mut from, mut end) = (0, 0);
    for text in texts(array) {
        let text = text.as_bytes();
        let start = text.as_ptr().addr() - bytes.as_ptr().addr();
        if text.len() >= LONG || end - from >= STRETCH {
            if !valid(from, end) {
                return false;
            }
            // The length of a long string is not ASCII and is left out.
            from = if text.len() >= LONG { start } else { end };
        }
        end = start + text.len();
    }
    valid(from, end)
}
