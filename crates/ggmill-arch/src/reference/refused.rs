//! Classes of checkpoints that are known and not converted, with the reason for each.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::data::compiled::{self, table};
use crate::data::tables::Refused;

static REFUSED: LazyLock<Refused> = LazyLock::new(|| table(compiled::REFUSED));

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
