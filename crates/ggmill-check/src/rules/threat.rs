//! Values with which published flaws of loaders are triggered, although current versions of llama.cpp
//! accept or refuse them.

use ggmill_core::{Array, Entry, Value, ValueType, keys};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::rules::texts;
use crate::{Input, Options};

rules! { Threat;
    KIND = "GG2401" Error Practice {
        summary: "Hyperparameter is not a number",
        clause: "Reported when a count or a length of the model, such as `block_count`, is neither an integer nor an array of integers or bools.",
        why: "Programs that do not check the type of the value use 0, and divide by it.",
        remedy: "Do not load the file with a program that is affected. Set the key from the model's config.json.",
        fixed: "llama.block_count = 1",
    }
    DEFAULT_ID = "GG2402" Warning Practice {
        summary: "Default ID of a special token is out of range",
        clause: "Reported when the vocabulary is so small that it does not contain a special token which llama.cpp assumes if the file does not set its key: ID 2 for EOS of a SentencePiece vocabulary, or ID 11 of a BPE vocabulary.",
        why: "Older versions of llama.cpp read beyond the end of the vocabulary.",
        remedy: "Set the keys of the special tokens, such as tokenizer.ggml.eos_token_id.",
        fixed: "tokenizer.ggml.eos_token_id = 0",
    }
    DUMMY = "GG2403" Warning Practice {
        summary: "Large vocabulary without tokens",
        clause: "Reported when a file without a tokenizer (`tokenizer.ggml.model` is `none` or `no_vocab`) declares a `vocab_size` of more than 16,777,216. Known vocabularies have at most 262,144 tokens.",
        why: "llama.cpp allocates memory for each of these tokens.",
        remedy: "Set the key to the number of rows of the token embedding.",
        fixed: "llama.vocab_size = 5",
    }
    CHARSMAP = "GG2404" Error Practice {
        summary: "Normalization table is shorter than it says",
        clause: "Reported when `tokenizer.ggml.precompiled_charsmap` has fewer than four bytes, or ends within the table whose length its first four bytes give.",
        why: "Older versions of llama.cpp read beyond the end of the table.",
        remedy: "Convert the model again with its spiece.model or tokenizer.model.",
        fixed: "a precompiled_charsmap as in the model's tokenizer",
    }
    ELEMENTS = "GG2405" Error Practice {
        summary: "Array of the tokenizer has elements of the wrong type",
        clause: "Reported when `tokenizer.ggml.merges` is not an array of strings, `tokenizer.ggml.precompiled_charsmap` is not an array of bytes, or `tokenizer.ggml.suppress_tokens` is not an array of 32-bit integers.",
        why: "Programs that do not check the type of the elements read beyond the end of the array.",
        remedy: "Convert the model again, or copy the key from a correct file of the same model.",
        fixed: "tokenizer.ggml.merges = [\"a b\"]",
    }
    LONG_TOKEN = "GG2406" Warning Practice {
        summary: "Token is longer than 65,536 bytes",
        clause: "Reported when a token has more than 65,536 bytes. The longest tokens of known vocabularies have about a thousand.",
        why: "Older versions of llama.cpp convert the length of a token to an integer with a sign, and then write beyond the end of a buffer.",
        remedy: "Do not load the file with a program that is affected, or shorten the token.",
        fixed: "tokenizer.ggml.tokens = [\"<s>\", \"a\", \"b\", \"ab\", \"c\"]",
    }
    BIG_ALIGNMENT = "GG2407" Warning Practice {
        summary: "Alignment is larger than 1 MiB",
        clause: "Reported when `general.alignment` is larger than 1,048,576. Files use 32, and at most the size of a page.",
        why: "On 32-bit machines, the padded sizes of tensors overflow. Elsewhere, a small file can require gigabytes of padding.",
        remedy: "Set general.alignment to 32 and store the tensors accordingly.",
        fixed: "general.alignment = 32",
    }
    DIVISOR = "GG2409" Error Practice {
        summary: "Divisor of a projector is 0",
        clause: "Reported when a projector (mmproj) sets a patch size, a scale factor or a merge size to 0, or a number of heads to 0 although its encoder has layers.",
        why: "Programs that divide by the number crash when they load the projector or receive an image.",
        remedy: "Set the key from the model's preprocessor_config.json or config.json.",
        fixed: "clip.vision.patch_size = 14",
    }
    PROJECTOR = "GG2410" Error Practice {
        summary: "Size of a projector is out of range",
        clause: "Reported when a projector (mmproj) allows images whose bytes do not fit into 32 bits with a sign (`image_min_pixels`, `image_max_pixels`), sets `clip.audio.chunk_size` to 0 or more than 8192, `preproc_max_tiles` to more than 1024, or the patches on a side of an image (`image_size` / `patch_size`) to more than 1024.",
        why: "Programs that do not check these numbers write beyond the end of buffers, or allocate all memory, when they load the projector or receive an image.",
        remedy: "Set the key from the model's preprocessor_config.json or config.json.",
        fixed: "clip.vision.image_size = 448",
    }
    OTHER_LAYERS = "GG2411" Error Practice {
        summary: "Layer count exceeds the arrays of a program",
        clause: "Reported when the block_count of an architecture that llama.cpp does not support exceeds the fixed array of the program that does: 32 for `acestep-dit`.",
        why: "The program writes beyond the end of the array.",
        remedy: "Do not load the file, and report it to the site that hosts it.",
        fixed: "acestep-dit.block_count = 24",
    }
    ADAPTER = "GG2412" Error Practice {
        summary: "LoRA pair has different numbers of experts",
        clause: "Reported when the third dimensions of the tensors `<name>.lora_a` and `<name>.lora_b` of an adapter, the numbers of experts, are neither equal nor 1.",
        why: "llama.cpp does not compare these numbers, and writes beyond the end of a buffer when it applies the adapter.",
        remedy: "Convert the adapter again from its checkpoint.",
        fixed: "lora_a: dimensions [32, 4, 8]; lora_b: dimensions [4, 32, 8]",
    }
    BIG_DIMENSION = "GG2413" Error Practice {
        summary: "Dimension does not fit into 32 bits",
        clause: "Reported when a dimension of a tensor is larger than 2,147,483,647. The format allows 64 bits.",
        why: "Programs that convert dimensions to 32 bits compute a smaller size than they fill.",
        remedy: "Do not load the file with a program that is affected.",
        fixed: "tensor \"a.b\": dimensions [8]",
    }
}

/// The counts and lengths that loaders use without checking their type.
const COUNTS: [&str; 14] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "attention.sliding_window",
];

/// The largest vocabulary that a file without tokens can declare.
const MAX_DUMMY: u64 = 1 << 24;
const MAX_TOKEN: usize = 1 << 16;
const MAX_ALIGNMENT: u32 = 1 << 20;

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    for tensor in input.tensors() {
        let shape = tensor.shape();
        if shape.dimensions().iter().any(|&dimension| i32::try_from(dimension).is_err()) {
            out.add(&BIG_DIMENSION, Place::info(&tensor), || format!("dimensions {shape:?}"));
        }
    }
    let alignment = input.part.alignment().get();
    if let Some(entry) = input.metadata().get(keys::GENERAL_ALIGNMENT)
        && alignment > MAX_ALIGNMENT
    {
        out.add(&BIG_ALIGNMENT, Place::value(&entry), || format!("alignment {alignment}"));
    }
    if !input.is_first() {
        return;
    }
    if let Some(name) = input.architecture() {
        counts(input, name, out);
    }
    vocabulary(input, out);
    projector(input, out);
    adapter(input, out);
}

fn counts(input: &Input<'_>, name: &str, out: &mut Findings<'_>) {
    for key in COUNTS {
        let Some(entry) = input.metadata().get(format!("{name}.{key}")) else { continue };
        let Ok(value) = entry.value() else { continue };
        let is_number = match &value {
            Value::Array(array) => {
                array.is_empty()
                    || array.element_type() == ValueType::BOOL
                    || array.integers().is_some()
            }
            value => value.as_i128().is_some(),
        };
        if !is_number {
            out.add(&KIND, Place::value(&entry), || format!("is {}", entry.value_type()));
        }
    }
    let most = if name == "acestep-dit" { 32 } else { return };
    let key = format!("{name}.block_count");
    if let (Some(entry), Some(count)) = (input.metadata().get(&key), input.number(&key))
        && count > most
    {
        out.add(&OTHER_LAYERS, Place::value(&entry), || {
            format!("{count} layers, but acestep.cpp has room for {most}")
        });
    }
}

/// Returns the special tokens that llama.cpp assumes for a tokenizer model: names and IDs.
fn defaults(model: &str) -> &'static [(&'static str, u64)] {
    match model {
        "llama" => &[("bos", 1), ("eos", 2), ("unknown", 0)],
        "bert" => {
            &[("bos", 101), ("unknown", 100), ("seperator", 102), ("padding", 0), ("mask", 103)]
        }
        "gpt2" => &[("bos", 11), ("eos", 11)],
        "t5" => &[("eos", 1), ("unknown", 2), ("padding", 0)],
        "plamo2" => &[("bos", 1), ("eos", 2), ("unknown", 0), ("padding", 3)],
        _ => &[],
    }
}

fn array<'a>(input: &Input<'a>, key: &str) -> Option<(Entry<'a>, Option<Array<'a>>)> {
    let entry = input.metadata().get(key)?;
    Some((entry, entry.value().ok()?.as_array()))
}

fn vocabulary(input: &Input<'_>, out: &mut Findings<'_>) {
    const CHARSMAP_KEY: &str = "tokenizer.ggml.precompiled_charsmap";
    let model = input.text(keys::TOKENIZER_MODEL).unwrap_or_default();
    let tokens = array(input, keys::TOKENIZER_TOKENS)
        .and_then(|(entry, array)| Some((entry, array?)))
        .filter(|(_, array)| array.element_type() == ValueType::STRING);
    if let Some((entry, tokens)) = &tokens {
        for (name, id) in defaults(model) {
            let key = format!("tokenizer.ggml.{name}_token_id");
            let other = (*name == "seperator").then_some("tokenizer.ggml.separator_token_id");
            let is_set = input.metadata().get(&key).is_some()
                || other.is_some_and(|key| input.metadata().get(key).is_some());
            if *id >= tokens.len() && !is_set {
                out.add(&DEFAULT_ID, Place::value(entry), || {
                    format!("{} tokens, but without {key} it is {id}", tokens.len())
                });
            }
        }
        if out.wants(&LONG_TOKEN)
            && let Some((id, token)) =
                texts(tokens).enumerate().find(|(_, token)| token.len() > MAX_TOKEN)
        {
            out.add(&LONG_TOKEN, Place::value(entry), || {
                format!("token {id} has {} bytes", token.len())
            });
        }
    }
    let size = input.architecture().map(|name| format!("{name}.vocab_size"));
    if let Some(key) = size.filter(|_| matches!(model, "none" | "no_vocab"))
        && let (Some(entry), Some(size)) = (input.metadata().get(&key), input.number(&key))
        && size > MAX_DUMMY
    {
        out.add(&DUMMY, Place::value(&entry), || format!("{size} tokens"));
    }
    let bytes = [ValueType::U8, ValueType::I8];
    let integers = [ValueType::I32, ValueType::U32];
    for (key, expected) in [
        (keys::TOKENIZER_MERGES, &[ValueType::STRING][..]),
        (CHARSMAP_KEY, &bytes),
        ("tokenizer.ggml.suppress_tokens", &integers),
    ] {
        let Some((entry, array)) = array(input, key) else { continue };
        let element = array.map(|array| array.element_type());
        if !element.is_some_and(|element| expected.contains(&element)) {
            out.add(&ELEMENTS, Place::value(&entry), || match element {
                Some(element) => format!("is an array of {element}"),
                None => format!("is {}", entry.value_type()),
            });
        }
    }
    if let Some((entry, Some(table))) = array(input, CHARSMAP_KEY) {
        charsmap(&entry, &table, out);
    }
}

fn charsmap(entry: &Entry<'_>, table: &Array<'_>, out: &mut Findings<'_>) {
    let bytes = table.integers().into_iter().flatten().take(4);
    let first: Vec<u8> = bytes.filter_map(|byte| u8::try_from(byte & 0xff).ok()).collect();
    let len = table.len();
    match <[u8; 4]>::try_from(&*first) {
        Err(_) if len == 0 => {}
        Err(_) => out.add(&CHARSMAP, Place::value(entry), || format!("has {len} bytes")),
        Ok(first) => {
            let size = u64::from(u32::from_le_bytes(first));
            if size + 4 >= len {
                out.add(&CHARSMAP, Place::value(entry), || {
                    format!("has {len} bytes, but its table needs {}", size + 5)
                });
            }
        }
    }
}

fn projector(input: &Input<'_>, out: &mut Findings<'_>) {
    /// Images of three bytes for each pixel.
    const MAX_PIXELS: u64 = i32::MAX as u64 / 3;
    for entry in input.metadata() {
        let Some(key) = entry.key().to_str().ok().filter(|key| key.starts_with("clip.")) else {
            continue;
        };
        let Some(number) = entry.value().ok().and_then(|value| value.as_i128()) else { continue };
        let name = key.rsplit('.').next().unwrap_or(key);
        let encoder = key.strip_suffix(".attention.head_count");
        let is_divisor = matches!(
            name,
            "patch_size" | "scale_factor" | "spatial_merge_size" | "n_merge" | "proj_scale_factor"
        ) || encoder.is_some_and(|encoder| {
            input.number(&format!("{encoder}.block_count")).is_some_and(|count| count > 0)
        });
        if is_divisor && number == 0 {
            out.add(&DIVISOR, Place::value(&entry), || "is 0".into());
        }
        let range = match name {
            "image_min_pixels" | "image_max_pixels" => 0..=i128::from(MAX_PIXELS),
            "chunk_size" if key.starts_with("clip.audio.") => 1..=8192,
            "preproc_max_tiles" => 0..=1024,
            _ => continue,
        };
        if !range.contains(&number) {
            out.add(&PROJECTOR, Place::value(&entry), || {
                format!("is {number}, expected {} to {}", range.start(), range.end())
            });
        }
    }
    for encoder in ["clip.vision", "clip.audio"] {
        let key = format!("{encoder}.image_size");
        let number = |name: &str| input.number(&format!("{encoder}.{name}"));
        if let (Some(entry), Some(size), Some(patch)) =
            (input.metadata().get(&key), number("image_size"), number("patch_size"))
            && let Some(patches) = size.checked_div(patch).filter(|&patches| patches > 1024)
        {
            out.add(&PROJECTOR, Place::value(&entry), || {
                format!("{patches} patches on a side, expected at most 1024")
            });
        }
    }
}

/// Compares the numbers of experts of both tensors of a pair.
fn adapter(input: &Input<'_>, out: &mut Findings<'_>) {
    if input.kind() != "adapter" {
        return;
    }
    for (shard, tensor) in input.model_tensors() {
        let Some(stem) = tensor.name().as_bytes().strip_suffix(b".lora_a") else { continue };
        let Some((_, other)) = input.model_tensor(&[stem, b".lora_b"].concat()) else { continue };
        let experts = |tensor: &ggmill_core::Tensor<'_>| {
            tensor.shape().dimensions().get(2).copied().unwrap_or(1)
        };
        let (own, others) = (experts(&tensor), experts(&other));
        if own != others && own != 1 && others != 1 {
            out.add(&ADAPTER, Place::info(&tensor).in_shard(shard), || {
                format!("{own} experts, but the matching .lora_b has {others}")
            });
        }
    }
}
