//! Defaults of the tokenizer classes of the `transformers` library.
//!
//! `tokenizer_config.json` names a class and leaves out what the class has anyway; the reference
//! converter loads the class. `data/tokenizer-classes.json` has these values as facts.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ggmill_arch::configured;
use serde_json::{Map, Value};

use super::request::Request;

/// The facts, as `xtask/peers/tokenizer_classes.py` writes them.
static FACTS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/tokenizer-classes.json")).unwrap_or_default()
});

/// The special tokens of a tokenizer, in the order of the library.
const TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The classes that put BOS and EOS around a text by flags, whatever `tokenizer.json` says.
const BY_FLAGS: [&str; 5] = [
    "LlamaTokenizerFast",
    "CodeLlamaTokenizerFast",
    "CohereTokenizerFast",
    "GemmaTokenizerFast",
    "GPTNeoXTokenizerFast",
];

/// A special token: its text, and its flags where the configuration has them.
#[derive(Clone, Debug)]
pub(crate) struct SpecialToken {
    pub(crate) content: String,
    pub(crate) flags: Option<Map<String, Value>>,
    /// Whether the checkpoint names it as one of a kind, such as `bos_token`, and the class does
    /// not just have it.
    pub(crate) own: bool,
    /// What it is for, such as `bos_token`; `None` for additional ones.
    kind: Option<&'static str>,
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// The class that the configuration of a model names, or that models of its type have.
pub(crate) fn named_by(config: &Value) -> Option<String> {
    text(configured(config, "tokenizer_class")).or_else(|| {
        let model_type = configured(config, "model_type")?.as_str()?;
        text(FACTS.get("model_types")?.get(model_type))
    })
}

/// The class of a checkpoint's tokenizer, with what its configuration says.
#[derive(Debug)]
pub(crate) struct Class {
    name: Option<String>,
    /// The configuration, above what the class takes for granted.
    config: Map<String, Value>,
    /// Whether the class applies its flags to a normalizer.
    overrules: bool,
    /// The kinds of special tokens that the checkpoint names itself.
    own: Vec<&'static str>,
}

impl Class {
    pub(crate) fn of(request: &Request<'_>, special_tokens_map: Option<&Value>) -> Self {
        let config = request.tokenizer_config.clone().unwrap_or_default();
        let named = text(config.get("tokenizer_class"));
        let name = named
            .or_else(|| named_by(request.config))
            .map(|name| if name.ends_with("Fast") { name } else { format!("{name}Fast") });
        let known = name.as_ref().and_then(|name| FACTS.get("classes")?.get(name)?.as_object());
        let mut values = known.cloned().unwrap_or_default();
        let overrules = values.contains_key("tokenize_chinese_chars");
        let map = special_tokens_map.and_then(Value::as_object);
        let has =
            |kind: &str| config.contains_key(kind) || map.is_some_and(|map| map.contains_key(kind));
        let own = TOKENS.into_iter().filter(|kind| has(kind)).collect();
        values.extend(config);
        values.extend(map.cloned().unwrap_or_default());
        Self { name, config: values, overrules, own }
    }

    /// The name, with `Fast` at its end; `None` where nothing says it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the library knows a class of this name.
    pub(crate) fn is_known(&self) -> bool {
        self.name.as_ref().is_some_and(|name| {
            FACTS.get("classes").and_then(|classes| classes.get(name)).is_some()
        })
    }

    /// A value of the configuration, or the one the class has without it.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.config.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Which special tokens the class puts around a text, where it does so by flags.
    pub(crate) fn around(&self) -> Option<(bool, bool)> {
        let name = self.name.as_deref()?;
        BY_FLAGS.contains(&name).then(|| (self.flag("add_bos_token"), self.flag("add_eos_token")))
    }

    /// The flags with which the class makes a special token again that is named by its text; `None`
    /// where it leaves a token that exists as it is. `from_pairs` is whether it made the tokenizer
    /// of [pairs](Self::of_pairs).
    pub(crate) fn made_flags(
        &self,
        token: &SpecialToken,
        from_pairs: bool,
    ) -> Option<Map<String, Value>> {
        let mut flags = if from_pairs {
            self.of_pairs()?.get("flags")?.get(token.kind?)?.as_object()?.clone()
        } else if self.name.as_deref() == Some("Qwen2TokenizerFast") {
            Map::new()
        } else {
            return None;
        };
        flags.insert("special".to_owned(), true.into());
        Some(flags)
    }

    /// How the class makes a tokenizer of `vocab.json` and `merges.txt`; `None` where it does not.
    pub(crate) fn of_pairs(&self) -> Option<&'static Value> {
        FACTS.get("of_pairs")?.get(self.name.as_deref()?)
    }

    /// The pre-tokenizer of the file, in which `add_prefix_space` of the configuration overrules,
    /// unless it is a sequence.
    pub(crate) fn pre_tokenizer(&self, of_file: &Value) -> Value {
        let mut changed = of_file.clone();
        if let Some(known) = changed.get_mut("add_prefix_space") {
            *known = self.flag("add_prefix_space").into();
        }
        changed
    }

    /// The normalizer of the file, in which flags of the configuration overrule: the classes that
    /// tokenize Chinese characters do so.
    pub(crate) fn normalizer(&self, of_file: &Value) -> Value {
        let mut changed = of_file.clone();
        let lowercase = Value::Bool(self.flag("do_lower_case"));
        let chinese = Value::Bool(self.flag("tokenize_chinese_chars"));
        let accents = self.value("strip_accents").cloned().unwrap_or_default();
        let values = [
            ("lowercase", lowercase),
            ("strip_accents", accents),
            ("handle_chinese_chars", chinese),
        ];
        let differs = |(name, value): &(&str, Value)| {
            of_file.get(name).is_some_and(|of_file| of_file != value)
        };
        if self.overrules
            && values.iter().any(differs)
            && let Some(state) = changed.as_object_mut()
        {
            state.extend(values.map(|(name, value)| (name.to_owned(), value)));
        }
        changed
    }

    /// The text of one kind of special token.
    pub(crate) fn token(&self, kind: &'static str) -> Option<SpecialToken> {
        let token = special(self.value(kind)?)?;
        Some(SpecialToken { own: self.own.contains(&kind), kind: Some(kind), ..token })
    }

    /// Every special token, once.
    pub(crate) fn special_tokens(&self) -> Vec<SpecialToken> {
        let more = self.value("additional_special_tokens").and_then(Value::as_array);
        let own = self.value("extra_special_tokens").and_then(Value::as_object);
        let tokens = TOKENS
            .into_iter()
            .filter_map(|kind| self.token(kind))
            .chain(more.into_iter().flatten().filter_map(special))
            .chain(own.into_iter().flat_map(|own| own.values()).filter_map(special));
        let mut seen = BTreeSet::new();
        tokens.filter(|token| seen.insert(token.content.clone())).collect()
    }
}

fn special(value: &Value) -> Option<SpecialToken> {
    let token = |content: &str, flags| {
        let content = content.to_owned();
        SpecialToken { content, flags, own: false, kind: None }
    };
    match value {
        Value::String(text) if !text.is_empty() => Some(token(text, None)),
        Value::Object(flags) => {
            let content = flags.get("content")?.as_str().filter(|text| !text.is_empty())?;
            Some(token(content, Some(flags.clone())))
        }
        _ => None,
    }
}
