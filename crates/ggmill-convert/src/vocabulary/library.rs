//! Keys of a vocabulary that the library's tokenizer determines, and the comparison of the file's
//! tokens with the library's.

use std::fmt::{self, Write as _};

use ggmill_arch::VocabularySpec;
use ggmill_core::{MetadataBuf, RawStr};
use ggmill_pipeline::{Result, SideFiles};
use ggmill_tokenizer::tokenizer_json::{
    AddedToken, AddedVocabulary, Pipeline, TokenizerJson, verification_texts,
};
use ggmill_tokenizer::{EncodeOptions, Error, Kind, Tokenizer};
use serde_json::{Value, json};

use super::fast::Fast;
use super::files;
use super::llama_hf::has_type;
use super::request::Request;

const FILE: &str = "tokenizer.json";

/// A tokenizer as the library reads it from `tokenizer.json` and `tokenizer_config.json`.
///
/// ```
/// use std::collections::BTreeMap;
/// use ggmill_convert::LibraryTokenizer;
/// use ggmill_tokenizer::EncodeOptions;
/// let mut files = BTreeMap::new();
/// let file = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
///     "merges": ["a b"]}, "added_tokens": []}"#;
/// files.insert("tokenizer.json".to_owned(), file.as_bytes().to_vec());
/// let tokenizer = LibraryTokenizer::open(&files)?.expect("a tokenizer.json");
/// assert_eq!(tokenizer.encode("aba", &EncodeOptions::new())?, [2, 0]);
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub struct LibraryTokenizer(Fast);

impl fmt::Debug for LibraryTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibraryTokenizer").finish_non_exhaustive()
    }
}

impl LibraryTokenizer {
    /// Reads the tokenizer. Returns `None` if there is no `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, or if the library would not read it.
    pub fn open(files: &dyn SideFiles) -> Result<Option<Self>> {
        let config = files::json(files, "config.json")?.unwrap_or_default();
        let spec = VocabularySpec::default();
        let mut request = Request::new(files, &config, &spec, None)?;
        let Some(file) = request.tokenizer()? else { return Ok(None) };
        file.model.kind().map_err(|error| files::fault(FILE, error.to_string()))?;
        Fast::of(&file, &mut request).map(|tokenizer| Some(Self(tokenizer)))
    }

    /// Returns the token IDs of a text.
    ///
    /// # Errors
    ///
    /// Fails if the file has a component that is not supported, or takes too many steps.
    pub fn encode(&self, text: &str, options: &EncodeOptions) -> Result<Vec<u32>> {
        let failed = |error: Error| files::fault(FILE, error.to_string());
        let mut pipeline = self.0.pipeline()?;
        if !options.parse_special {
            let [normalizer, pre_tokenizer] = self.0.components();
            let added = copy(self.0.added_vocabulary(), &|token| (!token.special).then_some(token));
            pipeline = pipeline.altered(&added, &normalizer, &pre_tokenizer).map_err(failed)?;
        }
        let ids = pipeline.encode(text).map_err(failed)?;
        Ok(if options.add_special { self.0.around(ids) } else { ids })
    }

    /// Returns the text of a token as the file has it.
    pub fn token(&self, id: u32) -> Option<&str> {
        let added = self.0.added().get(&id).map(|token| &*token.content);
        added.or_else(|| {
            let tokens = &self.0.file().model.vocab.tokens;
            tokens.iter().find(|(_, known)| *known == id).map(|(text, _)| &**text)
        })
    }

    /// Names what llama.cpp does not support, so that a vocabulary of this kind has these tokens for a
    /// text and the library others. Returns `None` for equal tokens.
    ///
    /// # Errors
    ///
    /// Fails if [`encode`](Self::encode) does.
    pub fn cause(&self, text: &str, file: &[u32], kind: Kind) -> Result<Option<String>> {
        let failed = |error: Error| files::fault(FILE, error.to_string());
        let pipeline = self.0.pipeline()?;
        let library = self.0.around(pipeline.encode(text).map_err(failed)?);
        if library == file {
            return Ok(None);
        }
        let differing = [Differing { text, library, file: file.to_vec() }];
        let causes = causes(&self.0, &pipeline, &differing, kind).map_err(failed)?;
        Ok(causes.into_iter().next().map(|(cause, _)| cause))
    }
}

/// The place of a text among the tokens that a post-processor adds.
const TEXT: u32 = u32::MAX;

/// Sets the keys whose values, or defaults in llama.cpp, contradict the library's tokenizer: whether
/// BOS and EOS are added, a space before the text, and repeated spaces. Returns the tokenizer of the
/// resulting vocabulary; fails if it has none.
pub(crate) fn align(tokenizer: &Fast, metadata: &mut MetadataBuf) -> Result<Tokenizer, Error> {
    let made = Tokenizer::from_entries(metadata.clone())?;
    let vocabulary = made.vocabulary();
    let kind = vocabulary.kind();
    let (flags, ids) = (vocabulary.flags(), vocabulary.special_ids());
    let mut changed: Vec<(&str, bool)> = Vec::new();
    let mut set = |key, current: bool, wanted: bool| {
        if current != wanted {
            changed.push((key, wanted));
        }
    };
    let mut bos = None;
    if matches!(kind, Kind::Spm | Kind::Bpe | Kind::Ugm) {
        let around = tokenizer.around(vec![TEXT]);
        let mut sides = around.split(|id| *id == TEXT);
        let (before, after) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        if let [] | [_] = before {
            set("tokenizer.ggml.add_bos_token", flags.add_bos, !before.is_empty());
            bos = before.first().copied().filter(|id| ids.bos != Some(*id));
        }
        if after.is_empty() || matches!(after, [id] if ids.eos == Some(*id)) {
            set("tokenizer.ggml.add_eos_token", flags.add_eos, !after.is_empty());
        }
    }
    if matches!(kind, Kind::Spm | Kind::Ugm) {
        let file = tokenizer.file();
        let key = "tokenizer.ggml.add_space_prefix";
        set(key, flags.add_space_prefix, prepends_space(file));
        if kind == Kind::Ugm {
            let key = "tokenizer.ggml.remove_extra_whitespaces";
            set(key, flags.remove_extra_whitespaces, joins_spaces(file));
        }
    }
    if changed.is_empty() && bos.is_none() {
        return Ok(made);
    }
    for (key, value) in changed {
        metadata.set(key, value);
    }
    if let Some(id) = bos {
        metadata.set("tokenizer.ggml.bos_token_id", id);
    }
    Tokenizer::from_entries(metadata.clone())
}

/// Calls `visit` with a component and each of its parts.
fn each_part<'a>(component: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    visit(component);
    for member in ["normalizers", "pretokenizers"] {
        // The recursion is bounded: serde_json reads JSON to a depth of 128.
        let parts = component.get(member).and_then(Value::as_array);
        parts.into_iter().flatten().for_each(|part| each_part(part, visit));
    }
}

fn type_of(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns `true` if a space is added before a text: by `Metaspace`, or by a `Prepend`.
fn prepends_space(file: &TokenizerJson) -> bool {
    let mut found = false;
    each_part(&file.normalizer, &mut |part| found |= type_of(part) == "Prepend");
    each_part(&file.pre_tokenizer, &mut |part| {
        let scheme = part.get("prepend_scheme").and_then(Value::as_str);
        let prefix = part.get("add_prefix_space").and_then(Value::as_bool);
        let prepends = scheme.map_or(prefix.unwrap_or(true), |scheme| scheme != "never");
        found |= type_of(part) == "Metaspace" && prepends;
    });
    found
}

/// Returns `true` if repeated spaces count as one: by a `Replace` of an expression, or by splitting at
/// whitespace.
fn joins_spaces(file: &TokenizerJson) -> bool {
    let mut found = false;
    each_part(&file.normalizer, &mut |part| {
        let pattern = part.get("pattern").and_then(|it| it.get("Regex")).and_then(Value::as_str);
        let content = part.get("content").and_then(Value::as_str);
        found |= type_of(part) == "Replace"
            && pattern.is_some_and(|it| it.starts_with([' ', '\\']))
            && matches!(content, Some(" " | "\u{2581}"));
    });
    each_part(&file.pre_tokenizer, &mut |part| {
        found |= matches!(type_of(part), "WhitespaceSplit" | "Whitespace");
    });
    found
}

/// A change of the library's pipeline that makes it more like that of llama.cpp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// `lstrip`, `rstrip`, `single_word` and `normalized` of added tokens.
    AddedFlags,
    /// Normalizers without a key.
    Normalizer,
    /// A space is added before a text only where the text does not begin with one, or only before the
    /// first text.
    SpacePrefix,
    /// The text is split at whitespace other than spaces.
    Whitespace,
}

impl Limit {
    const ALL: [Self; 4] =
        [Self::AddedFlags, Self::Normalizer, Self::SpacePrefix, Self::Whitespace];
}

/// The components of a pipeline.
struct Components {
    added: AddedVocabulary,
    normalizer: Value,
    pre_tokenizer: Value,
}

/// The normalizers for which a GGUF file has no key.
const NORMALIZERS: [&str; 9] =
    ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Strip", "ByteLevel"];

impl Components {
    fn of(tokenizer: &Fast) -> Self {
        let [normalizer, pre_tokenizer] = tokenizer.components();
        Self { added: copy(tokenizer.added_vocabulary(), &Some), normalizer, pre_tokenizer }
    }

    /// Applies a change; returns its description, or `None` if there is nothing to change.
    fn apply(&mut self, limit: Limit) -> Option<String> {
        match limit {
            Limit::AddedFlags => {
                let mut flags = Vec::new();
                for token in self.added.by_id().values() {
                    // A token is normalized before it is found, which matters only if a normalizer
                    // changes texts.
                    let normalized = token.normalized && !self.normalizer.is_null();
                    flags.extend(
                        [
                            ("lstrip", token.lstrip),
                            ("rstrip", token.rstrip),
                            ("single_word", token.single_word),
                            ("normalized", normalized),
                        ]
                        .into_iter()
                        .filter(|(_, is_set)| *is_set)
                        .map(|(name, _)| name),
                    );
                }
                flags.sort_unstable();
                flags.dedup();
                self.added = copy(&self.added, &|token| {
                    Some(AddedToken {
                        lstrip: false,
                        rstrip: false,
                        single_word: false,
                        normalized: false,
                        ..token
                    })
                });
                let named = format!("the flags {} of added tokens", flags.join(", "));
                (!flags.is_empty()).then_some(named)
            }
            Limit::Normalizer => {
                let mut names = Vec::new();
                self.normalizer = without(&self.normalizer, &mut names);
                names.dedup();
                (!names.is_empty()).then(|| format!("the normalizer {}", names.join(", ")))
            }
            Limit::SpacePrefix => {
                let mut prepends = false;
                let mut adds = false;
                self.pre_tokenizer = replaced(&self.pre_tokenizer, &mut |part| {
                    let is_set = part.get("add_prefix_space").is_some_and(|it| *it == true);
                    if type_of(part) == "ByteLevel" && is_set {
                        adds = true;
                        let mut changed = part.clone();
                        changed["add_prefix_space"] = json!(false);
                        return Some(changed);
                    }
                    (type_of(part) == "Metaspace").then(|| {
                        let mut changed = part.clone();
                        prepends |= part.get("prepend_scheme").is_none_or(|it| it != "never");
                        changed["prepend_scheme"] = json!("never");
                        changed
                    })
                });
                if prepends {
                    let prepend = json!({ "type": "Prepend", "prepend": " " });
                    self.normalizer = json!({ "type": "Sequence",
                        "normalizers": [self.normalizer.take(), prepend] });
                }
                if adds {
                    return Some("a space prefix of byte-level texts".to_owned());
                }
                let named = "a space prefix that depends on the text (Metaspace)";
                prepends.then(|| named.to_owned())
            }
            Limit::Whitespace => {
                let splits = has_type(&self.pre_tokenizer, "WhitespaceSplit");
                self.pre_tokenizer = replaced(&self.pre_tokenizer, &mut |part| {
                    (type_of(part) == "WhitespaceSplit").then(|| {
                        json!({ "type": "Split", "pattern": { "Regex": " +" },
                            "behavior": "Removed", "invert": false })
                    })
                });
                splits.then(|| "splitting at whitespace other than spaces".to_owned())
            }
        }
    }
}

/// Copies the added tokens for which `change` returns a token.
fn copy(
    added: &AddedVocabulary,
    change: &dyn Fn(AddedToken) -> Option<AddedToken>,
) -> AddedVocabulary {
    let known = added.by_id().values();
    let tokens: Vec<AddedToken> = known.filter_map(|token| change(token.clone())).collect();
    let mut copied = AddedVocabulary::default();
    copied.add(&tokens, u32::MAX, &|content| added.id(content));
    copied
}

/// Returns a normalizer without the parts that have no key, and adds their names.
fn without(normalizer: &Value, names: &mut Vec<String>) -> Value {
    replaced(normalizer, &mut |part| {
        let name = type_of(part);
        let is_expression = part.get("pattern").is_some_and(|it| it.get("Regex").is_some());
        (NORMALIZERS.contains(&name) || is_expression).then(|| {
            names.push(name.to_owned());
            json!({ "type": "Sequence", "normalizers": [], "pretokenizers": [] })
        })
    })
}

/// Returns a component with parts replaced by what `change` returns for them.
fn replaced(component: &Value, change: &mut dyn FnMut(&Value) -> Option<Value>) -> Value {
    if let Some(changed) = change(component) {
        return changed;
    }
    let mut copied = component.clone();
    for member in ["normalizers", "pretokenizers"] {
        if let Some(parts) = copied.get_mut(member).and_then(Value::as_array_mut) {
            for part in parts {
                *part = replaced(part, change);
            }
        }
    }
    copied
}

/// A text whose tokens in the file differ from those of the library.
struct Differing<'t> {
    text: &'t str,
    library: Vec<u32>,
    file: Vec<u32>,
}

/// Compares the tokens of 500 texts in the file with those of the library; returns a note if some
/// differ, or could not be compared.
pub(crate) fn verify(tokenizer: &Fast, made: &Tokenizer) -> Option<String> {
    match compare(tokenizer, made) {
        Ok(None) => None,
        Ok(Some(found)) => Some(format!("{FILE}: {found}")),
        Err(error) => Some(not_compared(&error)),
    }
}

/// Returns the note that an error prevents the comparison.
pub(crate) fn not_compared(error: &Error) -> String {
    format!("{FILE}: its tokens were not compared with the file's: {error}")
}

fn compare(tokenizer: &Fast, made: &Tokenizer) -> Result<Option<String>, Error> {
    let components = Components::of(tokenizer);
    let model = &tokenizer.file().model;
    let Components { added, normalizer, pre_tokenizer } = &components;
    let pipeline = Pipeline::new(model, added, normalizer, pre_tokenizer)?;
    let texts = verification_texts(tokenizer.added());
    let options = EncodeOptions::new().parse_special(true);
    let mut differing = Vec::new();
    for text in &texts {
        let library = tokenizer.around(pipeline.encode(text)?);
        let mut file = Vec::new();
        made.encode(text, &options, &mut file)?;
        if library != file {
            differing.push(Differing { text, library, file });
        }
    }
    let Some(first) = differing.first() else { return Ok(None) };
    let mut message = format!(
        "the tokens of {} of {} texts differ from those of the library, because llama.cpp does not \
         support",
        differing.len(),
        texts.len()
    );
    let causes = causes(tokenizer, &pipeline, &differing, made.vocabulary().kind())?;
    for (number, (cause, count)) in causes.iter().enumerate() {
        let _ = write!(message, "{} {cause} ({count})", if number > 0 { "," } else { "" });
    }
    let shown = |ids: &[u32]| {
        let shown: Vec<String> = ids.iter().take(12).map(u32::to_string).collect();
        format!("[{}{}]", shown.join(", "), if ids.len() > 12 { ", …" } else { "" })
    };
    let _ = write!(
        message,
        "; the first: {:?} is {}, in the library {}",
        RawStr::from(first.text),
        shown(&first.file),
        shown(&first.library)
    );
    Ok(Some(message))
}

/// Counts the texts by the causes of their differences: the change of the pipeline with which the
/// library's tokens are those of the file.
fn causes(
    tokenizer: &Fast,
    pipeline: &Pipeline<'_>,
    differing: &[Differing<'_>],
    kind: Kind,
) -> Result<Vec<(String, usize)>, Error> {
    let mut changes = Vec::new();
    for limit in Limit::ALL {
        let mut components = Components::of(tokenizer);
        if let Some(named) = components.apply(limit) {
            changes.push((named, components));
        }
    }
    if changes.len() > 1 {
        let mut all = Components::of(tokenizer);
        let named: Vec<String> =
            Limit::ALL.into_iter().filter_map(|limit| all.apply(limit)).collect();
        changes.push((format!("several of: {}", named.join("; ")), all));
    }
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut left: Vec<&Differing<'_>> = differing.iter().collect();
    for (named, Components { added, normalizer, pre_tokenizer }) in changes {
        let altered = pipeline.altered(&added, &normalizer, &pre_tokenizer)?;
        let before = left.len();
        let mut failed = None;
        left.retain(|differing| match altered.encode(differing.text) {
            Ok(ids) => tokenizer.around(ids) != differing.file,
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if left.len() < before {
            counts.push((named, before.saturating_sub(left.len())));
        }
    }
    if !left.is_empty() {
        counts.push((other(kind).to_owned(), left.len()));
    }
    Ok(counts)
}

/// Names the remaining differences of a kind of vocabulary.
fn other(kind: Kind) -> &'static str {
    match kind {
        Kind::Wpm => "the rules of BERT for accents, control characters and unknown words",
        Kind::Ugm => {
            "the search for added tokens, the ties and the character map of unigram models in the \
             library"
        }
        Kind::Spm => "merges of some pairs only, and unknown characters",
        _ => "the regular expressions of the pre-tokenizer as the library runs them",
    }
}
