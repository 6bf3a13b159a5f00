//! Quantizes a model, and prints progress.
#![expect(clippy::print_stderr, reason = "a program")]

fn main() -> Result<(), ggmill::Error> {
    let model = ggmill::Model::open("model.gguf")?;
    let quantize = ggmill::quantize(&model, "Q8_0")?.on_progress(|now| {
        eprintln!("{} of {} bytes, {}", now.done, now.total, now.tensor);
        std::ops::ControlFlow::Continue(())
    });
    quantize.write("small.gguf").map(drop)
}
