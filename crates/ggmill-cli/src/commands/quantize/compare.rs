//! `ggmill quantize --compare`: size and bits per weight of several types, side by side.

use std::io::Write as _;

use ggmill_inspect::text::{self, Candidate};
use ggmill_pipeline::GgufCheckpoint;
use ggmill_quantize::Target;
use serde_json::json;

use super::{Args, refused};
use crate::console::Console;
use crate::making::type_uses;
use crate::outcome::{Failure, Status};

/// Plans each type as a dry run does, and prints a table, or JSON (`docs/formats/plan.md`).
pub(super) fn run(
    mut args: Args,
    checkpoint: &GgufCheckpoint,
    console: Console,
) -> Result<Status, Failure> {
    let (targets, as_json) = (std::mem::take(&mut args.compare), args.json);
    // A type that a run would refuse has a size nevertheless, and a remark.
    args.dry_run = true;
    let first = targets.first().copied().unwrap_or(Target::copy());
    let mut options = args.options(first, checkpoint, console)?;
    let mut candidates = Vec::with_capacity(targets.len());
    // Each note with the types it is about.
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    for target in targets {
        options.target = target;
        let plan = ggmill_quantize::quantize(checkpoint, &options)
            .and_then(|recipe| recipe.plan(checkpoint))
            .map_err(refused)?;
        let is_refusal = |note: &&String| ggmill_quantize::is_failure(note);
        let refusal = plan.notes().iter().find(is_refusal);
        for note in plan.notes().iter().filter(|note| !is_refusal(note)) {
            match notes.iter_mut().find(|(known, _)| known == note) {
                Some((_, of)) => of.push(target.name()),
                None => notes.push((note.clone(), vec![target.name()])),
            }
        }
        candidates.push(
            Candidate::new(target.name(), plan.layout().total_len(), type_uses(&plan))
                .with_remark(refusal.cloned()),
        );
    }
    if as_json {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &document(&candidates, &notes))?;
        out.flush()?;
    } else {
        let options =
            text::Options::default().with_width(console.width()).with_styled(console.is_styled());
        let mut out = console.text();
        text::write_comparison(&mut out, &candidates, checkpoint.model().file_len(), &options)?;
        out.flush()?;
    }
    for (note, of) in notes {
        console.note(format_args!("{}: {note}", of.join(", ")));
    }
    Ok(Status::Fine)
}

fn document(candidates: &[Candidate], notes: &[(String, Vec<&str>)]) -> serde_json::Value {
    let candidates: Vec<_> = candidates
        .iter()
        .map(|candidate| {
            let types: serde_json::Map<_, _> = candidate
                .types
                .iter()
                .map(|used| (used.ggml_type.to_string(), json!(used)))
                .collect();
            json!({
                "type": candidate.name,
                "file_size": candidate.file_len,
                "bits_per_weight": ggmill_inspect::TypeUse::bits_per_weight(&candidate.types),
                "types": types,
                "refused": candidate.remark,
                "notes": notes
                    .iter()
                    .filter(|(_, of)| of.contains(&&*candidate.name))
                    .map(|(note, _)| note)
                    .collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "schema": "ggmill.compare/1", "candidates": candidates })
}
