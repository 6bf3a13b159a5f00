//! The least that has to run.

fn main() {
    println!("runs");
}
