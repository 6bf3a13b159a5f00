//! Gives a model's metadata key another text: `cargo run -p ggmill --example edit MODEL KEY TEXT`
#![expect(clippy::print_stdout, reason = "a program")]

use ggmill::edit::{Edit, Editor};
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, key, text] = &arguments[..] else { return Err("usage: edit MODEL KEY TEXT".into()) };
    let mut editor = Editor::open(path)?;
    let edited = editor.edit(&[Edit::set(key, text)])?;
    let plan = editor.plan(&edited)?;
    let method = editor.apply(plan, &edited, &mut |_| ControlFlow::Continue(()))?;
    println!("{method:?}");
    Ok(())
}
