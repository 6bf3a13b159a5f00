//! `tokenizer_config.json`: special tokens by role, flags and the chat template.

use serde_json::{Map, Value as Json, json};

use super::pieces;
use super::source::Source;
use crate::vocabulary::tokens::{SENTENCEPIECE, UNIGRAM};

pub(super) fn file(source: &Source<'_>) -> Vec<u8> {
    let mut config = Map::new();
    let mut set = |name: &str, value: Json| {
        config.insert(name.to_owned(), value);
    };
    set("tokenizer_class", "PreTrainedTokenizerFast".into());
    set("clean_up_tokenization_spaces", false.into());
    for role in ["bos", "eos", "unk", "sep", "pad", "cls", "mask"] {
        if let Some((_, text)) = source.special(role) {
            set(&format!("{role}_token"), text.into());
        }
    }
    for role in ["bos", "eos", "sep"] {
        if let Some(flag) = source.flag(&format!("tokenizer.ggml.add_{role}_token")) {
            set(&format!("add_{role}_token"), flag.into());
        }
    }
    if source.model == SENTENCEPIECE
        && let Some(flag) = source.flag("tokenizer.ggml.add_space_prefix")
    {
        set("add_prefix_space", flag.into());
    }
    // What is a piece of the model is not added to it.
    let first = match &*source.model {
        SENTENCEPIECE | UNIGRAM => pieces::count(source),
        _ => 0,
    };
    let added: Map<String, Json> = (first..source.tokens.len())
        .filter(|&id| source.is_added(id))
        .map(|id| (id.to_string(), super::added(source, id)))
        .collect();
    set("added_tokens_decoder", added.into());
    if let Some(template) = source.text("tokenizer.chat_template") {
        set("chat_template", json!(template));
    }
    crate::back::pretty(&Json::Object(config))
}
