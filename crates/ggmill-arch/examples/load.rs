//! Prints how long the built-in descriptions take to load: one, all of them, and one from its text,
//! which also checks its graph on generated models.
#![expect(clippy::print_stdout, reason = "a program")]

use std::time::Instant;

use ggmill_arch::Architecture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let timed = |name: &str, work: &dyn Fn() -> usize| {
        let started = Instant::now();
        let count = work();
        println!("{name}: {count} in {:.2?}", started.elapsed());
    };
    timed("the first description (qwen3), with the library", &|| {
        usize::from(Architecture::builtin("qwen3").is_some())
    });
    timed("another one (gemma3)", &|| usize::from(Architecture::builtin("gemma3").is_some()));
    timed("all others", &|| Architecture::builtins().count());
    let text = Architecture::builtin_text("qwen3").ok_or("built in")?;
    timed("qwen3 from its text, with the check of its graph", &|| {
        usize::from(Architecture::parse(text).is_ok())
    });
    Ok(())
}
