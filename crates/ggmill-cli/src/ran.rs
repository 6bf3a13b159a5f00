//! What a few tokens through a model gave: `ggmill check --run` and `ggmill convert --verify`.

use std::fmt::Write as _;
use std::path::Path;

use ggmill_run::Probe;

use crate::paths::shown;

/// The outputs of a model, for people.
pub(crate) fn text(path: &Path, found: &Probe, faults: &[String]) -> String {
    let mut out = String::new();
    let (least, greatest) = found.range;
    let _ = writeln!(
        out,
        "{}: {} tokens run, outputs from {least:.3} to {greatest:.3}, root mean square {:.3}",
        shown(path),
        found.tokens,
        found.size
    );
    if let Some(difference) = &found.difference {
        let _ = writeln!(
            out,
            "  recorded logits: NMSE {:.1e}, same most probable token {:.1}%, KL divergence {:.1e}",
            difference.nmse,
            100.0 * difference.same_top,
            difference.divergence
        );
    }
    for fault in faults {
        let _ = writeln!(out, "  not plausible: {fault}");
    }
    out
}
