//! Classes of checkpoints that are known and not converted, with the reason for each.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::coded::coded;
use crate::data::Table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refused {
    schema: String,
    models: BTreeMap<String, String>,
    projectors: BTreeMap<String, String>,
}

coded! { Refused { schema } of checkpoints { models, projectors } }

impl Table for Refused {
    const TEXT: &'static str = include_str!("../data/refused.toml");
    const SCHEMA: &'static str = "ggmill.refused-classes/1";
    const CODED: &'static [u8] = crate::tables::REFUSED;

    fn schema(&self) -> &str {
        &self.schema
    }
}

// The build script has read the text, and written what is read here.
static REFUSED: LazyLock<Refused> =
    LazyLock::new(|| Refused::read().expect("read when it was built"));

fn list(projectors: bool) -> &'static BTreeMap<String, String> {
    if projectors { &REFUSED.projectors } else { &REFUSED.models }
}

/// Why checkpoints of this class are not converted; `None` for a class that is not in the list.
pub(crate) fn reason(class: &str, projectors: bool) -> Option<&'static str> {
    list(projectors).get(class).map(String::as_str)
}

/// The classes of checkpoints that are known and for which there is no description, of models or of
/// projectors, each with the reason.
///
/// ```
/// let mut models = ggmill_arch::refused_classes(false);
/// assert!(models.any(|(class, _)| class == "PocketTTSModel"));
/// ```
pub fn refused_classes(projectors: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    list(projectors).iter().map(|(class, reason)| (&**class, &**reason))
}
