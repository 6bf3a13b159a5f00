//! The installed Rust toolchains, and what they can build for.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Done, command, output, root, target};

/// Settings of every build here, so that a library that was built from source serves all.
/// Dependencies build sooner without optimization than they run with it.
const PROFILE: [&str; 6] = [
    "profile.dev.debug=false",
    "profile.dev.opt-level=1",
    "profile.dev.overflow-checks=true",
    "profile.dev.package.\"*\".debug=false",
    "profile.dev.package.\"*\".opt-level=0",
    "profile.test.opt-level=1",
];

/// Variables that would change a build.
const OVERRIDES: [&str; 5] =
    ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"];

/// A compiler and its Cargo.
#[derive(Clone, Debug)]
pub(super) struct Toolchain {
    rustc: PathBuf,
    cargo: PathBuf,
    sysroot: PathBuf,
    /// The host triple.
    pub(super) host: String,
    /// The targets that it knows.
    triples: Vec<String>,
    /// The minor version.
    minor: u32,
}

/// The first minor version with panics that abort at once.
const IMMEDIATE_ABORT: u32 = 92;

/// A toolchain with a standard library for one target.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    pub(super) toolchain: &'a Toolchain,
    triple: &'a str,
    /// The crates of the library that Cargo builds, unless it is installed.
    from_source: Option<&'a str>,
    built: PathBuf,
}

impl Toolchain {
    /// Returns the toolchain that runs this, then those in the path that are new enough for this
    /// workspace.
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

    /// Returns how this toolchain builds for a target, if it can: with the installed library,
    /// otherwise from source.
    pub(super) fn builder<'a>(&'a self, triple: &'a str, library: &'a str) -> Option<Builder<'a>> {
        let installed = self.libraries().join(triple).join("lib").is_dir();
        if !installed {
            return self.builder_from_source(triple, library);
        }
        Some(Builder { toolchain: self, triple, from_source: None, built: built() })
    }

    /// Returns how this toolchain builds for a target with a library from source.
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

    /// Returns `true` if it can build for size.
    pub(super) fn can_build_for_size(&self) -> bool {
        self.minor >= IMMEDIATE_ABORT
    }

    /// Returns `true` if it has Clippy: that of another toolchain cannot read its libraries.
    pub(super) fn has_clippy(&self) -> bool {
        let driver = format!("clippy-driver{}", env::consts::EXE_SUFFIX);
        self.cargo.parent().is_some_and(|directory| directory.join(driver).is_file())
    }

    fn libraries(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib")
    }

    /// Returns the toolchain's linker for WebAssembly.
    pub(super) fn has_wasm_linker(&self) -> bool {
        self.sysroot.join("lib/rustlib").join(&self.host).join("bin/rust-lld").is_file()
    }
}

impl Builder<'_> {
    /// Returns Cargo for this target, with a target directory per toolchain.
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

    /// Returns Cargo for the smallest program: a library from source, built for size, with panics
    /// without messages, which a WebAssembly module cannot print.
    pub(super) fn cargo_for_size(&self, subcommand: &str) -> Command {
        let mut cargo = self.cargo(subcommand);
        cargo.args(["-Zbuild-std-features=optimize_for_size", "-Zpanic-immediate-abort"]);
        cargo.args(["--config", "profile.release.panic=\"immediate-abort\""]);
        // Relocations have their full length unless the linker compresses them.
        let flags = "-Zunstable-options -Cpanic=immediate-abort -Clink-arg=--compress-relocations";
        cargo.env("RUSTFLAGS", flags);
        cargo
    }

    /// Returns `true` if the library is installed.
    pub(super) fn is_installed(&self) -> bool {
        self.from_source.is_none()
    }

    /// Returns where the library comes from, for a report.
    pub(super) fn shown(&self) -> String {
        let from = if self.from_source.is_some() { "built from its source" } else { "installed" };
        format!("{}, standard library {from}", self.toolchain.rustc.display())
    }
}

/// Returns the target directory of these builds.
fn built() -> PathBuf {
    target().unwrap_or_else(|_| root().join("target")).join("targets")
}

/// Returns the minor version.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

/// Builds a program of one line, to distinguish a broken toolchain from code that does not compile.
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
