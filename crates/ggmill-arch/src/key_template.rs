//! Metadata keys as descriptions write them.

use ggmill_core::keys::GENERAL_FILE_TYPE;

use crate::error::{Error, Result, SubjectKind};
use crate::expression::Expression;
use crate::key::{KeyType, whole_key};
use crate::schema::{RawKey, RawRequired};
use crate::terms::{condition, expression};

/// A metadata key as a description writes it. Without a value it is a place that the writer fills.
#[derive(Clone, Debug)]
pub(crate) struct KeyTemplate {
    pub(crate) name: Box<str>,
    pub(crate) key_type: KeyType,
    pub(crate) value: Option<Expression>,
    pub(crate) optional: bool,
    pub(crate) required: Option<RawRequired>,
    pub(crate) when: Expression,
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
            if value.is_none() && !raw.optional && name != GENERAL_FILE_TYPE {
                return Err(Error::description(format!(
                    "no value: only {GENERAL_FILE_TYPE} is left to the writer, and optional ones \
                     to other writers"
                )));
            }
            let key_type = KeyType::parse(&raw.r#type)?;
            Ok(Self {
                name: whole_key(architecture, name),
                key_type,
                value,
                optional: raw.optional,
                required: raw.required,
                when: condition(raw.when.as_ref(), known)?,
            })
        };
        understood().map_err(|error| error.about(SubjectKind::Key, name))
    }
}
