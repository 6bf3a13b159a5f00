//! The kind of file that an architecture name implies.

use std::sync::LazyLock;

use crate::data::compiled::{self, table};
use crate::data::tables::Kinds;

static KINDS: LazyLock<Kinds> = LazyLock::new(|| table(compiled::KINDS));

/// The `general.type` of projectors.
pub(crate) const PROJECTOR: &str = "mmproj";

/// Returns the `general.type` that files of this architecture have, even if the key is missing;
/// `None` for a language model.
///
/// ```
/// assert_eq!(ggmill_arch::kind_of_architecture("controlvector"), Some("controlvector"));
/// assert_eq!(ggmill_arch::kind_of_architecture("llama"), None);
/// ```
pub fn kind_of_architecture(architecture: &str) -> Option<&'static str> {
    KINDS.kinds.get(architecture).map(String::as_str)
}
