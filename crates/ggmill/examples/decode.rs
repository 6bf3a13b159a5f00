//! Opens a model, prints a metadata key, and decodes a tensor.
#![expect(clippy::print_stdout, reason = "a program")]

fn main() -> Result<(), ggmill::Error> {
    let model = ggmill::Model::open("model.gguf")?;
    println!("{}", model.metadata().str("general.architecture")?);
    let norm = model.tensor("output_norm.weight")?;
    println!("{} {} {:?}", norm.ggml_type(), norm.shape(), norm.to_f32()?);
    Ok(())
}
