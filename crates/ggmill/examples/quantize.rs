//! Quantizes a model and prints progress: `cargo run -p ggmill --example quantize MODEL OUT TYPE`
#![expect(clippy::print_stderr, reason = "a program")]

use ggmill::{io, pipeline, quantize};
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, out, to] = &arguments[..] else { return Err("expected MODEL OUT TYPE".into()) };
    let model = pipeline::GgufCheckpoint::open(path)?;
    let options = quantize::QuantizeOptions::new(to.parse()?);
    let plan = quantize::quantize(&model, &options)?.plan(&model)?;
    let sink = io::FileSink::create(out, io::Overwrite::Refuse)?;
    let options = pipeline::RunOptions::default();
    let sink = pipeline::run(&plan, &model, sink, &options, &mut |progress| {
        eprintln!("{} of {} bytes, {}", progress.written, progress.total, progress.tensor);
        ControlFlow::Continue(())
    })?;
    sink.commit()?;
    Ok(())
}
