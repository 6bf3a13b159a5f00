//! Quantizes a model and tells how far it is: `cargo run -p ggmill --example quantize MODEL OUT
//! TYPE`
#![expect(clippy::print_stderr, reason = "a program")]

use ggmill::{io, pipeline, quantize};
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, out, target] = &arguments[..] else {
        return Err("usage: quantize MODEL OUT TYPE".into());
    };
    let model = pipeline::GgufCheckpoint::open(path)?;
    let plan = quantize::quantize(&model, &quantize::QuantizeOptions::new(target.parse()?))?
        .plan(&model)?;
    let sink = io::FileSink::create(out, io::Overwrite::Refuse)?;
    pipeline::run(&plan, &model, sink, &pipeline::RunOptions::default(), &mut |progress| {
        eprintln!("{} of {} bytes, {}", progress.written, progress.total, progress.tensor);
        ControlFlow::Continue(())
    })?
    .commit()?;
    Ok(())
}
