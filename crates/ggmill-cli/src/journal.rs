//! Edits that were interrupted.

use std::path::Path;

use ggmill_io::pending_journal;

use crate::console::Console;
use crate::paths::shown;

/// Says that an edit of this file was interrupted, when one was: what is read from it may be half
/// of each.
pub(crate) fn warn_of_journal(file: &Path, console: Console) {
    if pending_journal(file).is_some() {
        console.warn(format_args!(
            "an edit of this file was interrupted; `ggmill edit --recover {}` finishes or undoes \
             it",
            shown(file)
        ));
    }
}
