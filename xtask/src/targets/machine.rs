//! Linkers and emulators for other Linux machines.

use std::env;
use std::path::{Path, PathBuf};

use crate::process::{command, output, succeeds};

/// A Linux machine of another kind.
#[derive(Debug)]
pub(super) struct Machine {
    /// The name of its GCC: it links.
    pub(super) linker: &'static str,
    /// QEMU in user mode runs its programs.
    pub(super) emulator: &'static str,
    /// The loader of its programs where this machine can run them itself.
    pub(super) loader: Option<&'static str>,
    /// The package of Debian and Ubuntu that has its C library.
    pub(super) libc_package: &'static str,
}

/// Environment variables for Cargo.
pub(super) type Settings = Vec<(String, String)>;

impl Machine {
    /// How Cargo is to link and run programs for this machine, or what is missing for it. What the
    /// environment says already is left as it is.
    pub(super) fn settings(&self, triple: &str, host: &str) -> Result<Settings, String> {
        // Under emulation a program can hang while it makes a backtrace.
        let mut settings = vec![("RUST_BACKTRACE".to_owned(), "0".to_owned())];
        let (linker, runner) = (variable(triple, "LINKER"), variable(triple, "RUNNER"));
        let given = |name: &str| env::var_os(name).is_some();
        if triple == host || given(&linker) && given(&runner) {
            return Ok(settings);
        }
        if in_path(&[self.linker]).is_none() {
            // Any GCC for x86-64 links for 32 bits where the libraries for it are installed.
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

    /// The directory of the machine's libraries: where its compiler finds them.
    fn libraries(&self) -> Option<PathBuf> {
        let libc = output(command(self.linker).arg("-print-file-name=libc.so.6")).ok()?;
        let libc = Path::new(libc.trim());
        // A bare name says that it found none.
        Some(libc.is_absolute().then(|| libc.canonicalize().ok())??.parent()?.to_owned())
    }

    /// The command before a program: the machine's own loader where programs for it run here as
    /// they are, else its emulator.
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

/// The environment variable for one of Cargo's settings for a target.
pub(super) fn variable(triple: &str, setting: &str) -> String {
    format!("CARGO_TARGET_{}_{setting}", triple.to_uppercase().replace('-', "_"))
}

fn links_32_bits() -> bool {
    output(command("cc").args(["-m32", "-print-file-name=libc.so"]))
        .is_ok_and(|libc| Path::new(libc.trim()).is_absolute())
}

/// Where the first of some programs is that is in the path.
pub(super) fn in_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    names.iter().find_map(|name| {
        let name = format!("{name}{}", env::consts::EXE_SUFFIX);
        env::split_paths(&path)
            .map(|directory| directory.join(&name))
            .find(|program| program.is_file())
    })
}
