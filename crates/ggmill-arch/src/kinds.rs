//! The kind of file that an architecture name denotes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::coded::coded;
use crate::data::Table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kinds {
    schema: String,
    kinds: BTreeMap<String, String>,
}

coded! { Kinds { schema, kinds } }

impl Table for Kinds {
    const TEXT: &'static str = include_str!("../data/kinds.toml");
    const SCHEMA: &'static str = "ggmill.kinds/1";
    const CODED: &'static [u8] = crate::tables::KINDS;

    fn schema(&self) -> &str {
        &self.schema
    }
}

// The build script has read the text, and written what is read here.
static KINDS: LazyLock<Kinds> = LazyLock::new(|| Kinds::read().expect("read when it was built"));

/// The `general.type` of projectors.
pub(crate) const PROJECTOR: &str = "mmproj";

/// The `general.type` that a file of this architecture has, whether it says so or not; `None` for
/// an architecture of models.
///
/// ```
/// assert_eq!(ggmill_arch::kind_of_architecture("controlvector"), Some("controlvector"));
/// assert_eq!(ggmill_arch::kind_of_architecture("llama"), None);
/// ```
pub fn kind_of_architecture(architecture: &str) -> Option<&'static str> {
    KINDS.kinds.get(architecture).map(String::as_str)
}
