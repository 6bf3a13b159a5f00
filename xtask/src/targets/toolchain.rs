//! Which Rust toolchains there are here, and what they can build for.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Done, command, output, root, target};

/// Settings for everything that is built here, whichever manifest it belongs to: where they are
/// the same, a library that was built from its source once serves all. What is not of this
/// workspace is sooner built without optimization than run with it.
const PROFILE: [&str; 6] = [
    "profile.dev.debug=false",
    "profile.dev.opt-level=1",
    "profile.dev.overflow-checks=true",
    "profile.dev.package.\"*\".debug=false",
    "profile.dev.package.\"*\".opt-level=0",
    "profile.test.opt-level=1",
];

/// Variables that would make a build differ from what is asked for.
const OVERRIDES: [&str; 5] =
    ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"];

/// A compiler with its Cargo.
#[derive(Clone, Debug)]
pub(super) struct Toolchain {
    rustc: PathBuf,
    cargo: PathBuf,
    sysroot: PathBuf,
    /// The machine that it runs on.
    pub(super) host: String,
    /// The targets that it has heard of.
    triples: Vec<String>,
    /// The second number of its version.
    minor: u32,
}

/// The first version, by its second number, with panics that end the program at once as a strategy.
const IMMEDIATE_ABORT: u32 = 92;

/// A toolchain with a way to the standard library for one target.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    pub(super) toolchain: &'a Toolchain,
    triple: &'a str,
    /// The crates of the library that Cargo builds, unless the library is installed.
    from_source: Option<&'a str>,
    built: PathBuf,
}

impl Toolchain {
    /// The toolchain that runs this, then those in the path that are no older than this workspace
    /// asks for.
    pub(super) fn all() -> Vec<Self> {
        let own = env::var_os("CARGO")
            .map(PathBuf::from)
            .and_then(|cargo| Some(cargo.parent()?.to_owned()));
        let path = env::var_os("PATH").unwrap_or_default();
        let mut found: Vec<Self> = Vec::new();
        for directory in own.into_iter().chain(env::split_paths(&path)) {
            if let Some(toolchain) = Self::in_directory(&directory)
                && found.iter().all(|known| known.sysroot != toolchain.sysroot)
            {
                found.push(toolchain);
            }
        }
        found
    }

    fn in_directory(directory: &Path) -> Option<Self> {
        let rustc = directory.join(format!("rustc{}", env::consts::EXE_SUFFIX));
        let cargo = directory.join(format!("cargo{}", env::consts::EXE_SUFFIX));
        if !rustc.is_file() || !cargo.is_file() {
            return None;
        }
        let ask = |arguments: &[&str]| {
            output(command(&rustc).args(arguments).env_remove("RUSTUP_TOOLCHAIN")).ok()
        };
        let about = ask(&["-vV"])?;
        let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name));
        let minor_version = minor(field("release: ")?)?;
        if minor_version < minor(env!("CARGO_PKG_RUST_VERSION"))? {
            return None;
        }
        let host = field("host: ")?.to_owned();
        let sysroot = PathBuf::from(ask(&["--print=sysroot"])?.trim());
        let triples = ask(&["--print=target-list"])?.lines().map(str::to_owned).collect();
        Some(Self { rustc, cargo, sysroot, host, triples, minor: minor_version })
    }

    /// How this toolchain builds for a target, if it can: with the library that is installed, else
    /// from the library's source.
    pub(super) fn builder<'a>(&'a self, triple: &'a str, library: &'a str) -> Option<Builder<'a>> {
        let installed = self.libraries().join(triple).join("lib").is_dir();
        if !installed {
            return self.builder_from_source(triple, library);
        }
        Some(Builder { toolchain: self, triple, from_source: None, built: built() })
    }

    /// The same from the library's source, whatever is installed.
    pub(super) fn builder_from_source<'a>(
        &'a self,
        triple: &'a str,
        library: &'a str,
    ) -> Option<Builder<'a>> {
        let has_source = self.libraries().join("src/rust/library/Cargo.lock").is_file()
            && self.triples.iter().any(|known| known == triple);
        has_source.then(|| Builder {
            toolchain: self,
            triple,
            from_source: Some(library),
            built: built(),
        })
    }

    /// Whether it can build for size.
    pub(super) fn can_build_for_size(&self) -> bool {
        self.minor >= IMMEDIATE_ABORT
    }

    /// Whether clippy comes with it: that of another toolchain reads no library of this one.
    pub(super) fn has_clippy(&self) -> bool {
        let driver = format!("clippy-driver{}", env::consts::EXE_SUFFIX);
        self.cargo.parent().is_some_and(|directory| directory.join(driver).is_file())
    }

    fn libraries(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib")
    }

    /// The linker that comes with the toolchain and links WebAssembly.
    pub(super) fn has_wasm_linker(&self) -> bool {
        self.sysroot.join("lib/rustlib").join(&self.host).join("bin/rust-lld").is_file()
    }
}

impl Builder<'_> {
    /// Cargo for this target, its output apart from that of others.
    pub(super) fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = command(&self.toolchain.cargo);
        for variable in OVERRIDES {
            cargo.env_remove(variable);
        }
        cargo.env("RUSTC", &self.toolchain.rustc).env("CARGO_TARGET_DIR", &self.built);
        cargo.args([subcommand, "--locked", &format!("--target={}", self.triple)]);
        if let Some(crates) = self.from_source {
            cargo.env("RUSTC_BOOTSTRAP", "1").arg(format!("-Zbuild-std={crates}"));
        }
        for setting in PROFILE {
            cargo.args(["--config", setting]);
        }
        cargo
    }

    /// The same for the smallest program: a library built for size, and panics without messages,
    /// which a WebAssembly module has nowhere to write to. Only with the library's source.
    pub(super) fn cargo_for_size(&self, subcommand: &str) -> Command {
        let mut cargo = self.cargo(subcommand);
        cargo.args(["-Zbuild-std-features=optimize_for_size", "-Zpanic-immediate-abort"]);
        cargo.args(["--config", "profile.release.panic=\"immediate-abort\""]);
        // Places that the linker fills in are as long as the longest, unless they are compressed.
        let flags = "-Zunstable-options -Cpanic=immediate-abort -Clink-arg=--compress-relocations";
        cargo.env("RUSTFLAGS", flags);
        cargo
    }

    /// Whether the library is there already.
    pub(super) fn is_installed(&self) -> bool {
        self.from_source.is_none()
    }

    /// Where the library comes from, for people.
    pub(super) fn shown(&self) -> String {
        let from = if self.from_source.is_some() { "built from its source" } else { "installed" };
        format!("{}, standard library {from}", self.toolchain.rustc.display())
    }
}

/// Where what is built goes.
fn built() -> PathBuf {
    target().unwrap_or_else(|_| root().join("target")).join("targets")
}

/// The second number of a version, as the first is always 1.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

/// Builds a program of one line, to tell a toolchain that cannot from code that does not compile.
pub(super) fn probe(cargo: &mut Command) -> Done {
    let manifest = root().join("xtask/targets/probe/Cargo.toml");
    let output = cargo
        .arg("--manifest-path")
        .arg(manifest)
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
