//! The forms of importance matrices, and what is said of one that was written.

use std::path::Path;

use ggmill_quantize::{Imatrix, ImatrixForm};

use crate::console::Console;
use crate::paths::shown;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    Gguf,
    Dat,
}

/// The form that is asked for, else the one of the output's name.
pub(crate) fn form_for(output: &Path, format: Option<Format>) -> ImatrixForm {
    let is_legacy = format.map_or_else(
        || output.extension().is_some_and(|extension| extension == "dat"),
        |format| matches!(format, Format::Dat),
    );
    if is_legacy { ImatrixForm::Legacy } else { ImatrixForm::Gguf }
}

/// Says what the form has no place for.
pub(crate) fn warn_of_losses(console: Console, imatrix: &Imatrix, form: ImatrixForm) {
    let is_legacy = form == ImatrixForm::Legacy;
    for (name, _) in imatrix.entries().filter(|(_, entry)| is_legacy && !entry.is_used()) {
        console.warn(format_args!(
            "entry {name:?} was never measured, and the legacy format cannot represent it"
        ));
    }
    if is_legacy && imatrix.datasets().len() > 1 {
        console.warn("the legacy format stores the name of only one dataset, the last");
    }
}

/// Says what was written.
pub(crate) fn wrote(console: Console, output: &Path, imatrix: &Imatrix, form: ImatrixForm) {
    let named = if form == ImatrixForm::Legacy { "the legacy format" } else { "GGUF" };
    console.note(format_args!(
        "wrote {}: {named}, {} entries, {} chunks",
        shown(output),
        imatrix.entries().len(),
        imatrix.chunk_count()
    ));
}
