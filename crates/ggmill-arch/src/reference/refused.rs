//! Checkpoint classes that are known and not converted, with reasons.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::data::compiled::{self, table};
use crate::data::tables::Refused;

static REFUSED: LazyLock<Refused> = LazyLock::new(|| table(compiled::REFUSED));

fn list(projectors: bool) -> &'static BTreeMap<String, String> {
    if projectors { &REFUSED.projectors } else { &REFUSED.models }
}

/// Returns the reason why checkpoints of this class are not converted; `None` if the class is not
/// listed.
pub(crate) fn reason(class: &str, projectors: bool) -> Option<&'static str> {
    list(projectors).get(class).map(String::as_str)
}

/// Returns the known checkpoint classes without a description, of models or of projectors, with
/// reasons.
///
/// ```
/// let mut models = ggmill_arch::refused_classes(false);
/// assert!(models.any(|(class, _)| class == "PocketTTSModel"));
/// ```
pub fn refused_classes(projectors: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    list(projectors).iter().map(|(class, reason)| (&**class, &**reason))
}
