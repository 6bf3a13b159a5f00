//! Builds and tests for other machines: other instruction sets, 32 bits, the other byte order,
//! WebAssembly, no operating system.
//!
//! Each needs a standard library (installed by `rustup target add`, or built by Cargo from its
//! source), and what is run needs a linker and an emulator. A target for which something is missing
//! is skipped, and the report says what to install.

mod machine;
mod toolchain;

use std::process::Command;
use std::time::Instant;

use crate::process::{Done, root, run as run_command};
use machine::{Machine, Settings, in_path, variable};
use toolchain::{Builder, Toolchain, probe};

#[derive(clap::Args, Debug, Default)]
pub(crate) struct Args {
    /// These targets only [default: all]
    #[arg(value_name = "TRIPLE")]
    triples: Vec<String>,
    /// Fail if a toolchain or an emulator is missing
    #[arg(long)]
    all: bool,
    /// Skip targets whose standard library is not installed, though it could be built
    #[arg(long)]
    installed: bool,
}

impl Args {
    /// Returns the arguments of the gate: building a standard library takes minutes per target.
    pub(crate) fn of_the_gate() -> Self {
        Self { installed: true, ..Self::default() }
    }
}

/// A target, and what is built and run for it.
struct Target {
    triple: &'static str,
    /// The crates of the standard library to build from source.
    library: &'static str,
    work: Work,
}

enum Work {
    /// Tests to build and run: the arguments of one `cargo test` each.
    Tests(Machine, &'static [&'static [&'static str]]),
    /// Codecs to run in Node.js, after building the crates that need no operating system.
    WebAssembly,
    /// A crate to build.
    Build(&'static str),
}

/// The target for browsers and Node.js.
pub(crate) const WEB: &str = "wasm32-unknown-unknown";

/// The standard library that WebAssembly modules are built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebLibrary {
    /// An installed one.
    Installed,
    /// An installed one, or one built from source.
    Any,
    /// One built from source for size.
    ForSize,
}

/// Returns Cargo for [`WEB`], or what is missing.
pub(crate) fn web_cargo(subcommand: &str, library: WebLibrary) -> Result<Command, String> {
    let mut toolchains = Toolchain::all();
    if subcommand == "clippy" {
        toolchains.retain(Toolchain::has_clippy);
    }
    let target = TARGETS
        .iter()
        .find(|target| target.triple == WEB)
        .ok_or_else(|| format!("{WEB} is not among the targets"))?;
    let for_size = library == WebLibrary::ForSize;
    let builder = if for_size {
        let mut from_source = toolchains
            .iter()
            .filter(|toolchain| toolchain.can_build_for_size())
            .filter_map(|toolchain| toolchain.builder_from_source(WEB, target.library));
        let missing = "no toolchain of version 1.92 or later with the source of the standard library (rust-src)";
        from_source.next().ok_or(missing)?
    } else {
        target.builder(&toolchains, library == WebLibrary::Installed)?
    };
    let mut cargo =
        if for_size { builder.cargo_for_size(subcommand) } else { builder.cargo(subcommand) };
    if !builder.toolchain.has_wasm_linker() {
        let (name, linker) = wasm_linker()?;
        cargo.env(name, linker);
    }
    Ok(cargo)
}

/// The outcome of a target.
enum Outcome {
    Passed,
    /// Something is missing.
    Skipped(String),
    Failed(String),
}

/// The crates that need neither files nor threads.
const PURE: [&str; 6] = [
    "ggmill-core",
    "ggmill-quant",
    "ggmill-arch",
    "ggmill-check",
    "ggmill-inspect",
    "ggmill-tokenizer",
];

const TARGETS: [Target; 5] = [
    // Pointers of 32 bits.
    Target {
        triple: "i686-unknown-linux-gnu",
        library: "std,panic_unwind,test",
        work: Work::Tests(
            Machine {
                linker: "i686-linux-gnu-gcc",
                emulator: "qemu-i386",
                loader: Some("ld-linux.so.2"),
                libc_package: "libc6-dev-i386-cross",
            },
            &[CORE, QUANT],
        ),
    },
    // Big-endian.
    Target {
        triple: "s390x-unknown-linux-gnu",
        library: "std,panic_unwind,test",
        work: Work::Tests(
            Machine {
                linker: "s390x-linux-gnu-gcc",
                emulator: "qemu-s390x",
                loader: None,
                libc_package: "libc6-dev-s390x-cross",
            },
            &[CORE, QUANT],
        ),
    },
    // NEON.
    Target {
        triple: "aarch64-unknown-linux-gnu",
        library: "std,panic_unwind,test",
        work: Work::Tests(
            Machine {
                linker: "aarch64-linux-gnu-gcc",
                emulator: "qemu-aarch64",
                loader: None,
                libc_package: "libc6-dev-arm64-cross",
            },
            &[QUANT],
        ),
    },
    Target { triple: WEB, library: "std,panic_abort", work: Work::WebAssembly },
    // No operating system and no standard library.
    Target {
        triple: "x86_64-unknown-none",
        library: "core,alloc",
        work: Work::Build("ggmill-core"),
    },
];

/// The reader and the writer: every valid and broken file, and fewer cases of properties.
const CORE: &[&str] = &["--package=ggmill-core", "--tests"];

/// The codecs: all golden vectors, and lanes compared with scalar code on random blocks. Tests that
/// take minutes under emulation are skipped: every pattern in every shape, sums that overflow,
/// random compositions, lists of integers.
const QUANT: &[&str] = &[
    "--package=ggmill-quant",
    "--tests",
    "--",
    "--skip=every_pattern_is_quantized_alike",
    "--skip=overflowing_sums_are_quantized_alike",
    "--skip=lanes_are_independent",
    "--skip=arbitrary_numbers_are_quantized_alike",
    "--skip=neighbors_are_complete_and_sorted",
];

/// Cases of a property under emulation.
const CASES: &str = "16";

/// Builds and tests each target that can be built here. Continues after a failure.
pub(crate) fn run(args: &Args) -> Done {
    let unknown =
        args.triples.iter().find(|triple| TARGETS.iter().all(|target| target.triple != **triple));
    if let Some(unknown) = unknown {
        return Err(format!(
            "unknown target {unknown}, expected one of {}",
            TARGETS.map(|target| target.triple).join(", ")
        ));
    }
    let toolchains = Toolchain::all();
    let (mut report, mut failed, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for target in &TARGETS {
        if !args.triples.is_empty() && args.triples.iter().all(|triple| triple != target.triple) {
            continue;
        }
        let begin = Instant::now();
        let outcome = target.run(&toolchains, args.installed);
        let seconds = begin.elapsed().as_secs();
        report.push(match outcome {
            Outcome::Passed => format!("{}: passed in {seconds} s", target.triple),
            Outcome::Skipped(missing) => {
                skipped.push(target.triple);
                format!("{}: SKIPPED: {missing}", target.triple)
            }
            Outcome::Failed(message) => {
                failed.push(target.triple);
                format!("{}: FAILED after {seconds} s: {message}", target.triple)
            }
        });
    }
    for line in report {
        println!("-- {line}");
    }
    if !failed.is_empty() {
        return Err(format!("failed: {}", failed.join(", ")));
    }
    if args.all && !skipped.is_empty() {
        return Err(format!("skipped: {}", skipped.join(", ")));
    }
    Ok(())
}

impl Target {
    /// Returns a toolchain that builds for the target, or what is missing.
    fn builder<'a>(
        &self,
        toolchains: &'a [Toolchain],
        installed: bool,
    ) -> Result<Builder<'a>, String> {
        let mut builders =
            toolchains.iter().filter_map(|toolchain| toolchain.builder(self.triple, self.library));
        builders.find(|builder| builder.is_installed() || !installed).ok_or_else(|| {
            format!(
                "no standard library for {0} (rustup target add {0}, or a toolchain with rust-src)",
                self.triple
            )
        })
    }

    fn run(&self, toolchains: &[Toolchain], installed: bool) -> Outcome {
        let builder = match self.builder(toolchains, installed) {
            Ok(builder) => builder,
            Err(missing) => return Outcome::Skipped(missing),
        };
        let settings = match self.settings(&builder) {
            Ok(settings) => settings,
            Err(missing) => return Outcome::Skipped(missing),
        };
        println!("-- {}: {}", self.triple, builder.shown());
        if let Err(message) = self.probe(&builder, &settings) {
            // The toolchain or the emulator fails, not this repository.
            return Outcome::Skipped(format!(
                "{} builds or runs no program for it:\n{message}",
                builder.shown()
            ));
        }
        match self.work(&builder, &settings) {
            Ok(()) => Outcome::Passed,
            Err(message) => Outcome::Failed(message),
        }
    }

    /// Returns how programs are linked and run, or what is missing.
    fn settings(&self, builder: &Builder<'_>) -> Result<Settings, String> {
        match &self.work {
            Work::Tests(machine, _) => machine.settings(self.triple, &builder.toolchain.host),
            Work::WebAssembly => web_assembly(self.triple, builder.toolchain),
            Work::Build(_) => Ok(Settings::new()),
        }
    }

    /// Returns Cargo, configured to link and run programs.
    fn cargo(&self, builder: &Builder<'_>, settings: &Settings, subcommand: &str) -> Command {
        let mut cargo = builder.cargo(subcommand);
        cargo.envs(settings.iter().map(|(name, value)| (name, value)));
        let settings: &[&str] = match self.work {
            Work::Tests(..) => &["profile.dev.package.sha2.opt-level=1"],
            Work::WebAssembly => {
                &["profile.dev.package.ggmill-quant.opt-level=1", "profile.dev.panic=\"abort\""]
            }
            Work::Build(_) => &[],
        };
        cargo.args(settings.iter().flat_map(|setting| ["--config", setting]));
        cargo
    }

    /// Checks that the toolchain builds a minimal program, and runs it if tests are to run.
    fn probe(&self, builder: &Builder<'_>, settings: &Settings) -> Done {
        match self.work {
            Work::Tests(..) => {
                probe(self.cargo(builder, settings, "run").args(["--profile=test", "--quiet"]))
            }
            Work::WebAssembly | Work::Build(_) => {
                probe(self.cargo(builder, settings, "build").arg("--lib"))
            }
        }
    }

    fn work(&self, builder: &Builder<'_>, settings: &Settings) -> Done {
        match &self.work {
            Work::Tests(_, tests) => tests.iter().try_for_each(|arguments| {
                let mut cargo = self.cargo(builder, settings, "test");
                run_command(cargo.env("PROPTEST_CASES", CASES).args(*arguments))
            }),
            Work::WebAssembly => {
                let packages = PURE.map(|package| format!("--package={package}"));
                run_command(self.cargo(builder, settings, "build").args(packages))?;
                ["", "-Ctarget-feature=+simd128"].into_iter().try_for_each(|flags| {
                    let mut cargo = self.cargo(builder, settings, "run");
                    cargo.arg("--manifest-path=xtask/targets/wasm/Cargo.toml");
                    run_command(cargo.env("RUSTFLAGS", flags))
                })
            }
            Work::Build(package) => run_command(
                self.cargo(builder, settings, "build").arg(format!("--package={package}")),
            ),
        }
    }
}

/// Returns the setting that names LLVM's linker, by the name under which it is installed.
fn wasm_linker() -> Result<(String, String), String> {
    let versioned: Vec<String> =
        (15..40).rev().map(|version| format!("wasm-ld-{version}")).collect();
    let mut names = vec!["wasm-ld"];
    names.extend(versioned.iter().map(String::as_str));
    let linker = in_path(&names).ok_or("no wasm-ld (package lld)")?;
    Ok((variable(WEB, "LINKER"), linker.display().to_string()))
}

/// Returns how WebAssembly is linked, and run in Node.js.
fn web_assembly(triple: &str, toolchain: &Toolchain) -> Result<Settings, String> {
    let mut settings = Settings::new();
    if !toolchain.has_wasm_linker() {
        settings.push(wasm_linker()?);
    }
    let node = in_path(&["node"]).ok_or("no node (package nodejs)")?;
    let script = root().join("xtask/targets/wasm/run.mjs");
    settings.push((variable(triple, "RUNNER"), format!("{} {}", node.display(), script.display())));
    Ok(settings)
}
