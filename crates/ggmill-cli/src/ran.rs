//! A few tokens through a model: `ggmill check --run` and `ggmill convert --verify`.

use std::fmt::Write as _;
use std::path::Path;

use ggmill_arch::Catalogue;
use ggmill_check::render;
use ggmill_run::json::probed;
use ggmill_run::{Options, Probe, Recorded, Runner, probe};

use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;
use crate::remote;
use crate::run_model::{failed, found_program};
use crate::source::open_whole;

/// What running a model gave.
pub(crate) struct Ran {
    /// For reports.
    pub(crate) run: render::Run,
    /// For people, or why there is nothing to say.
    pub(crate) text: Result<String, Failure>,
}

impl Ran {
    /// Runs the model that a file belongs to, over the tokens of recorded logits where there are
    /// some.
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

/// The logits in a file.
pub(crate) fn recorded(path: &Path) -> Result<Recorded, Failure> {
    let of_logits = |cause: &dyn std::fmt::Display| {
        let message = format!("{}: expected recorded logits: {cause}", shown(path));
        Failure::new(message).with_hint(Some(
            "recorded logits are a GGUF file with the tensors `tokens` (I32, token IDs) and `logits` \
             (F32, for each of them one number for each token of the vocabulary), as llama-results \
             of llama.cpp writes it; for a model with an encoder also its input, `source` (I32, \
             token IDs) or `source_vectors` (F32)"
                .to_owned(),
        ))
    };
    let file = match remote::open(path, false) {
        Some(opened) => opened?,
        None => ggmill_io::open(path).map_err(|error| match error.format_error() {
            Some(cause) => of_logits(cause),
            None => Failure::new(error),
        })?,
    };
    Recorded::read(&file).map_err(|error| of_logits(&error))
}

fn found(
    path: &Path,
    recorded: Option<&Recorded>,
    catalogue: &Catalogue,
    console: Console,
) -> Result<Probe, Failure> {
    let model = open_whole(path)?;
    let program = found_program(path, &model, catalogue, None, console)?;
    let refused = |error: ggmill_run::Error| failed(path, &error);
    let runner = Runner::new(Options::default()).map_err(refused)?;
    probe(&runner, &program, recorded).map_err(refused)
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
