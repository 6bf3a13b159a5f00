//! `ggmill quantize --compare`: size and bits per weight of several types, side by side.

use std::io::Write as _;

use ggmill::{Compared, Model, Quantize};
use ggmill_inspect::text::{self, Candidate};
use ggmill_quantize::Target;
use serde_json::json;

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Plans each type as a dry run does, and prints a table, or JSON (`docs/formats/plan.md`).
pub(super) fn run(
    targets: &[Target],
    builder: Quantize<'_>,
    model: &Model,
    as_json: bool,
    console: Console,
) -> Result<Status, Failure> {
    let names: Vec<&str> = targets.iter().map(|target| target.name()).collect();
    let Compared { candidates, notes, .. } = builder.compare(&names)?;
    if as_json {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &document(&candidates, &notes))?;
        out.flush()?;
    } else {
        let options =
            text::Options::default().with_width(console.width()).with_styled(console.is_styled());
        let mut out = console.text();
        text::write_comparison(&mut out, &candidates, model.core().file_len(), &options)?;
        out.flush()?;
    }
    for (note, of) in notes {
        console.note(format_args!("{}: {note}", of.join(", ")));
    }
    Ok(Status::Fine)
}

fn document(candidates: &[Candidate], notes: &[(String, Vec<&'static str>)]) -> serde_json::Value {
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
