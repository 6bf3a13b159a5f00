//! Measures the memory and the time of templates that exceed the limits: those of
//! `tests/bombs.txt`, each rendered with the default limits in a separate process (Linux).
//!
//! `cargo run --release -p ggmill-template --no-default-features --example bombs`

#![expect(clippy::print_stdout, reason = "a program")]

use std::env;
use std::error::Error;
use std::fs;
use std::process::Command;
use std::time::Instant;

use ggmill_template::{Conversation, RenderOptions, Template};

fn main() -> Result<(), Box<dyn Error>> {
    let bombs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bombs.txt");
    let bombs = fs::read_to_string(bombs)?;
    let bombs: Vec<&str> = bombs.lines().filter(|line| !line.starts_with("# ")).collect();
    if let Some(number) = env::args().nth(1) {
        let text = bombs.get(number.parse::<usize>()?).ok_or("no such template")?;
        println!("{}", rendered(text)?);
        return Ok(());
    }
    let mut most = (0, 0);
    for (number, text) in bombs.iter().enumerate() {
        let out = Command::new(env::current_exe()?).arg(number.to_string()).output()?;
        let line = String::from_utf8(out.stdout)?;
        let mut words = line.trim_end().splitn(3, '\t');
        let mut next = || words.next().ok_or_else(|| format!("template {number} ends the process"));
        let (milliseconds, kib): (u64, u64) = (next()?.parse()?, next()?.parse()?);
        let head: String = text.chars().take(60).collect();
        println!("{milliseconds:>6} ms {kib:>8} KiB  {}: {head}", next()?);
        most = (most.0.max(milliseconds), most.1.max(kib));
    }
    println!("{} templates, at most {} ms and {} KiB", bombs.len(), most.0, most.1);
    Ok(())
}

/// Returns the milliseconds, the peak memory of the process in KiB, and the error of the template.
fn rendered(text: &str) -> Result<String, Box<dyn Error>> {
    let options = RenderOptions::new().with_token("bos_token", "<s>");
    let conversation = Conversation::of([("user", "Hello")]);
    let begun = Instant::now();
    let refused = Template::parse(text)
        .and_then(|template| template.render(&conversation, &options))
        .err()
        .ok_or("a template was not refused")?;
    let milliseconds = begun.elapsed().as_millis();
    let status = fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kib = most.trim().trim_end_matches("kB").trim();
    Ok(format!("{milliseconds}\t{kib}\t{:?}", refused.kind()))
}
