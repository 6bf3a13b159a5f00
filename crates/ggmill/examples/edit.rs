//! Sets a metadata key of a model: `cargo run -p ggmill --example edit MODEL KEY VALUE`
#![expect(clippy::print_stdout, reason = "a program")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, key, value] = &arguments[..] else { return Err("usage: edit MODEL KEY VALUE".into()) };
    let summary = ggmill::edit(path)?.set(key, value)?.apply()?;
    println!("{:?}", summary.method());
    Ok(())
}
