//! The speed and the bytes of the codecs, side by side with the reference's.

use std::path::PathBuf;

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
    /// Count for this machine instead: aarch64, and x86_64 without AVX, under QEMU, wasm32 in
    /// wasmtime (needs the packages ziglang and wasmtime)
    #[arg(long, requires = "llama_cpp", value_parser = ["aarch64", "wasm32", "x86_64"])]
    target: Option<String>,
    /// A source tree of llama.cpp, for another machine: `vendor/llama.cpp` of llama-cpp-python
    /// 0.3.36
    #[arg(long, value_name = "LLAMA_CPP")]
    llama_cpp: Option<PathBuf>,
    /// Arguments of `xtask/peers/quant_count.py`: --type, --work, --isa
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(super) fn run(args: &Args) -> Done {
    script("quant.py", &args.rest)
}

pub(super) fn count(args: &CountArgs) -> Done {
    let (Some(machine), Some(llama_cpp)) = (&args.target, &args.llama_cpp) else {
        return script("quant_count.py", &args.rest);
    };
    run_command(
        environment::script("quant_count_target.py")?
            .arg(machine)
            .arg(llama_cpp)
            .arg(target()?.join("peers/quant_count"))
            .args(&args.rest),
    )
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
