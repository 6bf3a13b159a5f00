//! Converts a checkpoint, and prints what the check found.
#![expect(clippy::print_stdout, reason = "a program")]

fn main() -> Result<(), ggmill::Error> {
    let plan = ggmill::convert("checkpoint/")?.to("F16")?.plan("model.gguf")?;
    for found in plan.reports().iter().flat_map(ggmill::check::Report::diagnostics) {
        println!("{} {}: {}", found.severity, found.subject, found.message);
    }
    plan.write().map(drop)
}
