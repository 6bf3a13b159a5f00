//! Defaults of the tokenizer classes of the `transformers` library.
//!
//! `tokenizer_config.json` names a class and omits its defaults; the reference converter loads the
//! class. `data/tokenizer-classes.json` has these defaults.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ggmill_arch::configured;
use serde_json::{Map, Value};

use super::request::Request;

/// Defaults of the classes, written by `conformance/tokenizer_classes.py`.
static FACTS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/tokenizer-classes.json")).unwrap_or_default()
});

/// The kinds of special tokens, in the order of the library.
const TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The classes that add BOS and EOS by flags and ignore the post-processor of `tokenizer.json`.
const BY_FLAGS: [&str; 5] = [
    "LlamaTokenizerFast",
    "CodeLlamaTokenizerFast",
    "CohereTokenizerFast",
    "GemmaTokenizerFast",
    "GPTNeoXTokenizerFast",
];

/// The class of tokenizers that are defined by `tokenizer.json`, in version 5 of the library, and in
/// earlier versions.
const GENERIC: [&str; 2] = ["TokenizersBackendFast", "PreTrainedTokenizerFast"];

/// A special token: its text, and its flags if the configuration has them.
#[derive(Clone, Debug)]
pub(crate) struct SpecialToken {
    pub(crate) content: String,
    pub(crate) flags: Option<Map<String, Value>>,
    /// `true` if the checkpoint names it, for example as `bos_token`; `false` if it is a default of
    /// the class.
    pub(crate) own: bool,
    /// Its kind, such as `bos_token`; `None` for additional tokens.
    kind: Option<&'static str>,
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// Returns the tokenizer class that a model's configuration names, or the default of its model
/// type.
pub(crate) fn named_by(config: &Value) -> Option<String> {
    text(configured(config, "tokenizer_class")).or_else(|| {
        let model_type = configured(config, "model_type")?.as_str()?;
        text(FACTS.get("model_types")?.get(model_type))
    })
}

/// The class of a checkpoint's tokenizer, with its configuration.
#[derive(Debug)]
pub(crate) struct Class {
    name: Option<String>,
    /// The configuration, merged over the defaults of the class.
    config: Map<String, Value>,
    /// `true` if the class applies its flags to the normalizer.
    overrides_normalizer: bool,
    /// The kinds of special tokens that the checkpoint specifies.
    own: Vec<&'static str>,
    /// `true` for `add_bos_token` and `add_eos_token` if the checkpoint specifies them.
    own_flags: [bool; 2],
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
        let overrides_normalizer = values.contains_key("tokenize_chinese_chars");
        let map = special_tokens_map.and_then(Value::as_object);
        let has =
            |kind: &str| config.contains_key(kind) || map.is_some_and(|map| map.contains_key(kind));
        let own = TOKENS.into_iter().filter(|kind| has(kind)).collect();
        let own_flags = ["add_bos_token", "add_eos_token"].map(|flag| config.contains_key(flag));
        values.extend(config);
        values.extend(map.cloned().unwrap_or_default());
        Self { name, config: values, overrides_normalizer, own, own_flags }
    }

    /// Returns the name with the suffix `Fast`; `None` if no file specifies it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns `true` if the library has a class of this name.
    pub(crate) fn is_known(&self) -> bool {
        self.name.as_ref().is_some_and(|name| {
            GENERIC.contains(&&**name)
                || FACTS.get("classes").and_then(|classes| classes.get(name)).is_some()
        })
    }

    /// Returns `true` if version 5 of the library saved the configuration.
    fn is_of_version_5(&self) -> bool {
        self.config.contains_key("backend") || self.name.as_deref() == Some(GENERIC[0])
    }

    /// Returns a value of the configuration, or the default of the class.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.config.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns the flags by which the class adds BOS and EOS; `None` if it does not use flags. Every class of version 5 of
    /// the library does if the configuration has one of the flags; otherwise, the post-processor of
    /// the file counts.
    pub(crate) fn around(&self) -> Option<(bool, bool)> {
        let name = self.name.as_deref()?;
        if self.is_of_version_5() {
            let is_set = self.own_flags.iter().any(|is_set| *is_set);
            let flags = ["add_bos_token", "add_eos_token"].map(|flag| self.flag(flag));
            let [bos, eos] = [0, 1].map(|place| self.own_flags[place] && flags[place]);
            return is_set.then_some((bos, eos));
        }
        BY_FLAGS.contains(&name).then(|| (self.flag("add_bos_token"), self.flag("add_eos_token")))
    }

    /// Returns the flags with which the class replaces a special token that is named by its text;
    /// `None` if it keeps an existing token. `from_pairs` is `true` if the tokenizer was created
    /// [from pairs](Self::of_pairs).
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

    /// Returns the rules by which the class creates a tokenizer from `vocab.json` and `merges.txt`;
    /// `None` if it cannot.
    pub(crate) fn of_pairs(&self) -> Option<&'static Value> {
        FACTS.get("of_pairs")?.get(self.name.as_deref()?)
    }

    /// Returns the pre-tokenizer of the file, with `add_prefix_space` replaced by that of the
    /// configuration, as versions of the library before 5 do. A sequence is not changed.
    pub(crate) fn pre_tokenizer(&self, of_file: &Value) -> Value {
        let mut changed = of_file.clone();
        if !self.is_of_version_5()
            && let Some(known) = changed.get_mut("add_prefix_space")
        {
            *known = self.flag("add_prefix_space").into();
        }
        changed
    }

    /// Returns the normalizer of the file, with the flags of the configuration for classes that
    /// have `tokenize_chinese_chars`.
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
        if self.overrides_normalizer
            && !self.is_of_version_5()
            && values.iter().any(differs)
            && let Some(state) = changed.as_object_mut()
        {
            state.extend(values.map(|(name, value)| (name.to_owned(), value)));
        }
        changed
    }

    /// Returns the special token of a kind.
    pub(crate) fn token(&self, kind: &'static str) -> Option<SpecialToken> {
        let token = special(self.value(kind)?)?;
        Some(SpecialToken { own: self.own.contains(&kind), kind: Some(kind), ..token })
    }

    /// Returns every distinct special token.
    pub(crate) fn special_tokens(&self) -> Vec<SpecialToken> {
        let more = self.value("additional_special_tokens").and_then(Value::as_array);
        let own = self.value("extra_special_tokens").and_then(Value::as_object);
        // Version 5 of the library lists them.
        let listed = self.value("extra_special_tokens").and_then(Value::as_array);
        let tokens = TOKENS
            .into_iter()
            .filter_map(|kind| self.token(kind))
            .chain(more.into_iter().flatten().filter_map(special))
            .chain(own.into_iter().flat_map(|own| own.values()).filter_map(special))
            .chain(listed.into_iter().flatten().filter_map(special));
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
