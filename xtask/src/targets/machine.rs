//! Linkers and emulators for other Linux machines.

use std::env;
use std::path::{Path, PathBuf};

use crate::process::{command, output, succeeds};

/// Another Linux machine.
#[derive(Debug)]
pub(super) struct Machine {
    /// Its GCC, which links.
    pub(super) linker: &'static str,
    /// QEMU in user mode runs its programs.
    pub(super) emulator: &'static str,
    /// The loader of its programs, if this machine can run them.
    pub(super) loader: Option<&'static str>,
    /// The package of Debian and Ubuntu with its C library.
    pub(super) libc_package: &'static str,
}

/// Environment variables for Cargo.
pub(super) type Settings = Vec<(String, String)>;

impl Machine {
    /// Returns how Cargo links and runs programs for this machine, or what is missing. Existing
    /// environment variables are kept.
    pub(super) fn settings(&self, triple: &str, host: &str) -> Result<Settings, String> {
        // Under emulation a program can hang while it collects a backtrace.
        let mut settings = vec![("RUST_BACKTRACE".to_owned(), "0".to_owned())];
        let (linker, runner) = (variable(triple, "LINKER"), variable(triple, "RUNNER"));
        let given = |name: &str| env::var_os(name).is_some();
        if triple == host || given(&linker) && given(&runner) {
            return Ok(settings);
        }
        if in_path(&[self.linker]).is_none() {
            // Any GCC for x86-64 links for 32 bits if the libraries are installed.
            if self.loader.is_some() && host.starts_with("x86_64") && links_32_bits() {
                return Ok(settings);
            }
            return Err(format!("no {0} (package {0})", self.linker.trim_end_matches("-gcc")));
        }
        let libraries = self.libraries().ok_or_else(|| {
            format!("no C library for {} (package {})", self.linker, self.libc_package)
        })?;
        if !given(&runner) {
            settings.push((runner, self.runner(&libraries)?));
        }
        if !given(&linker) {
            settings.push((linker, self.linker.to_owned()));
        }
        Ok(settings)
    }

    /// Returns the directory of the machine's libraries, as its compiler names it.
    fn libraries(&self) -> Option<PathBuf> {
        let libc = output(command(self.linker).arg("-print-file-name=libc.so.6")).ok()?;
        let libc = Path::new(libc.trim());
        // GCC prints the bare name if it finds none.
        Some(libc.is_absolute().then(|| libc.canonicalize().ok())??.parent()?.to_owned())
    }

    /// Returns the command that runs a program: the machine's loader if its programs run here,
    /// otherwise its emulator.
    fn runner(&self, libraries: &Path) -> Result<String, String> {
        if let Some(loader) = self.loader.map(|loader| libraries.join(loader))
            && succeeds(command(&loader).arg("--version"))
        {
            return Ok(format!("{} --library-path {}", loader.display(), libraries.display()));
        }
        let static_emulator = format!("{}-static", self.emulator);
        let emulator = in_path(&[self.emulator, &static_emulator])
            .ok_or_else(|| format!("no {} (package qemu-user)", self.emulator))?;
        let root = libraries.parent().unwrap_or(libraries);
        Ok(format!("{} -L {}", emulator.display(), root.display()))
    }
}

/// Returns the environment variable of a Cargo setting for a target.
pub(super) fn variable(triple: &str, setting: &str) -> String {
    format!("CARGO_TARGET_{}_{setting}", triple.to_uppercase().replace('-', "_"))
}

fn links_32_bits() -> bool {
    output(command("cc").args(["-m32", "-print-file-name=libc.so"]))
        .is_ok_and(|libc| Path::new(libc.trim()).is_absolute())
}

/// Returns the path of the first program that is installed.
pub(super) fn in_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    names.iter().find_map(|name| {
        let name = format!("{name}{}", env::consts::EXE_SUFFIX);
        env::split_paths(&path)
            .map(|directory| directory.join(&name))
            .find(|program| program.is_file())
    })
}
