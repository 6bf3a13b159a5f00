//! Metadata keys in descriptions.

use ggmill_core::keys::GENERAL_FILE_TYPE;

use crate::data::schema::{RawKey, RawRequired, RawStage};
use crate::error::{Error, Result, SubjectKind};
use crate::language::expression::Expression;
use crate::language::terms::{condition, expression};
use crate::parameters::key::{KeyType, whole_key};

/// A metadata key in a description. A key without a value is written by the writer.
#[derive(Clone, Debug)]
pub(crate) struct KeyTemplate {
    pub(crate) name: Box<str>,
    pub(crate) key_type: KeyType,
    pub(crate) value: Option<Expression>,
    pub(crate) optional: bool,
    pub(crate) required: Option<RawRequired>,
    pub(crate) when: Expression,
    pub(crate) stage: RawStage,
    /// If true, an earlier entry of the description has the same key.
    pub(crate) is_further: bool,
}

impl KeyTemplate {
    pub(crate) fn understand(
        architecture: &str,
        name: &str,
        raw: &RawKey,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let understood = || {
            let value = raw
                .value
                .as_ref()
                .map(|value| expression(value, known))
                .transpose()
                .map_err(|error| error.at("value"))?;
            let optional = raw.optional.unwrap_or(false);
            if value.is_none() && !optional && name != GENERAL_FILE_TYPE {
                return Err(Error::description(format!(
                    "the value is missing: only {GENERAL_FILE_TYPE} and optional keys may have none"
                )));
            }
            let key_type =
                raw.r#type.as_deref().ok_or_else(|| Error::description("the type is missing"))?;
            let key_type = KeyType::parse(key_type)?;
            // A suffix after @ distinguishes entries with the same key. The key is written at the place of
            // the first entry that applies, with the value of the last.
            let (name, is_further) =
                name.split_once('@').map_or((name, false), |(name, _)| (name, true));
            Ok(Self {
                name: if raw.absolute == Some(true) {
                    name.into()
                } else {
                    whole_key(architecture, name)
                },
                key_type,
                value,
                optional,
                required: raw.required,
                when: condition(raw.when.as_ref(), known)?,
                stage: raw.stage.unwrap_or(RawStage::Model),
                is_further,
            })
        };
        understood().map_err(|error| error.about(SubjectKind::Key, name))
    }
}
