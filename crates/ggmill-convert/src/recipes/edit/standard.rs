//! The types that standard keys have, whoever writes them.

use ggmill_arch::Architecture;
use ggmill_core::ValueType;

use super::value::KeyType;

const STRING: KeyType = KeyType::single(ValueType::STRING);
const U32: KeyType = KeyType::single(ValueType::U32);
const F32: KeyType = KeyType::single(ValueType::F32);
const BOOL: KeyType = KeyType::single(ValueType::BOOL);
const STRINGS: KeyType = KeyType::array(ValueType::STRING);

/// Keys whose type does not follow from a rule.
const TYPES: &[(&str, KeyType)] = &[
    ("general.alignment", U32),
    ("general.file_type", U32),
    ("general.quantization_version", U32),
    ("general.base_model.count", U32),
    ("general.dataset.count", U32),
    ("general.tags", STRINGS),
    ("general.languages", STRINGS),
    ("general.datasets", STRINGS),
    ("general.sampling.sequence", STRING),
    ("general.sampling.top_k", KeyType::single(ValueType::I32)),
    ("general.sampling.penalty_last_n", KeyType::single(ValueType::I32)),
    ("general.sampling.mirostat", KeyType::single(ValueType::I32)),
    ("split.no", KeyType::single(ValueType::U16)),
    ("split.count", KeyType::single(ValueType::U16)),
    ("split.tensors.count", KeyType::single(ValueType::I32)),
    ("tokenizer.ggml.model", STRING),
    ("tokenizer.ggml.pre", STRING),
    ("tokenizer.ggml.tokens", STRINGS),
    ("tokenizer.ggml.merges", STRINGS),
    ("tokenizer.ggml.added_tokens", STRINGS),
    ("tokenizer.ggml.scores", KeyType::array(ValueType::F32)),
    ("tokenizer.ggml.token_type", KeyType::array(ValueType::I32)),
    ("tokenizer.ggml.token_type_count", U32),
    ("tokenizer.ggml.precompiled_charsmap", KeyType::array(ValueType::U8)),
    ("tokenizer.ggml.add_bos_token", BOOL),
    ("tokenizer.ggml.add_eos_token", BOOL),
    ("tokenizer.ggml.add_sep_token", BOOL),
    ("tokenizer.ggml.add_space_prefix", BOOL),
    ("tokenizer.ggml.remove_extra_whitespaces", BOOL),
    ("tokenizer.chat_templates", STRINGS),
    ("tokenizer.huggingface.json", STRING),
    ("tokenizer.rwkv.world", STRING),
];

/// The type a key has in files that keep to the specification, for a model of this architecture. A list stands for a key that may be either when `list` says so.
pub(crate) fn standard_type(key: &str, architecture: Option<&str>, list: bool) -> Option<KeyType> {
    if let Some((_, key_type)) = TYPES.iter().find(|(name, _)| *name == key) {
        return Some(*key_type);
    }
    if key.starts_with("general.sampling.") {
        return Some(F32);
    }
    if key.starts_with("general.") || key.starts_with("tokenizer.chat_template") {
        return Some(STRING);
    }
    if key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id") {
        return Some(U32);
    }
    let (single, element) = Architecture::builtin(architecture?)?.key_types(key)?;
    let (single, element) = (single.map(KeyType::single), element.map(KeyType::array));
    if list { element.or(single) } else { single.or(element) }
}

/// The metadata keys behind the short names of special tokens.
pub(crate) const SPECIAL_TOKENS: &[(&str, &str)] = &[
    ("bos", "tokenizer.ggml.bos_token_id"),
    ("eos", "tokenizer.ggml.eos_token_id"),
    ("eot", "tokenizer.ggml.eot_token_id"),
    ("eom", "tokenizer.ggml.eom_token_id"),
    ("unk", "tokenizer.ggml.unknown_token_id"),
    // Spelled as every file and every reader has it.
    ("sep", "tokenizer.ggml.seperator_token_id"),
    ("pad", "tokenizer.ggml.padding_token_id"),
    ("cls", "tokenizer.ggml.cls_token_id"),
    ("mask", "tokenizer.ggml.mask_token_id"),
    ("fim_pre", "tokenizer.ggml.fim_pre_token_id"),
    ("fim_suf", "tokenizer.ggml.fim_suf_token_id"),
    ("fim_mid", "tokenizer.ggml.fim_mid_token_id"),
    ("fim_pad", "tokenizer.ggml.fim_pad_token_id"),
    ("fim_rep", "tokenizer.ggml.fim_rep_token_id"),
    ("fim_sep", "tokenizer.ggml.fim_sep_token_id"),
];
