//! The vocabularies of checkpoints, according to descriptions.

use ggmill_core::MetadataBuf;
use ggmill_core::keys::SPECIAL_TOKENS;

use crate::checkpoint::vocabulary_kind::VocabularyKind;
use crate::data::schema::{
    Ordered, RawAddedTokens, RawKey, RawPieces, RawRanks, RawSpacePrefix, RawSpacePrefixPlace,
    RawTemplate, RawToken, RawVocabulary,
};
use crate::error::{Error, ErrorKind, Result, quoted};
use crate::language::expression::{Expression, condition, optional};
use crate::limits::{MAX_ENTRIES, MAX_KEYS};
use crate::parameters::key::{Key, KeyTemplate};

/// The stage at which `add_prefix_space` of `tokenizer_config.json` is written as
/// `tokenizer.ggml.add_space_prefix`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpacePrefix {
    /// The key is not written.
    #[default]
    Never,
    /// Before the vocabulary.
    First,
    /// After the list of tokens, before the special tokens.
    AfterTokens,
    /// After the vocabulary.
    Last,
}

/// Conversion of the texts and types of added tokens in `tokenizer.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddedTokens {
    /// Texts are as the tokenizer decodes them, with spaces normalized. Tokens that look special are
    /// control tokens.
    #[default]
    Normalized,
    /// Like [`Normalized`](Self::Normalized), without normalizing spaces.
    Decoded,
    /// Texts are unchanged. Tokens that are marked as special are control tokens.
    Plain,
}

/// A token of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a token is identified by its ID or its text")]
pub enum TokenReference {
    /// The token with this ID.
    Id(u32),
    /// The token with this text.
    Text(String),
}

/// Special rules for the pieces of a SentencePiece model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PieceRules {
    /// The files with added tokens, in the order in which they are read: `added_tokens.json`,
    /// `tokenizer_config.json`, `tokenizer.json`.
    pub added: Vec<String>,
    /// If true, the tokens of `added_tokens.json` follow the pieces regardless of their IDs, and there
    /// are no placeholders.
    pub appended: bool,
    /// The score of added tokens, by default -1000.
    pub added_score: Option<f32>,
    /// The score of special tokens, if it differs. The unknown token is then a special token.
    pub special_score: Option<f32>,
    /// The prefix of unused pieces.
    pub unused_prefix: Option<String>,
    /// The replacement for the piece that is a single NUL character.
    pub nul: Option<String>,
    /// If true, `add_dummy_prefix` of the model is written as `tokenizer.ggml.add_space_prefix`.
    pub dummy_prefix: bool,
    /// The ID of the mask token, which a fairseq vocabulary omits.
    pub mask: Option<u32>,
}

/// A vocabulary in a file of byte sequences with ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankRules {
    /// The file name.
    pub file: String,
    /// The special tokens after the ranks, after `{0..9}` in a description was expanded to the numbers from
    /// 0 to 8.
    pub special: Vec<String>,
    /// The text of the reserved tokens that follow, unless `tokenizer_config.json` names them; `{id}`
    /// is replaced by the token ID.
    pub reserved: Option<String>,
    /// The number of reserved tokens.
    pub reserved_count: u32,
    /// If true, the merges are all pairs of sequences that form a third one, as the `transformers`
    /// library lists them; otherwise there is one merge per sequence.
    pub all_merges: bool,
}

impl RankRules {
    /// Returns the rules for a file that needs no additional information: special tokens are in
    /// `tokenizer_config.json`, and there is one merge per sequence.
    pub fn of_file(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            special: Vec::new(),
            reserved: None,
            reserved_count: 0,
            all_merges: false,
        }
    }
}

/// The vocabulary of a model, and the metadata keys that are written with it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct VocabularySpec {
    /// The possible kinds, in the order in which they are tried: the first one whose files are present
    /// is converted.
    pub kinds: Vec<VocabularyKind>,
    /// The stage at which `add_prefix_space` of `tokenizer_config.json` is written as a key.
    pub space_prefix: SpacePrefix,
    /// The number of tokens, if it is not `vocab_size` of the configuration.
    pub size: Option<u64>,
    /// The name of the pre-tokenizer, if it cannot be recognized.
    pub pre: Option<String>,
    /// The name of the built-in vocabulary for checkpoints without one.
    pub builtin: Option<String>,
    /// If true, `chat_template.jinja` takes precedence over the template in `tokenizer_config.json`.
    pub template_file_first: bool,
    /// If true, the template in `tokenizer_config.json` is used.
    pub template_of_config: bool,
    /// The name of the built-in chat template for checkpoints without one.
    pub builtin_template: Option<String>,
    /// The conversion of added tokens.
    pub added_tokens: AddedTokens,
    /// Texts of tokens that are always control tokens.
    pub control: Vec<String>,
    /// Texts of tokens that are always user-defined.
    pub user_defined: Vec<String>,
    /// Special tokens by role (`bos`, `eot`), for roles that the checkpoint does not define.
    pub special_tokens: Vec<(String, TokenReference)>,
    /// Special tokens for checkpoints that define none at all.
    pub special_tokens_if_none: Vec<(String, TokenReference)>,
    /// Special tokens that override the checkpoint, if they are in the vocabulary.
    pub replaced_special_tokens: Vec<(String, TokenReference)>,
    /// Special tokens that are written after the vocabulary.
    pub last_special_tokens: Vec<(String, TokenReference)>,
    /// Special rules for a SentencePiece model.
    pub pieces: PieceRules,
    /// The rules for a rank file.
    pub ranks: Option<RankRules>,
    /// The keys written before the vocabulary.
    pub keys_before: Vec<Key>,
    /// The keys written after the vocabulary, which override its keys.
    pub keys: Vec<Key>,
    /// Special rules for individual kinds.
    pub by_kind: Vec<(VocabularyKind, VocabularyKindSpec)>,
}

/// Special rules for one kind of vocabulary.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct VocabularyKindSpec {
    /// If true, the checkpoint may have this kind.
    pub possible: bool,
    /// The values of `tokenizer_class` in `tokenizer_config.json` for this kind; any value if empty.
    pub tokenizer_classes: Vec<String>,
    /// The keys written before the vocabulary.
    pub keys_before: Vec<Key>,
    /// The keys written after the vocabulary.
    pub keys: Vec<Key>,
}

impl VocabularySpec {
    /// Sets the keys that precede a vocabulary of this kind.
    pub fn write_keys_before(&self, kind: VocabularyKind, metadata: &mut MetadataBuf) {
        let of_kind = self.of_kind(kind).map_or(&[][..], |of_kind| &of_kind.keys_before);
        set(self.keys_before.iter().chain(of_kind), metadata);
    }

    /// Sets the keys that follow a vocabulary of this kind.
    pub fn write_keys(&self, kind: VocabularyKind, metadata: &mut MetadataBuf) {
        let of_kind = self.of_kind(kind).map_or(&[][..], |of_kind| &of_kind.keys);
        set(of_kind.iter().chain(&self.keys), metadata);
    }

    /// Returns the special rules for a kind.
    pub fn of_kind(&self, kind: VocabularyKind) -> Option<&VocabularyKindSpec> {
        self.by_kind.iter().find(|(known, _)| *known == kind).map(|(_, of_kind)| of_kind)
    }
}

fn set<'a>(keys: impl Iterator<Item = &'a Key>, metadata: &mut MetadataBuf) {
    for key in keys {
        key.value.set(&key.name, 0, metadata);
    }
}

/// A vocabulary in a description, before hyperparameters are known.
#[derive(Clone, Debug)]
pub(crate) struct VocabularyTemplate {
    /// The part that does not depend on hyperparameters.
    pub(crate) spec: VocabularySpec,
    pub(crate) size: Option<Expression>,
    pub(crate) keys_before: Vec<KeyTemplate>,
    pub(crate) keys: Vec<KeyTemplate>,
    pub(crate) by_kind: Vec<(VocabularyKind, KindTemplate)>,
}

/// The special rules for a kind, before hyperparameters are known.
#[derive(Clone, Debug)]
pub(crate) struct KindTemplate {
    pub(crate) when: Expression,
    pub(crate) tokenizer_classes: Vec<String>,
    pub(crate) keys_before: Vec<KeyTemplate>,
    pub(crate) keys: Vec<KeyTemplate>,
}

impl VocabularyTemplate {
    pub(crate) fn from_raw(
        architecture: &str,
        raw: &RawVocabulary,
        is_declared: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let lists = [raw.control.len(), raw.user_defined.len()];
        let ranks = raw.ranks.as_ref().map_or(0, |ranks| ranks.special.len());
        let lists = [raw.pieces.added.as_ref().map_or(0, Vec::len), ranks].into_iter().chain(lists);
        if let Some(count) = lists.into_iter().find(|&count| count > MAX_ENTRIES) {
            let message =
                format!("{count} tokens in a list of the vocabulary, the limit is {MAX_ENTRIES}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let keys = |raw: &Ordered<RawKey>| keys(architecture, raw, is_declared);
        let mut by_kind = Vec::new();
        for (kind, raw) in &raw.by_kind.0 {
            let kind: VocabularyKind = kind.parse()?;
            let of_kind = KindTemplate {
                when: condition(raw.when.as_ref(), is_declared)?,
                tokenizer_classes: raw.tokenizer_classes.clone(),
                keys_before: keys(&raw.keys_before)?,
                keys: keys(&raw.keys)?,
            };
            by_kind.push((kind, of_kind));
        }
        Ok(Self {
            spec: fixed(raw)?,
            size: optional(raw.size.as_ref(), "size", is_declared)?,
            keys_before: keys(&raw.keys_before)?,
            keys: keys(&raw.keys)?,
            by_kind,
        })
    }
}

/// Parses the part of a vocabulary that does not depend on hyperparameters.
fn fixed(raw: &RawVocabulary) -> Result<VocabularySpec> {
    Ok(VocabularySpec {
        kinds: kinds(&raw.kinds)?,
        space_prefix: match raw.space_prefix {
            RawSpacePrefix::Flag(false) => SpacePrefix::Never,
            RawSpacePrefix::Flag(true) => SpacePrefix::First,
            RawSpacePrefix::Place(RawSpacePrefixPlace::AfterTokens) => SpacePrefix::AfterTokens,
            RawSpacePrefix::Place(RawSpacePrefixPlace::Last) => SpacePrefix::Last,
        },
        pre: raw.pre.clone(),
        builtin: raw.builtin.clone(),
        template_file_first: raw.template == RawTemplate::FileFirst,
        template_of_config: raw.template != RawTemplate::FileOnly,
        builtin_template: raw.builtin_template.clone(),
        added_tokens: match raw.added_tokens {
            RawAddedTokens::Normalized => AddedTokens::Normalized,
            RawAddedTokens::Decoded => AddedTokens::Decoded,
            RawAddedTokens::Plain => AddedTokens::Plain,
        },
        control: raw.control.clone(),
        user_defined: raw.user_defined.clone(),
        special_tokens: references(&raw.special_tokens)?,
        special_tokens_if_none: references(&raw.special_tokens_if_none)?,
        last_special_tokens: references(&raw.last_special_tokens)?,
        replaced_special_tokens: references(&raw.replaced_special_tokens)?,
        pieces: pieces(&raw.pieces)?,
        ranks: raw.ranks.as_ref().map(ranks).transpose()?,
        ..VocabularySpec::default()
    })
}

fn kinds(raw: &[String]) -> Result<Vec<VocabularyKind>> {
    let kinds: Vec<VocabularyKind> = raw.iter().map(|kind| kind.parse()).collect::<Result<_>>()?;
    let twice = kinds
        .iter()
        .enumerate()
        .find(|&(place, kind)| kinds.iter().take(place).any(|other| other == kind));
    if let Some((_, kind)) = twice {
        return Err(Error::description(format!("vocabulary kind \"{kind}\" is listed twice")));
    }
    if kinds.is_empty() {
        return Err(Error::description("the vocabulary has no kinds"));
    }
    Ok(kinds)
}

fn references(raw: &Ordered<RawToken>) -> Result<Vec<(String, TokenReference)>> {
    let mut references = Vec::with_capacity(raw.0.len());
    for (role, token) in &raw.0 {
        if !SPECIAL_TOKENS.iter().any(|(known, _)| known == role) {
            let known: Vec<&str> = SPECIAL_TOKENS.iter().map(|(role, _)| *role).collect();
            return Err(Error::description(format!(
                "special token {}: expected {}",
                quoted(role),
                known.join(", ")
            )));
        }
        let reference = match token {
            RawToken::Id(id) => TokenReference::Id(*id),
            RawToken::Text(text) => TokenReference::Text(text.clone()),
        };
        references.push((role.clone(), reference));
    }
    Ok(references)
}

fn pieces(raw: &RawPieces) -> Result<PieceRules> {
    const FILES: [&str; 3] = ["added_tokens.json", "tokenizer_config.json", "tokenizer.json"];
    let usual = || FILES.iter().take(2).map(ToString::to_string).collect();
    let added: Vec<String> = raw.added.clone().unwrap_or_else(usual);
    if let Some(unknown) = added.iter().find(|file| !FILES.contains(&&***file)) {
        return Err(Error::description(format!(
            "added tokens of {}: expected {}",
            quoted(unknown),
            FILES.join(", ")
        )));
    }
    Ok(PieceRules {
        added,
        appended: raw.appended,
        added_score: raw.added_score,
        special_score: raw.special_score,
        unused_prefix: raw.unused_prefix.clone(),
        nul: raw.nul.clone(),
        dummy_prefix: raw.dummy_prefix,
        mask: raw.mask,
    })
}

fn ranks(raw: &RawRanks) -> Result<RankRules> {
    const MAX_TOKENS: u32 = 1 << 12;
    if raw.reserved_count > MAX_TOKENS {
        let message = format!("{} reserved tokens, the limit is {MAX_TOKENS}", raw.reserved_count);
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let mut special = Vec::new();
    for text in &raw.special {
        let Some((start, end, before, after)) = range(text) else {
            special.push(text.clone());
            continue;
        };
        if end.saturating_sub(start) > MAX_TOKENS {
            let message = format!("special tokens {}: the limit is {MAX_TOKENS}", quoted(text));
            return Err(Error::new(ErrorKind::Limit, message));
        }
        special.extend((start..end).map(|number| format!("{before}{number}{after}")));
    }
    Ok(RankRules {
        file: raw.file.clone(),
        special,
        reserved: raw.reserved.clone(),
        reserved_count: raw.reserved_count,
        all_merges: raw.all_merges,
    })
}

/// Returns the first number of `{0..9}` in a text and the one after the last, and the text before and after.
fn range(text: &str) -> Option<(u32, u32, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (numbers, after) = rest.split_once('}')?;
    let (start, end) = numbers.split_once("..")?;
    Some((start.parse().ok()?, end.parse().ok()?, before, after))
}

/// Parses keys of the vocabulary, which must begin with `tokenizer.`.
fn keys(
    architecture: &str,
    raw: &Ordered<RawKey>,
    is_declared: &dyn Fn(&str) -> bool,
) -> Result<Vec<KeyTemplate>> {
    if raw.0.len() > MAX_KEYS {
        let message = format!("{} keys in the vocabulary, the limit is {MAX_KEYS}", raw.0.len());
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let mut keys = Vec::with_capacity(raw.0.len());
    for (name, key) in &raw.0 {
        if !name.starts_with("tokenizer.") {
            return Err(Error::description(format!(
                "key {} of the vocabulary: expected a name that begins with \"tokenizer.\"",
                quoted(name)
            )));
        }
        keys.push(KeyTemplate::from_raw(architecture, name, key, is_declared)?);
    }
    Ok(keys)
}
