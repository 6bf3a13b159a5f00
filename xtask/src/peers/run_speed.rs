//! How fast ggmill-run is, beside libllama.

use super::environment;
use crate::process::{Done, cargo, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each side works
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Only these models: 135M or 138M, then F32, F16, Q8_0, Q4_K or Q6_K, such as 138M-Q4_K
    #[arg(long, value_name = "MODEL", num_args = 1..)]
    only: Vec<String>,
}

pub(super) fn execute(args: &Args) -> Done {
    let build = ["build", "--release", "--quiet", "--package=ggmill-run", "--example=speed"];
    run(&mut cargo(&build))?;
    let target = target()?;
    let mut script = environment::script("run_speed.py")?;
    script
        .arg(target.join("release/examples/speed"))
        .arg(target.join("peers/run-speed"))
        .args(["--rounds", &args.rounds.to_string()]);
    if !args.only.is_empty() {
        script.arg("--only").args(&args.only);
    }
    run(&mut script)
}
