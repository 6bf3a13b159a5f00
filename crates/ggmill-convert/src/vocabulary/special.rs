//! Parts of a vocabulary other than its tokens: the IDs of special tokens and whether they are
//! added to a text, merges, chat templates and flags of the normalizer.
//!
//! The rules are those of the reference (`gguf` 0.19.0, `vocab.py`, `SpecialVocab`), in its order.

use ggmill_arch::{SpacePrefix, TokenReference};
use ggmill_core::{MetadataBuf, RawStr, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_tokenizer::tokenizer_json::Merge;
use serde_json::Value;

use super::files::fault;
use super::post_processor::PostProcessor;
use super::request::Request;
use super::template::{Templates, builtin_template};
use super::tokens::Tokens;

/// The kinds of special tokens, in the order their IDs are looked up.
const KINDS: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// Returns a role with the metadata key of its ID.
fn role_key(role: &str) -> Option<(&'static str, &'static str)> {
    keys::SPECIAL_TOKENS.iter().find(|(known, _)| *known == role).copied()
}

/// Formats a token for a message.
fn shown(token: &TokenReference) -> String {
    match token {
        TokenReference::Id(id) => format!("token ID {id}"),
        TokenReference::Text(text) => format!("token {:?}", RawStr::from(&**text)),
    }
}

/// Returns the metadata key of a special token's ID; the reference writes none for `cls`.
fn id_key(kind: &str) -> Option<&'static str> {
    let mut tokens = keys::SPECIAL_TOKENS.iter().filter(|(role, _)| *role != "cls");
    tokens.find(|(role, _)| *role == kind).map(|(_, key)| *key)
}

/// Returns the metadata key of the flag that adds a special token.
fn add_key(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "bos" => "tokenizer.ggml.add_bos_token",
        "eos" => "tokenizer.ggml.add_eos_token",
        "sep" => "tokenizer.ggml.add_sep_token",
        _ => return None,
    })
}

/// Which parts are loaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpecialOptions {
    /// Load merges.
    pub(crate) merges: bool,
    /// The number of tokens; IDs out of range are omitted.
    pub(crate) limit: Option<usize>,
}

/// Sets the keys of a vocabulary other than its tokens.
pub(crate) fn write(
    request: &mut Request<'_>,
    tokens: &Tokens,
    options: SpecialOptions,
    metadata: &mut MetadataBuf,
) -> Result<()> {
    write_with_merges(request, tokens, options, Vec::new(), metadata)
}

/// Sets the keys of a vocabulary other than its tokens, with merges that the tokenizer's files do
/// not contain.
pub(crate) fn write_with_merges(
    request: &mut Request<'_>,
    tokens: &Tokens,
    options: SpecialOptions,
    merges: Vec<String>,
    metadata: &mut MetadataBuf,
) -> Result<()> {
    request.write_space_prefix(SpacePrefix::AfterTokens, metadata);
    let mut special = Special::load(request, options)?;
    if !merges.is_empty() {
        special.merges = merges;
    }
    special.add_defaults(request, tokens)?;
    if let Some(name) = &request.spec.builtin_template {
        special.templates.set_default(|| builtin_template(name))?;
    }
    special.write_to(metadata);
    write_last_special_tokens(request, tokens, metadata);
    Ok(())
}

/// Sets the IDs of special tokens that the description puts after all other keys.
pub(crate) fn write_last_special_tokens(
    request: &Request<'_>,
    tokens: &Tokens,
    metadata: &mut MetadataBuf,
) {
    for (role, token) in &request.spec.last_special_tokens {
        if let (Some(id), Some((_, key))) = (token_id(token, tokens), role_key(role)) {
            metadata.set(key, id);
        }
    }
}

/// Returns the ID of a token, if the vocabulary has it.
fn token_id(token: &TokenReference, tokens: &Tokens) -> Option<u32> {
    match token {
        TokenReference::Id(id) => Some(*id),
        TokenReference::Text(text) => tokens.id(text),
    }
}

/// The parts of a vocabulary other than its tokens.
#[derive(Debug, Default)]
pub(crate) struct Special {
    merges: Vec<String>,
    kinds: Vec<&'static str>,
    ids: Vec<(&'static str, u32)>,
    add: Vec<(&'static str, bool)>,
    templates: Templates,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
}

impl Special {
    /// Loads the parts from the checkpoint's files.
    pub(crate) fn load(request: &mut Request<'_>, options: SpecialOptions) -> Result<Self> {
        let mut this = Self { kinds: KINDS.to_vec(), ..Self::default() };
        this.load_tokenizer(request, options)?;
        for kind in this.kinds.clone() {
            let name = format!("{kind}_token_id");
            // Unlike elsewhere, the top level takes precedence over the language model's part, as
            // in the reference.
            let id = request
                .config
                .get(&name)
                .filter(|id| !id.is_null())
                .or_else(|| request.config.get("text_config")?.get(&name));
            this.set_id(kind, id, "config.json", request, options)?;
        }
        if options.merges && this.merges.is_empty() {
            this.merges = super::byte_pairs::read_merges(request)?;
        }
        Ok(this)
    }

    fn load_tokenizer(&mut self, request: &mut Request<'_>, options: SpecialOptions) -> Result<()> {
        const FILE: &str = "tokenizer_config.json";
        // An empty object counts as absent.
        let mut config = request.tokenizer_config.clone().filter(|config| !config.is_empty());
        let mut added = Vec::new();
        if let Some(tokenizer) = request.tokenizer()? {
            if options.merges {
                self.merges = tokenizer.model.merges().iter().map(Merge::to_gguf).collect();
            }
            self.read_normalizer(&tokenizer.normalizer, 0);
            added = tokenizer
                .added_tokens
                .iter()
                .map(|listed| (listed.token.content.clone(), listed.id))
                .collect();
            let mut processor = PostProcessor::new(config.as_mut(), &mut self.kinds);
            processor.read(&tokenizer.post_processor);
            self.add = processor.add;
        }
        let Some(config) = config else { return Ok(()) };
        self.templates = Templates::load(request, &config)?;
        for kind in self.kinds.clone() {
            if let Some(&Value::Bool(flag)) = config.get(&format!("add_{kind}_token"))
                && !self.add.iter().any(|(known, _)| *known == kind)
            {
                self.add.push((kind, flag));
            }
            let content = match config.get(&format!("{kind}_token")) {
                Some(Value::String(text)) => Some(text.as_str()),
                Some(Value::Object(token)) => token.get("content").and_then(Value::as_str),
                _ => None,
            };
            let Some(content) = content else { continue };
            let id = added.iter().find(|(text, _)| text == content).map(|&(_, id)| id);
            self.set_id(kind, id.map(Value::from).as_ref(), FILE, request, options)?;
        }
        Ok(())
    }

    /// Sets the IDs that the description specifies: defaults for those that the checkpoint lacks,
    /// and replacements. Fails if the token of a default is not in the vocabulary.
    pub(crate) fn add_defaults(&mut self, request: &Request<'_>, tokens: &Tokens) -> Result<()> {
        let if_none = &request.spec.special_tokens_if_none;
        let if_none = if self.ids.is_empty() { &if_none[..] } else { &[] };
        for (role, token) in if_none.iter().chain(&request.spec.special_tokens) {
            let Some((role, _)) = role_key(role) else { continue };
            let id = token_id(token, tokens).ok_or_else(|| {
                let message = format!(
                    "the vocabulary has no {}, the {role} token of the architecture",
                    shown(token)
                );
                Error::new(ErrorKind::Checkpoint, message)
            })?;
            self.default_id(role, id);
        }
        for (role, token) in &request.spec.replaced_special_tokens {
            let Some(((role, _), id)) = role_key(role).zip(token_id(token, tokens)) else {
                continue;
            };
            match self.ids.iter_mut().find(|(known, _)| *known == role) {
                Some((_, known)) => *known = id,
                None => self.ids.push((role, id)),
            }
        }
        Ok(())
    }

    /// Sets the ID of a kind unless it is set.
    pub(crate) fn default_id(&mut self, kind: &'static str, id: u32) {
        if !self.ids.iter().any(|(known, _)| *known == kind) {
            self.ids.push((kind, id));
        }
    }

    /// Sets the ID of a kind unless it is set or out of range.
    fn set_id(
        &mut self,
        kind: &'static str,
        id: Option<&Value>,
        file: &str,
        request: &mut Request<'_>,
        options: SpecialOptions,
    ) -> Result<()> {
        let Some(Value::Number(number)) = id else { return Ok(()) };
        // 2.0 is not an ID.
        if number.is_f64() {
            return Ok(());
        }
        // Configurations write -1 for a token that the model does not have.
        if number.as_i64() == Some(-1) {
            return Ok(());
        }
        let id = number.as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| {
            fault(file, format!("{kind}_token_id is {number}: special token ID out of range"))
        })?;
        if let Some(limit) = options.limit
            && id as usize >= limit
        {
            request.notes.push(format!(
                "{file}: {kind}_token_id is {id}: special token ID out of range (0 to {}), and was \
                 omitted",
                limit.saturating_sub(1)
            ));
            return Ok(());
        }
        self.default_id(kind, id);
        Ok(())
    }

    /// Reads the flags of a normalizer; in a sequence, the last normalizer with flags counts.
    fn read_normalizer(&mut self, normalizer: &Value, depth: usize) {
        let flag = |name: &str, before| match normalizer.get(name) {
            Some(Value::Bool(flag)) => Some(*flag),
            Some(_) => None,
            None => before,
        };
        match normalizer.get("type").and_then(Value::as_str) {
            Some("Lowercase") => self.lowercase = Some(true),
            Some("StripAccents") => self.strip_accents = Some(true),
            Some("BertNormalizer") => {
                self.lowercase = flag("lowercase", self.lowercase);
                self.strip_accents = flag("strip_accents", self.strip_accents);
            }
            // JSON is read to a depth of 128.
            Some("Sequence") if depth < 128 => {
                let parts = normalizer.get("normalizers").and_then(Value::as_array);
                for part in parts.into_iter().flatten() {
                    self.read_normalizer(part, depth.saturating_add(1));
                }
            }
            _ => {}
        }
    }

    /// Sets the keys, in the reference's order.
    pub(crate) fn write_to(&self, metadata: &mut MetadataBuf) {
        if !self.merges.is_empty() {
            metadata.set(keys::TOKENIZER_MERGES, &self.merges);
        }
        for &(kind, id) in &self.ids {
            if let Some(key) = id_key(kind) {
                metadata.set(key, id);
            }
        }
        for &(kind, flag) in &self.add {
            if let Some(key) = add_key(kind) {
                metadata.set(key, flag);
            }
        }
        self.templates.write_to(metadata);
        if let Some(flag) = self.lowercase {
            metadata.set("tokenizer.ggml.normalizer.lowercase", flag);
        }
        if let Some(flag) = self.strip_accents {
            metadata.set("tokenizer.ggml.normalizer.strip_accents", flag);
        }
    }
}
