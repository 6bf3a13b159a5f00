//! The standard metadata keys, by name (specification, "Standardized key-value pairs", and the keys
//! llama.cpp has added since).
//!
//! The keys of an architecture, such as `llama.context_length`, are not included: `ggmill-arch`
//! describes them.

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $key:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $key;)*
    };
}

keys! {
    /// The architecture of the model. Required.
    GENERAL_ARCHITECTURE = "general.architecture";
    /// The alignment of tensor data: u32, a multiple of 8; 32 when absent.
    GENERAL_ALIGNMENT = "general.alignment";
    /// The version of the quantization format: u32, required when any tensor is quantized.
    /// Currently 2.
    GENERAL_QUANTIZATION_VERSION = "general.quantization_version";
    /// The type of most tensors: u32, a [`FileType`](crate::FileType).
    GENERAL_FILE_TYPE = "general.file_type";
    /// The kind of file: `model`, `adapter`, `imatrix`, `mmproj`, `vocab`.
    GENERAL_TYPE = "general.type";
    /// The display name of the model.
    GENERAL_NAME = "general.name";
    /// The model's author.
    GENERAL_AUTHOR = "general.author";
    /// The model's version.
    GENERAL_VERSION = "general.version";
    /// The organization the model comes from.
    GENERAL_ORGANIZATION = "general.organization";
    /// The name of the base model or its family.
    GENERAL_BASENAME = "general.basename";
    /// The purpose for which the base model was tuned.
    GENERAL_FINETUNE = "general.finetune";
    /// Free text about the model.
    GENERAL_DESCRIPTION = "general.description";
    /// Size class, such as `8x7B`.
    GENERAL_SIZE_LABEL = "general.size_label";
    /// An SPDX license expression.
    GENERAL_LICENSE = "general.license";
    /// The model's home page.
    GENERAL_URL = "general.url";
    /// The model's repository.
    GENERAL_REPO_URL = "general.repo_url";
    /// The kind of an adapter: `lora`.
    ADAPTER_TYPE = "adapter.type";
    /// The strength of a LoRA adapter, which its rank divides: f32.
    ADAPTER_LORA_ALPHA = "adapter.lora.alpha";
    /// The tokens after which an adapter is active: an array of u32.
    ADAPTER_ALORA_INVOCATION_TOKENS = "adapter.alora.invocation_tokens";
    /// The number of this shard, from 0: u16.
    SPLIT_NO = "split.no";
    /// The number of shards: u16.
    SPLIT_COUNT = "split.count";
    /// The number of tensors in all shards: i32.
    SPLIT_TENSORS_COUNT = "split.tensors.count";
    /// The tokenizer's model: `llama`, `gpt2`, `bert`, ….
    TOKENIZER_MODEL = "tokenizer.ggml.model";
    /// The pre-tokenizer's name.
    TOKENIZER_PRE = "tokenizer.ggml.pre";
    /// The tokens, by id: an array of strings.
    TOKENIZER_TOKENS = "tokenizer.ggml.tokens";
    /// The tokens' scores: an array of f32.
    TOKENIZER_SCORES = "tokenizer.ggml.scores";
    /// The tokens' types: an array of i32.
    TOKENIZER_TOKEN_TYPE = "tokenizer.ggml.token_type";
    /// The merges of a BPE tokenizer: an array of strings.
    TOKENIZER_MERGES = "tokenizer.ggml.merges";
    /// The chat template, in Jinja.
    TOKENIZER_CHAT_TEMPLATE = "tokenizer.chat_template";
    /// Reserved space in the header for later in-place edits: an array of zeros, which readers ignore.
    /// It is omitted when a whole file is written.
    GGMILL_PADDING = "ggmill.padding";
}

/// The short name of each role of a special token, and the key of its token ID, a u32.
pub const SPECIAL_TOKENS: [(&str, &str); 15] = [
    ("bos", "tokenizer.ggml.bos_token_id"),
    ("eos", "tokenizer.ggml.eos_token_id"),
    ("eot", "tokenizer.ggml.eot_token_id"),
    ("eom", "tokenizer.ggml.eom_token_id"),
    ("unk", "tokenizer.ggml.unknown_token_id"),
    // Every file and every reader has this spelling.
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
