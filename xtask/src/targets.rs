//! Builds and tests for machines that this is not: other instruction sets, 32 bits, the other byte
//! order, WebAssembly, no operating system.
//!
//! Cargo builds the standard library from its source for them, so all it takes is a Rust toolchain
//! with that source (`rust-src`), and for what is run a cross linker and an emulator. Whatever of
//! that is missing is named, and what needs it is passed over.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::process::{Done, command, output, root, run as run_command, target};

#[derive(clap::Args, Debug, Default)]
pub(crate) struct Args {
    /// These alone [default: all]
    #[arg(value_name = "TRIPLE")]
    triples: Vec<String>,
    /// Fail where something to build or run them with is missing
    #[arg(long)]
    all: bool,
}

/// What is done for a target.
struct Target {
    triple: &'static str,
    /// What is run on it, if it is emulated.
    emulated: Option<Emulated>,
    /// What is built for it.
    builds: &'static [&'static str],
    /// What Cargo is told to build of the standard library.
    library: &'static str,
}

/// A Linux machine of another kind.
struct Emulated {
    /// GCC links for it.
    linker: &'static str,
    /// QEMU in user mode runs it.
    emulator: &'static str,
}

/// The crates that do without files and threads.
const PURE: &[&str] =
    &["ggmill-core", "ggmill-quant", "ggmill-arch", "ggmill-check", "ggmill-inspect"];

const TARGETS: [Target; 5] = [
    // NEON.
    linux("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc", "qemu-aarch64"),
    // `usize` of 32 bits.
    linux("i686-unknown-linux-gnu", "i686-linux-gnu-gcc", "qemu-i386"),
    // The most significant byte first.
    linux("s390x-unknown-linux-gnu", "s390x-linux-gnu-gcc", "qemu-s390x"),
    Target { triple: WASM, emulated: None, builds: PURE, library: "-Zbuild-std=std,panic_abort" },
    // No operating system, no standard library.
    Target {
        triple: "x86_64-unknown-none",
        emulated: None,
        builds: &["ggmill-core"],
        library: "-Zbuild-std=core,alloc",
    },
];

const WASM: &str = "wasm32-unknown-unknown";

/// What the emulated machines test: all golden vectors and random blocks. What takes minutes under
/// emulation is left to the machine at hand: every pattern in every shape, compositions by chance,
/// and lists of whole numbers.
const TESTS: [&[&str]; 2] = [
    &["--package=ggmill-core", "--tests"],
    &[
        "--package=ggmill-quant",
        "--tests",
        "--",
        "--skip=quantizing_every_pattern",
        "--skip=sums_that_overflow",
        "--skip=lanes_are_independent",
        "--skip=any_numbers_do",
        "--skip=lists_hold_all_that_is_near",
    ],
];

const fn linux(triple: &'static str, linker: &'static str, emulator: &'static str) -> Target {
    Target {
        triple,
        emulated: Some(Emulated { linker, emulator }),
        builds: &[],
        library: "-Zbuild-std",
    }
}

/// Builds and tests what can be built and tested here. Goes on after a failure.
pub(crate) fn run(args: &Args) -> Done {
    let unknown =
        args.triples.iter().find(|triple| TARGETS.iter().all(|target| target.triple != **triple));
    if let Some(unknown) = unknown {
        return Err(format!(
            "{unknown} is no target here: {}",
            TARGETS.map(|target| target.triple).join(", ")
        ));
    }
    let Some(toolchain) = Toolchain::find() else {
        println!(
            "no Rust toolchain with the source of the standard library (rust-src): nothing is \
             built for other targets"
        );
        return if args.all { Err("no rust-src".to_owned()) } else { Ok(()) };
    };
    let (mut failed, mut missing) = (Vec::new(), Vec::new());
    for target in TARGETS.iter().filter(|target| {
        args.triples.is_empty() || args.triples.iter().any(|triple| triple == target.triple)
    }) {
        let begin = Instant::now();
        match target.run(&toolchain) {
            Ok(lacks) => {
                println!("-- {}: done in {} s", target.triple, begin.elapsed().as_secs());
                missing.extend(
                    lacks.into_iter().map(|lack| format!("{}: {lack} is missing", target.triple)),
                );
            }
            Err(message) => {
                println!("-- {}: FAILED: {message}", target.triple);
                failed.push(target.triple);
            }
        }
    }
    for line in &missing {
        println!("not run on {line}");
    }
    match (failed.is_empty(), missing.is_empty() || !args.all) {
        (true, true) => Ok(()),
        (true, false) => Err(missing.join("; ")),
        (false, _) => Err(format!("failed: {}", failed.join(", "))),
    }
}

impl Target {
    /// Does what can be done, and names the programs that are missing for the rest.
    fn run(&self, toolchain: &Toolchain) -> Done<Option<String>> {
        if !self.builds.is_empty() {
            // What is run below is compiled to its end; the rest is held to the compiler's checks.
            let packages = self.builds.iter().map(|package| format!("--package={package}"));
            run_command(
                toolchain
                    .cargo(self, if self.triple == WASM { "check" } else { "build" })
                    .args(packages),
            )?;
        }
        if let Some(emulated) = &self.emulated {
            return emulated.test(self, toolchain);
        }
        if self.triple == WASM { wasm(self, toolchain) } else { Ok(None) }
    }

    /// The name of one of Cargo's settings for this target, as an environment variable.
    fn variable(&self, setting: &str) -> String {
        format!("CARGO_TARGET_{}_{setting}", self.triple.to_uppercase().replace('-', "_"))
    }
}

impl Emulated {
    fn test(&self, target: &Target, toolchain: &Toolchain) -> Done<Option<String>> {
        if let Some(missing) =
            [self.linker, self.emulator].into_iter().find(|program| in_path(&[program]).is_none())
        {
            return Ok(Some(missing.to_owned()));
        }
        // The emulated machine's libraries lie where its compiler finds them.
        let libc = output(command(self.linker).arg("-print-file-name=libc.so.6"))?;
        let Some(libraries) = Path::new(libc.trim())
            .canonicalize()
            .ok()
            .and_then(|libc| Some(libc.parent()?.parent()?.to_owned()))
        else {
            return Ok(Some(format!("{libc} of {}", self.linker)));
        };
        for tests in TESTS {
            let mut cargo = toolchain.cargo(target, "test");
            cargo.env(target.variable("LINKER"), self.linker).env("RUST_BACKTRACE", "0");
            cargo.env(
                target.variable("RUNNER"),
                format!("{} -L {}", self.emulator, libraries.display()),
            );
            run_command(cargo.args(tests))?;
        }
        Ok(None)
    }
}

/// Every codec with SIMD instructions beside the scalar code, in Node.js.
fn wasm(target: &Target, toolchain: &Toolchain) -> Done<Option<String>> {
    let Some(linker) = wasm_linker(toolchain) else { return Ok(Some("wasm-ld".to_owned())) };
    if in_path(&["node"]).is_none() {
        return Ok(Some("node".to_owned()));
    }
    let mut cargo = toolchain.cargo(target, "run");
    cargo.args(["--release", "--locked", "--manifest-path=xtask/targets/wasm/Cargo.toml"]);
    cargo.env(target.variable("LINKER"), linker).env(
        target.variable("RUNNER"),
        format!("node {}", root().join("xtask/targets/wasm/run.mjs").display()),
    );
    cargo.env("RUSTFLAGS", "-Ctarget-feature=+simd128 -Cpanic=abort");
    run_command(&mut cargo)?;
    Ok(None)
}

/// The linker of LLVM, under whichever name it is installed.
fn wasm_linker(toolchain: &Toolchain) -> Option<PathBuf> {
    let versioned: Vec<String> =
        (15..40).rev().map(|version| format!("wasm-ld-{version}")).collect();
    let mut names = vec!["wasm-ld"];
    names.extend(versioned.iter().map(String::as_str));
    let own = toolchain.sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld/wasm-ld");
    in_path(&names).or_else(|| own.is_file().then_some(own))
}

/// A compiler with the source of its library.
struct Toolchain {
    rustc: PathBuf,
    cargo: PathBuf,
    sysroot: PathBuf,
}

impl Toolchain {
    /// The compiler that runs this, or another one in the path.
    fn find() -> Option<Self> {
        let own = env::var_os("CARGO")
            .map(PathBuf::from)
            .and_then(|cargo| Some(cargo.parent()?.to_owned()));
        let path = env::var_os("PATH").unwrap_or_default();
        own.into_iter().chain(env::split_paths(&path)).find_map(|directory| {
            let (rustc, cargo) = (directory.join("rustc"), directory.join("cargo"));
            if !rustc.is_file() || !cargo.is_file() {
                return None;
            }
            let sysroot =
                output(command(&rustc).args(["--print", "sysroot"]).env_remove("RUSTUP_TOOLCHAIN"))
                    .ok()?;
            let sysroot = PathBuf::from(sysroot.trim());
            sysroot.join("lib/rustlib/src/rust/library/Cargo.lock").is_file().then_some(Self {
                rustc,
                cargo,
                sysroot,
            })
        })
    }

    /// Cargo with this compiler, its output apart from that of others.
    fn cargo(&self, built_for: &Target, subcommand: &str) -> Command {
        let mut cargo = command(&self.cargo);
        for variable in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            cargo.env_remove(variable);
        }
        cargo.env("RUSTC", &self.rustc).env("RUSTC_BOOTSTRAP", "1");
        cargo.env(
            "CARGO_TARGET_DIR",
            target().unwrap_or_else(|_| root().join("target")).join("targets"),
        );
        cargo.args([subcommand, &format!("--target={}", built_for.triple), built_for.library]);
        cargo
    }
}

/// Where the first of some programs is that is in the path.
fn in_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    names.iter().find_map(|name| {
        env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|program| program.is_file())
    })
}
