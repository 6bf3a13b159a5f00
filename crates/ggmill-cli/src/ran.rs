//! Running a model over a few tokens: `ggmill check --run` and `ggmill convert --verify`.

use std::fmt::Write as _;
use std::path::Path;

use ggmill_arch::Catalogue;
use ggmill_check::render;
use ggmill_run::json::probed;
use ggmill_run::{Probe, Recorded};

use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::remote;
use crate::source::open_model;

/// The result of running a model.
pub(crate) struct Ran {
    /// For reports.
    pub(crate) run: render::Run,
    /// The text, or the failure of running the model.
    pub(crate) text: Result<String, Failure>,
}

impl Ran {
    /// Runs the model that a file belongs to, over the tokens of recorded logits if there are some.
    pub(crate) fn of(
        path: &Path,
        recorded: Result<Option<&Recorded>, Failure>,
        catalogue: &Catalogue,
        console: Console,
    ) -> Self {
        match recorded.and_then(|recorded| found(path, recorded, catalogue, console)) {
            Ok(found) => {
                let faults = found.faults();
                let text = Ok(text(path, &found, &faults));
                Self { run: render::Run { document: probed(Ok(&found)), faults }, text }
            }
            Err(failure) => {
                let message = failure.message();
                let document = probed(Err(message));
                Self {
                    run: render::Run { document, faults: vec![message.to_owned()] },
                    text: Err(failure),
                }
            }
        }
    }
}

/// Reads the recorded logits in a file.
pub(crate) fn recorded(path: &Path) -> Result<Recorded, Failure> {
    Ok(ggmill::read_recorded(path, &remote::options(path)?)?)
}

fn found(
    path: &Path,
    recorded: Option<&Recorded>,
    catalogue: &Catalogue,
    console: Console,
) -> Result<Probe, Failure> {
    let (found, notes) = ggmill::probe(&open_model(path)?, recorded, catalogue)?;
    notes.iter().for_each(|note| console.tell(note));
    Ok(found)
}

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
