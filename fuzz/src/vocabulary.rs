//! Any tokenizer files: converts a checkpoint without weights.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use ggmill_arch::Architecture;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, Header};
use ggmill_pipeline::{RunOptions, run};
use serde_json::json;

use crate::zeros::Zeros;

/// The files of a case.
pub(crate) const FILES: [&str; 16] = [
    "tokenizer.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.jinja",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    "tokenizer.model.v3",
    "qwen.tiktoken",
    "rwkv_vocab_v20230424.txt",
    "tokenizer.jsonl",
    "tokenizer.bin",
];

/// The number of a part that has the number of a description in place of a file.
pub(crate) const DESCRIPTION: u8 = 0xff;

/// The `[vocabulary]` of each description.
const VOCABULARIES: [&str; 8] = [
    "kinds = ['wordpiece', 'whitespace', 'bpe']\nadded_tokens = 'decoded'",
    "kinds = ['unigram', 'sentencepiece']",
    "kinds = ['fairseq-unigram']\npieces = { mask = 599 }",
    "kinds = ['tekken', 'mistral-sentencepiece']\ntemplate = 'file-first'",
    "kinds = ['character-bpe']\nuser_defined = ['a']\nspecial_tokens = { eot = 'a', unk = 0 }",
    "kinds = ['ranks']\npre = 'a'\nranks = { file = 'qwen.tiktoken', special = ['<{0..9}>'], \
     reserved = '<{id}>', reserved_count = 9 }",
    "kinds = ['world', 'jsonl', 'llama2c']\nreplaced_special_tokens = { bos = 0, eos = '\\\\n' }\n\
     builtin_template = 'llama-cpp-rwkv-world'",
    "kinds = ['sentencepiece']\nadded_tokens = 'plain'\npieces = { added = ['added_tokens.json', \
     'tokenizer_config.json', 'tokenizer.json'], appended = true, special_score = 1.0, \
     dummy_prefix = true, unused_prefix = '[', nul = '-' }\nspace_prefix = 'last'",
];

/// The descriptions, parsed once.
static ARCHITECTURES: LazyLock<Vec<Architecture>> = LazyLock::new(|| {
    let described = |vocabulary: &&str| {
        let text = format!(
            "schema = 'ggmill.architecture/1'\nname = 'fuzz'\ntitle = 'Fuzz'\n[vocabulary]\n{vocabulary}"
        );
        Architecture::parse(&text).expect("a description")
    };
    VOCABULARIES.iter().map(described).collect()
});

/// The separator of files, which no protobuf message or text has by chance.
pub(crate) const SEPARATOR: &[u8] = b"\n--8<--\n";

/// Converts the files: each begins with the number of its name in one byte.
pub fn vocabulary(data: &[u8]) {
    let mut files = BTreeMap::new();
    let mut described = None;
    for part in split(data) {
        let Some((&number, content)) = part.split_first() else { continue };
        if number == DESCRIPTION {
            described = content.first();
        } else if let Some(name) = FILES.get(usize::from(number)) {
            files.insert((*name).to_owned(), content.to_vec());
        }
    }
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 600, "num_hidden_layers": 1, "hidden_size": 64,
        "intermediate_size": 64, "num_attention_heads": 8, "max_position_embeddings": 64, "bos_token_id": 1,
    });
    let checkpoint = Zeros { config, tensors: Vec::new(), files };
    let architecture = match described {
        Some(&number) => &ARCHITECTURES[usize::from(number) % ARCHITECTURES.len()],
        None => Architecture::builtin("llama").expect("a built-in description"),
    };
    let mut options = ConvertOptions::new(FileType::F16);
    options.vocab_only = true;
    let Ok(recipe) = convert(&checkpoint, architecture, &options) else { return };
    let plan = recipe.plan(&checkpoint).expect("a recipe that was made is planned");
    let made = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .expect("nothing has to be read");
    let file = Header::parse(made).expect("what is written is read");
    if let Ok(tokens) = file.metadata().array("tokenizer.ggml.tokens") {
        let types = file.metadata().array("tokenizer.ggml.token_type").expect("written with them");
        assert_eq!(tokens.len(), types.len());
    }
}

/// The files of an input.
pub(crate) fn split(mut data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(place) = data.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        parts.push(&data[..place]);
        data = &data[place + SEPARATOR.len()..];
    }
    parts.push(data);
    parts
}
