//! A tokenizer as the `transformers` library loads it from `tokenizer.json`. The reference
//! converter reads tokens and flags from it, and encodes the check text of pre-tokenizers with it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use ggmill_core::RawStr;
use ggmill_pipeline::Result;
use ggmill_tokenizer::tokenizer_json::{
    AddedToken, AddedVocabulary, Pipeline, TokenizerJson, clean_up_spaces, decode_token,
    post_process,
};
use serde_json::Value;

use super::byte_pairs;
use super::class::Class;
use super::files::{self, fault};
use super::python::truthy;
use super::request::Request;

const FILE: &str = "tokenizer.json";

/// A loaded tokenizer.
pub(crate) struct Fast {
    file: Rc<TokenizerJson>,
    class: Class,
    /// The tokenizer was converted from `vocab.json` and `merges.txt`.
    from_pairs: bool,
    added: AddedVocabulary,
}

impl Fast {
    /// Loads a `tokenizer.json` that was already read, and the additions of `tokenizer_config.json`.
    pub(crate) fn of(file: &Rc<TokenizerJson>, request: &mut Request<'_>) -> Result<Self> {
        Self::build(file, request, false)
    }

    /// Converts `vocab.json` and `merges.txt`. Returns `None` if one of them does not exist, or if
    /// the class of the tokenizer does not use them.
    pub(crate) fn of_pairs(request: &mut Request<'_>) -> Result<Option<Self>> {
        let Some(file) = byte_pairs::converted(request)? else { return Ok(None) };
        Self::build(&Rc::new(file), request, true).map(Some)
    }

    fn build(
        file: &Rc<TokenizerJson>,
        request: &mut Request<'_>,
        from_pairs: bool,
    ) -> Result<Self> {
        let decoder = request
            .tokenizer_config
            .as_ref()
            .and_then(|config| config.get("added_tokens_decoder"))
            .map(declared_tokens)
            .transpose()?;
        // Older configurations keep special and added tokens in separate files.
        let map = match decoder {
            Some(_) => None,
            None => files::json(request.files, "special_tokens_map.json")?,
        };
        let class = Class::of(request, map.as_ref());
        if let Some(name) = class.name().filter(|_| !class.is_known()) {
            request.notes.push(format!(
                "tokenizer_config.json: tokenizer class {:?} is unknown, and was treated as one \
                 without special rules",
                RawStr::from(name)
            ));
        }
        let ids: HashMap<&str, u32> =
            file.model.vocab.tokens.iter().map(|(token, id)| (&**token, *id)).collect();
        let added = AddedVocabulary::default();
        let mut this = Self { file: Rc::clone(file), class, from_pairs, added };
        let own: Vec<AddedToken> =
            file.added_tokens.iter().map(|listed| listed.token.clone()).collect();
        this.add(&own, &ids);
        let declared = match &decoder {
            Some(declared) => declared.clone(),
            None => this.read_added_tokens(request)?,
        };
        this.add_declared(declared, decoder.as_deref(), &ids);
        Ok(this)
    }

    /// Adds tokens. `ids` are the IDs of the model's tokens.
    fn add(&mut self, tokens: &[AddedToken], ids: &HashMap<&str, u32>) {
        let size = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.added.add(tokens, size, &|token| ids.get(token).copied());
    }

    /// Adds the tokens that the configuration declares and the file lacks, and the special tokens.
    /// The flags of special tokens are those of `known`, or of the file.
    fn add_declared(
        &mut self,
        declared: Vec<AddedToken>,
        known: Option<&[AddedToken]>,
        ids: &HashMap<&str, u32>,
    ) {
        let present: Vec<AddedToken> = self.added.by_id().values().cloned().collect();
        let mut known_by_content: BTreeMap<&str, &AddedToken> = BTreeMap::new();
        for token in known.unwrap_or(&present) {
            known_by_content.entry(&token.content).or_insert(token);
        }
        let special = self.class.special_tokens();
        let contents: BTreeSet<&str> = special.iter().map(|token| &*token.content).collect();
        let is_present: BTreeSet<&AddedToken> = present.iter().collect();
        let mut tokens: Vec<AddedToken> =
            declared.into_iter().filter(|token| !is_present.contains(token)).collect();
        for token in &mut tokens {
            token.special |= contents.contains(&*token.content);
        }
        // The class names each special token once, so those that this loop adds need no lookup.
        let existing: BTreeSet<String> =
            present.iter().chain(&tokens).map(|token| token.content.clone()).collect();
        for token in &special {
            let new = || AddedToken::new(&token.content, true);
            let of_known = known_by_content.get(&*token.content).filter(|_| token.own);
            let made = match (&token.flags, of_known) {
                (Some(flags), _) => Some(AddedToken::with_flags(&token.content, flags)),
                (None, Some(&known)) => Some(known.clone()),
                (None, None) => self
                    .class
                    .made_flags(token, self.from_pairs)
                    .map(|flags| AddedToken::with_flags(&token.content, &flags)),
            };
            match made {
                Some(made) => tokens.push(AddedToken { special: true, ..made }),
                None if existing.contains(&token.content) => {}
                None => tokens.push(new()),
            }
        }
        self.add(&tokens, ids);
    }

    /// Returns the tokens of `added_tokens.json` that the tokenizer lacks, by ID.
    fn read_added_tokens(&self, request: &Request<'_>) -> Result<Vec<AddedToken>> {
        const FILE: &str = "added_tokens.json";
        let wrong = || fault(FILE, "expected tokens with their IDs");
        let Some(added) = files::json(request.files, FILE)? else { return Ok(Vec::new()) };
        let special = self.class.special_tokens();
        let special: BTreeSet<&str> = special.iter().map(|token| &*token.content).collect();
        let listed: BTreeSet<u32> = self.file.added_tokens.iter().map(|listed| listed.id).collect();
        let mut found = Vec::new();
        for (content, id) in added.as_object().ok_or_else(wrong)? {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong)?;
            if !listed.contains(&id) {
                found.push((id, AddedToken::new(content, special.contains(&**content))));
            }
        }
        found.sort_by_key(|(id, _)| *id);
        Ok(found.into_iter().map(|(_, token)| token).collect())
    }

    /// Returns every token by ID. Fails if two tokens have the same ID.
    pub(crate) fn vocabulary(&self) -> Result<BTreeMap<u32, &str>> {
        let mut by_id: BTreeMap<u32, &str> = BTreeMap::new();
        let own = self.file.model.vocab.tokens.iter().map(|(token, id)| (*id, &**token));
        let added = self.added.by_id().iter().map(|(id, token)| (*id, &*token.content));
        for (id, token) in own.chain(added) {
            if let Some(other) = by_id.insert(id, token).filter(|other| *other != token) {
                return Err(fault(
                    FILE,
                    format!(
                        "token ID {id} belongs to both {:?} and {:?}",
                        RawStr::from(other),
                        RawStr::from(token)
                    ),
                ));
            }
        }
        Ok(by_id)
    }

    /// Returns the number of tokens of the model, without added tokens.
    pub(crate) fn model_size(&self) -> usize {
        self.file.model.vocab.tokens.len()
    }

    /// Returns the added tokens by ID.
    pub(crate) fn added(&self) -> &BTreeMap<u32, AddedToken> {
        self.added.by_id()
    }

    /// Returns the texts of the special tokens.
    pub(crate) fn special(&self) -> Vec<String> {
        self.class.special_tokens().into_iter().map(|token| token.content).collect()
    }

    /// Returns the class of the tokenizer with its configuration.
    pub(crate) fn class(&self) -> &Class {
        &self.class
    }

    /// Returns the pre-tokenizer of the file.
    pub(crate) fn pre_tokenizer(&self) -> &Value {
        &self.file.pre_tokenizer
    }

    /// Returns the file as it was read.
    pub(crate) fn file(&self) -> &TokenizerJson {
        &self.file
    }

    /// Returns the added tokens with their flags.
    pub(crate) fn added_vocabulary(&self) -> &AddedVocabulary {
        &self.added
    }

    /// Returns the normalizer and the pre-tokenizer as the class of the tokenizer applies them.
    pub(crate) fn components(&self) -> [Value; 2] {
        [
            self.class.normalizer(&self.file.normalizer),
            self.class.pre_tokenizer(&self.file.pre_tokenizer),
        ]
    }

    /// Returns the pipeline that encodes texts without the special tokens before and after them.
    pub(crate) fn pipeline(&self) -> Result<Pipeline<'_>> {
        let [normalizer, pre_tokenizer] = self.components();
        Pipeline::new(&self.file.model, &self.added, &normalizer, &pre_tokenizer)
            .map_err(|error| fault(FILE, error.to_string()))
    }

    /// Returns the token IDs of a text with the special tokens that the library adds before and after
    /// it.
    pub(crate) fn around(&self, ids: Vec<u32>) -> Vec<u32> {
        let Some((bos, eos)) = self.class.around() else {
            return post_process(&self.file.post_processor, ids);
        };
        let [first, last] = self.bos_and_eos();
        first.filter(|_| bos).into_iter().chain(ids).chain(last.filter(|_| eos)).collect()
    }

    /// Returns the IDs of the BOS and the EOS token that the configuration names.
    fn bos_and_eos(&self) -> [Option<u32>; 2] {
        ["bos_token", "eos_token"].map(|kind| {
            let token = self.class.token(kind)?.content;
            let own = || self.file.model.vocab.tokens.iter().find(|(own, _)| *own == token);
            self.added.id(&token).or_else(|| own().map(|(_, id)| *id))
        })
    }

    /// Returns the token IDs of a text, first with the special tokens that the library adds, then with
    /// those of other settings: none, BOS, EOS, and both.
    pub(crate) fn encode_variants(&self, text: &str) -> Result<Vec<Vec<u32>>> {
        let ids = self.pipeline()?.encode(text).map_err(|error| fault(FILE, error.to_string()))?;
        let [bos, eos] = self.bos_and_eos();
        let with = |bos: Option<u32>, eos: Option<u32>| -> Vec<u32> {
            bos.into_iter().chain(ids.iter().copied()).chain(eos).collect()
        };
        let processed = post_process(&self.file.post_processor, ids.clone());
        Ok(vec![
            self.around(ids.clone()),
            processed,
            with(None, None),
            with(bos, None),
            with(None, eos),
            with(bos, eos),
        ])
    }

    /// Returns the decoded text of an added token.
    pub(crate) fn decoded(&self, token: &str) -> Result<String> {
        let text = decode_token(&self.file.decoder, token)
            .map_err(|error| fault(FILE, error.to_string()))?;
        let clean = self.class.value("clean_up_tokenization_spaces").is_some_and(truthy);
        Ok(if clean { clean_up_spaces(&text) } else { text })
    }
}

/// Returns the tokens of `added_tokens_decoder`, by ID.
fn declared_tokens(decoder: &Value) -> Result<Vec<AddedToken>> {
    const FILE: &str = "tokenizer_config.json";
    let wrong = || fault(FILE, "added_tokens_decoder: expected token IDs with content");
    let mut found = Vec::new();
    for (id, token) in decoder.as_object().ok_or_else(wrong)? {
        let id: u32 = id.trim().parse().map_err(|_| wrong())?;
        let token = token.as_object().ok_or_else(wrong)?;
        let content = token.get("content").and_then(Value::as_str).ok_or_else(wrong)?;
        found.push((id, AddedToken::with_flags(content, token)));
    }
    found.sort_by_key(|(id, _)| *id);
    Ok(found.into_iter().map(|(_, token)| token).collect())
}
