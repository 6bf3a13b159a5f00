//! Edits applied to metadata, and a check of the result.

use std::collections::{HashMap, HashSet};

use ggmill_arch::{Architecture, StandardKey};
use ggmill_core::{
    Alignment, FileType, Limits, MetadataBuf, RawStr, ToValue as _, Value, ValueType, keys,
};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_text::Glob;

use super::Edit;
use super::error::EditError;
use super::value::{EditValue, KeyType, TypedValue};

/// The key of the filler: an array of zeros that takes up the free space between the header and the
/// tensor data. Edits grow into it and reserve it; readers ignore it.
pub const FILLER_KEY: &str = ggmill_core::keys::GGMILL_PADDING;

/// The longest key, in bytes, by the specification.
pub(super) const MAX_KEY_LEN: usize = 65_535;

/// Metadata after edits, and the changes.
#[derive(Clone, Debug)]
pub struct Edited {
    pub(crate) metadata: MetadataBuf,
    /// `true` if the file gets no filler.
    pub(crate) compact: bool,
    changes: Vec<KeyChange>,
    notes: Vec<String>,
}

/// A key that an edit added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyChange {
    /// The key.
    pub key: Vec<u8>,
    /// `true` if the key existed before.
    pub before: bool,
    /// `true` if the key exists afterwards.
    pub after: bool,
}

impl Edited {
    /// Returns metadata without a change; the filler stays.
    #[cfg(feature = "fix")]
    pub(crate) fn unchanged(metadata: MetadataBuf) -> Self {
        Self { metadata, compact: false, changes: Vec::new(), notes: Vec::new() }
    }

    /// Returns the metadata after the edits, without the filler.
    pub fn metadata(&self) -> &MetadataBuf {
        &self.metadata
    }

    /// Returns the changes: removed and changed keys in the order of the file, then new keys.
    pub fn changes(&self) -> &[KeyChange] {
        &self.changes
    }

    /// Reserves no space for later edits: the file has no [`FILLER_KEY`] afterwards.
    #[must_use]
    pub fn without_padding(mut self) -> Self {
        self.compact = true;
        self
    }

    /// Returns remarks for the user.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Applies edits in order. `embedding_rows` is the number of rows of the token embedding, if the file
/// has one.
///
/// Fails, with the key as the subject, if a value does not fit its type, if a key that is removed or
/// renamed does not exist, and if the result would be a broken file: without an architecture, with an
/// invalid alignment, or with vocabulary arrays of different lengths.
///
/// ```
/// use ggmill_edit::{Edit, edit_metadata};
/// use ggmill_core::MetadataBuf;
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// metadata.set("llama.context_length", 2048u32);
/// let edits = [Edit::parse_set("llama.context_length=4096")?, Edit::parse_set("general.name=Tiny")?];
/// let edited = edit_metadata(&metadata, &edits, None)?;
/// assert_eq!(edited.metadata().get("llama.context_length").and_then(|value| value.as_u32()), Some(4096));
/// assert_eq!(edited.changes().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn edit_metadata(
    metadata: &MetadataBuf,
    edits: &[Edit],
    embedding_rows: Option<u64>,
) -> Result<Edited> {
    let mut before = metadata.clone();
    before.remove(FILLER_KEY);
    let mut after = before.clone();
    let mut compact = false;
    for edit in edits {
        apply(edit, &mut after, embedding_rows, &mut compact)?;
    }
    let changes = changes(&before, &after);
    let mut notes = Vec::new();
    check(&before, &after, &changes, embedding_rows, &mut notes)?;
    Ok(Edited { metadata: after, compact, changes, notes })
}

/// The error for a result that readers reject.
fn broken(why: impl Into<String>) -> Error {
    EditError::Broken(why.into()).refused()
}

fn apply(
    edit: &Edit,
    metadata: &mut MetadataBuf,
    embedding_rows: Option<u64>,
    compact: &mut bool,
) -> Result<()> {
    match edit {
        Edit::Set { key, key_type, value } => {
            set(metadata, key, *key_type, value).map_err(|error| error.key(key))
        }
        Edit::SetElement { key, index, value } => {
            set_element(metadata, key, *index, value).map_err(|error| error.key(key))
        }
        Edit::Unset(glob) => unset(metadata, glob, compact),
        Edit::Rename { from, to } => rename(metadata, from, to).map_err(|error| error.key(from)),
        Edit::SpecialToken { role, token } => special_token(metadata, role, token),
        Edit::SpecialTokenId { role, id } => {
            let key = special_token_key(role)
                .ok_or_else(|| EditError::NoSuchRole(role.clone()).refused())?;
            metadata.set(key, *id);
            Ok(())
        }
        Edit::Tokens(tokens) => replace_tokens(metadata, tokens, embedding_rows)
            .map_err(|error| error.key(keys::TOKENIZER_TOKENS)),
    }
}

fn set(
    metadata: &mut MetadataBuf,
    key: &str,
    declared: Option<KeyType>,
    given: &EditValue,
) -> Result<()> {
    let present = metadata.get(key);
    if present.is_none() {
        check_new_key(key)?;
    }
    let value =
        typed(metadata, key, declared, present.as_ref(), given).map_err(EditError::refused)?;
    metadata.set(key, value);
    Ok(())
}

/// Sets one element of an array, in the element type of the array.
fn set_element(metadata: &mut MetadataBuf, key: &str, index: u64, given: &EditValue) -> Result<()> {
    let value = metadata.get(key).ok_or_else(|| EditError::NoSuchKey.refused())?;
    let array = value.as_array().ok_or_else(|| EditError::NotArray.refused())?;
    let element = array.element_type();
    if element == ValueType::ARRAY {
        return Err(EditError::NestedArray.refused());
    }
    let len = array.len();
    if index >= len {
        return Err(EditError::NoSuchElement { index, len }.refused());
    }
    let new = given
        .as_type(KeyType::single(element))
        .map_err(|cause| EditError::Value(cause).refused())?;
    let mut elements = Vec::new();
    for (place, old) in (0..).zip(array.iter()) {
        let old = old.map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        if place == index { new.encode(&mut elements) } else { old.encode(&mut elements) }
    }
    let array = TypedValue::array(element, len, &elements);
    metadata.set(key, array);
    Ok(())
}

/// Converts a value to its type: the declared one, that of the present value, the standard type of
/// the key, or the one inferred from the value.
fn typed(
    metadata: &MetadataBuf,
    key: &str,
    declared: Option<KeyType>,
    present: Option<&Value<'_>>,
    given: &EditValue,
) -> Result<TypedValue, EditError> {
    // File types are known by their names, not by their numbers.
    let named = match given {
        EditValue::Text(text) if key == keys::GENERAL_FILE_TYPE => file_type(text),
        EditValue::Json(serde_json::Value::String(text)) if key == keys::GENERAL_FILE_TYPE => {
            file_type(text)
        }
        _ => None,
    };
    let given = named.as_ref().unwrap_or(given);
    if let Some(declared) = declared {
        return given.as_type(declared).map_err(EditError::Value);
    }
    if let EditValue::Typed(value) = given {
        return Ok(value.clone());
    }
    if let Some(present) = present {
        let key_type = KeyType::of(present).ok_or(EditError::NestedArray)?;
        return given
            .as_type(key_type)
            .map_err(|cause| EditError::PresentType { cause, present: key_type });
    }
    let architecture = metadata.get(keys::GENERAL_ARCHITECTURE);
    let own = given.own_type();
    let standard =
        standard_type(key, architecture.and_then(|value| value.as_str()), given.is_list());
    let key_type = standard.or(own).ok_or(EditError::Untyped)?;
    given.as_type(key_type).map_err(EditError::StandardType)
}

/// Returns the number of a file type by its name: `Q4_K_M`, or `MOSTLY_Q4_K_M` as in the reference.
fn file_type(text: &str) -> Option<EditValue> {
    let name = text.trim();
    let name = name
        .get(..7)
        .filter(|prefix| prefix.eq_ignore_ascii_case("mostly_"))
        .map_or(name, |prefix| &name[prefix.len()..]);
    let file_type: FileType = name.parse().ok()?;
    Some(EditValue::Text(file_type.0.to_string()))
}

/// Refuses a new key that some readers reject.
fn check_new_key(key: &str) -> Result<()> {
    if key == FILLER_KEY {
        return Err(EditError::Filler.refused());
    }
    if key.is_empty() || key.len() > MAX_KEY_LEN {
        return Err(EditError::KeyLength(key.len()).refused());
    }
    match key.chars().find(|c| !c.is_ascii_graphic()) {
        Some(other) => Err(EditError::KeyCharacter(other).refused()),
        None => Ok(()),
    }
}

fn unset(metadata: &mut MetadataBuf, glob: &Glob, compact: &mut bool) -> Result<()> {
    let len = metadata.len();
    metadata.retain(|key| !glob.matches(key));
    let filler = glob.as_str().starts_with("ggmill.") && glob.matches(RawStr::from(FILLER_KEY));
    *compact |= filler;
    if metadata.len() == len && !filler {
        return Err(EditError::NoMatch(glob.as_str().to_owned()).refused());
    }
    Ok(())
}

fn rename(metadata: &mut MetadataBuf, from: &str, to: &str) -> Result<()> {
    check_new_key(to)?;
    if metadata.get(to).is_some() {
        return Err(EditError::NameTaken(to.to_owned()).refused());
    }
    if metadata.rename(from, to) { Ok(()) } else { Err(EditError::NoSuchKey.refused()) }
}

fn special_token(metadata: &mut MetadataBuf, role: &str, token: &str) -> Result<()> {
    let Some(key) = special_token_key(role) else {
        return Err(EditError::NoSuchRole(role.to_owned()).refused());
    };
    let tokens = metadata.get(keys::TOKENIZER_TOKENS).and_then(|value| value.as_array());
    let tokens = tokens
        .and_then(|tokens| tokens.strings())
        .ok_or_else(|| EditError::NoVocabulary.refused().key(key))?;
    let mut found = tokens
        .zip(0u32..)
        .filter_map(|(text, id)| (text.ok()?.as_bytes() == token.as_bytes()).then_some(id));
    let id = found.next().ok_or_else(|| {
        EditError::NoSuchToken { key, token: token.to_owned() }.refused().key(key)
    })?;
    if let Some(other) = found.next() {
        return Err(EditError::AmbiguousToken { key, token: token.to_owned(), ids: [id, other] }
            .refused()
            .key(key));
    }
    drop(found);
    metadata.set(key, id);
    Ok(())
}

fn replace_tokens(
    metadata: &mut MetadataBuf,
    tokens: &[String],
    embedding_rows: Option<u64>,
) -> Result<()> {
    let present = metadata
        .get(keys::TOKENIZER_TOKENS)
        .and_then(|value| value.as_array())
        .map(|tokens| tokens.len());
    let count = tokens.len() as u64;
    if Some(count) != embedding_rows.or(present) && Some(count) != present {
        return Err(EditError::TokenCount { count, present, embedding_rows }.refused());
    }
    metadata.set(keys::TOKENIZER_TOKENS, tokens.to_vec());
    Ok(())
}

/// The reason why the keys of a shard cannot be removed or changed.
pub(super) const OF_A_SET: &str =
    "identifies the shard within its set, which could no longer be opened";

/// Returns `true` if the metadata is that of a shard in a set of several.
pub(super) fn is_shard(metadata: &MetadataBuf) -> bool {
    metadata.get(keys::SPLIT_COUNT).and_then(|value| value.as_u64()).is_some_and(|count| count > 1)
}

/// Returns `true` if two values have the same type and bytes. Both are encoded little-endian.
fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a.as_array(), b.as_array()) {
        // Compares the bytes of a vocabulary without visiting its strings.
        (Some(a), Some(b)) => {
            a.element_type() == b.element_type()
                && a.len() == b.len()
                && a.as_bytes() == b.as_bytes()
        }
        _ => TypedValue::new(a) == TypedValue::new(b),
    }
}

fn changes(before: &MetadataBuf, after: &MetadataBuf) -> Vec<KeyChange> {
    let (old_values, new_values) = (values_by_key(before), values_by_key(after));
    let mut changes = Vec::new();
    let mut compared = HashSet::new();
    for (key, _) in before.iter().chain(after.iter()) {
        if !compared.insert(key) {
            continue;
        }
        let [old, new] = [&old_values, &new_values].map(|values| values.get(&key));
        let is_unchanged = old.zip(new).is_some_and(|(old, new)| {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| is_same(old, new))
        });
        if !is_unchanged {
            let key = key.as_bytes().to_vec();
            changes.push(KeyChange { key, before: old.is_some(), after: new.is_some() });
        }
    }
    changes
}

/// Returns the values of each key: several if it is a duplicate.
fn values_by_key(metadata: &MetadataBuf) -> HashMap<RawStr<'_>, Vec<Value<'_>>> {
    let mut values: HashMap<RawStr<'_>, Vec<Value<'_>>> = HashMap::with_capacity(metadata.len());
    for (key, value) in metadata.iter() {
        values.entry(key).or_default().push(value);
    }
    values
}

/// Returns a remark about keys that still begin with the name of the old architecture.
fn left_behind(before: &MetadataBuf, after: &MetadataBuf) -> Option<String> {
    let old = before.get(keys::GENERAL_ARCHITECTURE)?;
    let prefix = [old.as_raw_str()?.as_bytes(), b"."].concat();
    let left = after.iter().filter(|(key, _)| key.as_bytes().starts_with(&prefix)).count();
    let (keys, begin) = if left == 1 { ("key", "begins") } else { ("keys", "begin") };
    (left > 0).then(|| {
        format!(
            "{left} {keys} still {begin} with \"{}\", the old architecture",
            RawStr::new(&prefix)
        )
    })
}

/// Checks the changed keys against the requirements of readers. Faults of unchanged keys are not
/// reported.
fn check(
    before: &MetadataBuf,
    after: &MetadataBuf,
    changes: &[KeyChange],
    embedding_rows: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<()> {
    let change_of = |key: &str| changes.iter().find(|change| change.key == key.as_bytes());
    if change_of(keys::GENERAL_ARCHITECTURE).is_some() {
        match after.get(keys::GENERAL_ARCHITECTURE) {
            None => {
                return Err(
                    broken("no program can load a file without it").key(keys::GENERAL_ARCHITECTURE)
                );
            }
            Some(value) if value.as_raw_str().is_none() => {
                return Err(broken("must be a string").key(keys::GENERAL_ARCHITECTURE));
            }
            Some(_) => notes.extend(left_behind(before, after)),
        }
    }
    if change_of(keys::GENERAL_ALIGNMENT).is_some()
        && let Some(value) = after.get(keys::GENERAL_ALIGNMENT)
    {
        check_alignment(&value, notes).map_err(|error| error.key(keys::GENERAL_ALIGNMENT))?;
    }
    // The `split.*` keys can be removed only all together.
    let left = || after.iter().any(|(key, _)| key.as_bytes().starts_with(b"split."));
    let of_set = changes.iter().filter(|change| change.key.starts_with(b"split."));
    if let Some(change) = of_set.max_by_key(|change| change.after)
        && (change.after || is_shard(before) && left())
    {
        let why = if is_shard(before) {
            OF_A_SET
        } else {
            "identifies a shard within its set; `ggmill split` creates shard sets"
        };
        return Err(broken(why).key(&change.key));
    }
    check_vocabulary(before, after, changes, embedding_rows)?;
    for (role, key) in keys::SPECIAL_TOKENS {
        let count = after
            .get(keys::TOKENIZER_TOKENS)
            .and_then(|value| value.as_array())
            .map(|tokens| tokens.len());
        if let (Some(_), Some(value), Some(count)) = (change_of(key), after.get(key), count)
            && value.as_u64().is_none_or(|id| id >= count)
        {
            return Err(broken(format!(
                "is not a token in the vocabulary, which has {count} tokens, expected one for \
                 {role}"
            ))
            .key(key));
        }
    }
    Ok(())
}

fn check_alignment(value: &Value<'_>, notes: &mut Vec<String>) -> Result<()> {
    if value.value_type() != ValueType::U32 {
        return Err(broken(format!("is {}, expected u32", value.value_type())));
    }
    let alignment =
        Alignment::new(value.as_u64().unwrap_or(0)).map_err(|error| broken(error.to_string()))?;
    if alignment.get() > Limits::default().alignment {
        return Err(broken(format!(
            "alignment {alignment}, the limit is {}",
            Limits::default().alignment
        )));
    }
    if !alignment.is_power_of_two() {
        notes.push(format!(
            "llama.cpp rejects alignment {alignment}, because it is not a power of two"
        ));
    }
    Ok(())
}

/// Checks that the arrays with an element per token have the same length, which is the number of rows
/// of the embedding.
fn check_vocabulary(
    before: &MetadataBuf,
    after: &MetadataBuf,
    changes: &[KeyChange],
    embedding_rows: Option<u64>,
) -> Result<()> {
    const BY_TOKEN: [&str; 3] =
        [keys::TOKENIZER_TOKENS, keys::TOKENIZER_SCORES, keys::TOKENIZER_TOKEN_TYPE];
    if !changes.iter().any(|change| BY_TOKEN.iter().any(|key| change.key == key.as_bytes())) {
        return Ok(());
    }
    let len = |metadata: &MetadataBuf, key: &str| {
        metadata.get(key).and_then(|value| value.as_array()).map(|array| array.len())
    };
    let Some(tokens) = len(after, keys::TOKENIZER_TOKENS) else { return Ok(()) };
    for key in [keys::TOKENIZER_SCORES, keys::TOKENIZER_TOKEN_TYPE] {
        if let Some(found) = len(after, key).filter(|&found| found != tokens) {
            return Err(broken(format!(
                "has {found} elements, but the vocabulary has {tokens} tokens"
            ))
            .key(key));
        }
    }
    if let Some(rows) = embedding_rows
        .filter(|&rows| rows != tokens && len(before, keys::TOKENIZER_TOKENS) != Some(tokens))
    {
        return Err(broken(format!("{tokens} tokens, but the embedding has {rows} rows"))
            .key(keys::TOKENIZER_TOKENS));
    }
    Ok(())
}

/// Returns the type of a key by the specification, for a model of this architecture: from the
/// description of the architecture, otherwise from the keys that all architectures have. For a key
/// that may be a value or an array, `list` selects the array.
pub(crate) fn standard_type(key: &str, architecture: Option<&str>, list: bool) -> Option<KeyType> {
    let described = architecture
        .and_then(Architecture::builtin)
        .and_then(|architecture| architecture.key_types(key));
    // A key with one number for all layers can have an array with one number per layer.
    let standard = || {
        StandardKey::of(key)
            .filter(|standard| !list || !standard.is_of_architecture())
            .map(|standard| standard.types())
    };
    let (single, element) = described.or_else(standard).or_else(|| by_rule(key))?;
    let (single, element) = (single.map(KeyType::single), element.map(KeyType::array));
    if list { element.or(single) } else { single.or(element) }
}

/// Returns the type of an unlisted key by that of related keys.
fn by_rule(key: &str) -> Option<(Option<ValueType>, Option<ValueType>)> {
    let value_type = match key {
        _ if key.starts_with("general.sampling.") => ValueType::F32,
        _ if key.starts_with("general.") || key.starts_with("tokenizer.chat_template") => {
            ValueType::STRING
        }
        _ if key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id") => ValueType::U32,
        _ => return None,
    };
    Some((Some(value_type), None))
}

/// Returns the key of a special token by its short name (`pad`), or by the name in the key
/// (`padding`), which other tools use.
pub(crate) fn special_token_key(role: &str) -> Option<&'static str> {
    let role = if role == "separator" { "sep" } else { role };
    let is_in = |key: &str| {
        let name = key.strip_prefix("tokenizer.ggml.");
        name.and_then(|name| name.strip_suffix("_token_id")) == Some(role)
    };
    let mut tokens = keys::SPECIAL_TOKENS.iter();
    tokens.find(|(name, key)| *name == role || is_in(key)).map(|(_, key)| *key)
}
