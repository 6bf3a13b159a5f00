//! The speed and the bytes of the codecs, side by side with the reference's.

use crate::process::{Done, cargo, run as run_command, target};

use super::environment;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Arguments of `xtask/peers/quant.py`: --type, --work, --isa, --all-isas, --rounds
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CountArgs {
    /// Arguments of `xtask/peers/quant_count.py`: --type, --work, --isa
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(super) fn run(args: &Args) -> Done {
    script("quant.py", &args.rest)
}

pub(super) fn count(args: &CountArgs) -> Done {
    script("quant_count.py", &args.rest)
}

fn script(name: &str, rest: &[String]) -> Done {
    run_command(&mut cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package=ggmill-bench",
        "--bin=quant_worker",
    ]))?;
    run_command(environment::script(name)?.arg(target()?.join("release/quant_worker")).args(rest))
}
