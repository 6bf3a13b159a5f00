//! How fast ggmill-run is, beside libllama; and with a model that does not fit in memory.

use super::environment;
use crate::process::{Done, cargo, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each side works
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Only these models: 135M or 138M, then F32, F16, Q8_0, Q4_0, Q4_K, Q6_K
    /// or IQ4_XS, such as 138M-Q4_K
    #[arg(long, value_name = "MODEL", num_args = 1..)]
    only: Vec<String>,
    /// Instead: one model with a memory limit of half its file, beside the same without a limit. Has
    /// to be allowed to make a control group
    #[arg(long, conflicts_with = "only")]
    bounded: bool,
}

pub(super) fn execute(args: &Args) -> Done {
    let build = ["build", "--release", "--quiet", "--package=ggmill-run", "--example=speed"];
    run(&mut cargo(&build))?;
    let target = target()?;
    let name = if args.bounded { "run_bounded.py" } else { "run_speed.py" };
    let mut script = environment::script(name)?;
    script
        .arg(target.join("release/examples/speed"))
        .arg(target.join("peers/run-speed"))
        .args(["--rounds", &args.rounds.to_string()]);
    if !args.only.is_empty() {
        script.arg("--only").args(&args.only);
    }
    run(&mut script)
}
