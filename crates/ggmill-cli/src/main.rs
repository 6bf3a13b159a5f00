//! The `ggmill` command.
fn main() {}
