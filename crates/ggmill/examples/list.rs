//! Lists the tensors of a model and decodes one: `cargo run -p ggmill --example list MODEL TENSOR`
#![expect(clippy::print_stdout, reason = "a program")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, name] = &arguments[..] else { return Err("usage: list MODEL TENSOR".into()) };
    let model = ggmill::Model::open(path)?;
    for tensor in model.tensors() {
        println!("{:<40} {:<6} {}", tensor.name(), tensor.ggml_type(), tensor.shape());
    }
    println!("{:?}", model.tensor(name)?.to_f32()?);
    Ok(())
}
