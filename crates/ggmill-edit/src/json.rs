use ggmill_core::{MetadataBuf, RawStr, Value, ValueType};
use serde_json::{Number, Value as Json, json};

use crate::edit::{FILLER_KEY, KeyType};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// Arrays within arrays, as the reader allows by default.
const DEEPEST: usize = 8;

/// The metadata whose keys `has_key` admits as a JSON object with a line for each: `"key:type":
/// value`, the form that [`Edit::from_json`](crate::Edit::from_json) reads. Set again they are what
/// they were, to the last bit.
///
/// Keys about the file itself, which no edit sets, are omitted: the room that edits leave, and the
/// number of the shard and its set.
///
/// Fails for what JSON cannot say: text that is not UTF-8, numbers that are not finite, arrays of
/// arrays of different types, a duplicate key.
///
/// ```
/// use ggmill_core::MetadataBuf;
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// metadata.set("llama.block_count", 2u32);
/// let text = ggmill_edit::extract_metadata(&metadata, |key| key.as_bytes().starts_with(b"llama."))?;
/// assert_eq!(text, "{\n\"llama.block_count:u32\": 2\n}\n");
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub fn extract_metadata(
    metadata: &MetadataBuf,
    mut has_key: impl FnMut(RawStr<'_>) -> bool,
) -> Result<String> {
    let mut names = std::collections::BTreeSet::new();
    let mut text = "{".to_owned();
    for (key, value) in metadata.iter().filter(|(key, _)| has_key(*key) && !is_of_the_file(*key)) {
        let refused = |why: &str| Error::new(ErrorKind::Unsupported, why).key(key.as_bytes());
        let name = key.to_str().map_err(|_| refused("is not valid UTF-8, which JSON requires"))?;
        if !names.insert(key.as_bytes()) {
            return Err(refused("occurs twice, which JSON cannot express"));
        }
        let key_type = type_of(&value, DEEPEST).ok_or_else(|| {
            refused("consists of arrays of different types, which JSON cannot express")
        })?;
        let value = json(&value).map_err(refused)?;
        text.push_str(if names.len() > 1 { ",\n" } else { "\n" });
        let escaped = |value: &Json| {
            ggmill_text::json::to_string(value)
                .map_err(|error| Error::caused(ErrorKind::Unsupported, error))
        };
        text.push_str(&escaped(&Json::from(format!("{name}:{key_type}")))?);
        text.push_str(": ");
        text.push_str(&escaped(&value)?);
    }
    text.push_str("\n}\n");
    Ok(text)
}

fn is_of_the_file(key: RawStr<'_>) -> bool {
    key.as_bytes() == FILLER_KEY.as_bytes() || key.as_bytes().starts_with(b"split.")
}

/// The type with those of all arrays within; `None` when two of them differ.
fn type_of(value: &Value<'_>, depth: usize) -> Option<KeyType> {
    let Some(array) = value.as_array().filter(|array| array.element_type() == ValueType::ARRAY)
    else {
        return KeyType::of(value);
    };
    let mut types = array.iter().map(|element| type_of(&element.ok()?, depth.checked_sub(1)?));
    let first = match types.next() {
        Some(first) => first?,
        // Of what nobody knows there are none.
        None => KeyType::array(ValueType::U8),
    };
    types.all(|other| other == Some(first)).then(|| first.within())?
}

/// A value as JSON. Fails for what JSON cannot say, as [`extract_metadata`] does.
///
/// ```
/// let json = ggmill_edit::value_json(&ggmill_core::Value::U32(4096))?;
/// assert_eq!(json, serde_json::json!(4096));
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub fn value_json(value: &Value<'_>) -> Result<Json> {
    json(value).map_err(|why| Error::new(ErrorKind::Unsupported, why))
}

fn json(value: &Value<'_>) -> Result<Json, &'static str> {
    let number = |number: f64| {
        Number::from_f64(number)
            .map(Json::Number)
            .ok_or("contains a number that is not finite, which JSON cannot express")
    };
    Ok(match *value {
        Value::Str(text) => Json::from(
            text.to_str()
                .map_err(|_| "contains a string that is not valid UTF-8, which JSON requires")?,
        ),
        Value::Bool(value) => Json::from(value),
        Value::F32(value) => number(f64::from(value))?,
        Value::F64(value) => number(value)?,
        Value::Array(array) => Json::Array(
            array
                .iter()
                .map(|element| json(&element.map_err(|_| "cannot be read")?))
                .collect::<Result<_, _>>()?,
        ),
        Value::U64(value) => json!(value),
        ref other => json!(other.as_i64()),
    })
}
