//! Programs killed in bulk, and how many of the kills came while they ran.

use crate::process::{Done, cargo, output};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// How many times each of the tests is to kill, about
    #[arg(long, default_value_t = 900)]
    kills: u32,
    /// Fewer kills than this that came in time are a failure
    #[arg(long, default_value_t = 500)]
    least: u32,
}

/// Runs the tests that kill, and adds up what they say.
pub(crate) fn run(args: &Args) -> Done {
    let io = output(
        cargo(&[
            "test",
            "--quiet",
            "--package=ggmill-io",
            "--lib",
            "--",
            "in_place",
            "commit",
            "--nocapture",
        ])
        .env_remove("GGMILL_KILLS"),
    )?;
    let mut real = cargo(&[
        "test",
        "--quiet",
        "--package=ggmill-cli",
        "--test=it",
        "killed",
        "--",
        "--nocapture",
        "--test-threads=1",
    ]);
    let real = output(real.env("GGMILL_KILLS", args.kills.to_string()))?;
    let simulated = told(&io);
    let killed = told(&real);
    println!(
        "{simulated} crashes in the fault-injecting file, {killed} programs killed by SIGKILL \
         while they ran"
    );
    if killed < args.least {
        Err(format!("{killed} kills came in time, expected {} at least", args.least))
    } else {
        Ok(())
    }
}

/// Adds up the numbers of lines such as `kills: 12 edits while running`, printing each.
fn told(text: &str) -> u32 {
    let lines = text.lines().filter_map(|line| line.split_once("kills: ").map(|(_, rest)| rest));
    lines
        .inspect(|line| println!("  {line}"))
        .filter_map(|line| line.split(' ').next()?.parse::<u32>().ok())
        .sum()
}
