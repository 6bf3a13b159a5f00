//! The Python package: builds it in a virtual environment, installs it, tests it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{
    Done, built_by_tests, cargo, command, output, root, run as run_command, succeeds, target,
};

/// Packages that build and test the package.
const TOOLS: [&str; 5] = ["maturin>=1.14,<2", "numpy>=1.24", "pytest>=8", "mypy>=1.14", "pyright"];
/// The environment variable that names the interpreter to use.
const PYTHON: &str = "GGMILL_PYTHON";
/// The interpreters to try, in order.
const NAMES: [&str; 7] =
    ["python3", "python", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];
/// The package's directory.
const PACKAGE: &str = "crates/ggmill-python";

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Build the optimized wheel for publication, and skip the tests
    #[arg(long)]
    release: bool,
    /// Skip the type checkers
    #[arg(long)]
    no_types: bool,
    /// Use the command and the corpus that `cargo test --workspace` built, as the gate does
    #[arg(long, conflicts_with = "release")]
    of_tests: bool,
    /// Test the same wheel with this interpreter too
    #[arg(long, value_name = "PYTHON")]
    also: Vec<PathBuf>,
    /// Arguments for pytest, after --
    #[arg(last = true)]
    pytest: Vec<String>,
}

/// The virtual environment.
struct Environment {
    python: PathBuf,
}

impl Environment {
    /// Returns the environment, created the first time. Returns `None` and says why if there is no
    /// Python or its packages cannot be installed.
    fn open() -> Done<Option<Self>> {
        let Some(base) = interpreter() else {
            println!("skipped: no Python of version 3.10 or later with venv and pip");
            return Ok(None);
        };
        let directory = target()?.join("python/venv");
        let imports = "import maturin, numpy, pytest, mypy, pyright";
        let environment = Self::create(&base, &directory, &TOOLS, imports)?;
        if environment.is_none() {
            println!("skipped: pip cannot install what builds and tests the package");
        }
        Ok(environment)
    }

    /// Returns an environment with these packages, created the first time, or `None` if they cannot
    /// be installed.
    fn create(
        base: &Path,
        directory: &Path,
        packages: &[&str],
        imports: &str,
    ) -> Done<Option<Self>> {
        let python =
            directory.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let this = Self { python };
        if succeeds(this.command().args(["-c", imports])) {
            return Ok(Some(this));
        }
        println!("creating {} with {}", directory.display(), packages.join(", "));
        run_command(command(base).args(["-m", "venv"]).arg(directory))?;
        let installs = run_command(this.pip().args(packages)).is_ok();
        Ok(installs.then_some(this))
    }

    fn pip(&self) -> std::process::Command {
        let mut command = self.command();
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        command
    }

    fn command(&self) -> std::process::Command {
        command(&self.python)
    }

    /// Returns a command that runs a Python module in the package's directory.
    fn module(&self, name: &str) -> std::process::Command {
        let mut command = self.command();
        command.current_dir(root().join(PACKAGE)).args(["-m", name]);
        command
    }
}

/// Returns an interpreter that can create the environment.
fn interpreter() -> Option<PathBuf> {
    let is_usable = |python: &PathBuf| {
        let test = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
        succeeds(command(python).args(["-c", test]))
    };
    let chosen = env::var_os(PYTHON).map(PathBuf::from);
    chosen.into_iter().chain(NAMES.map(PathBuf::from)).find(is_usable)
}

/// Builds and tests the package. Fails if a tool is missing.
pub(crate) fn run(args: &Args) -> Done {
    match Environment::open()? {
        Some(environment) => environment.build_and_test(args),
        None => Err("the Python package was not built".to_owned()),
    }
}

/// The step of the gate: builds and tests, or reports what is missing.
pub(crate) fn gate() -> Done {
    let args = Args {
        release: false,
        no_types: false,
        of_tests: true,
        also: Vec::new(),
        pytest: Vec::new(),
    };
    match Environment::open()? {
        Some(environment) => environment.build_and_test(&args),
        None => Ok(()),
    }
}

impl Environment {
    /// Builds the wheel, with the command in it, and installs it.
    fn install(&self, release: bool) -> Done<PathBuf> {
        copy_command(release)?;
        let wheel = self.build(release)?;
        println!("built {}", wheel.display());
        self.install_wheel(&wheel)?;
        Ok(wheel)
    }

    fn install_wheel(&self, wheel: &Path) -> Done {
        run_command(self.pip().args(["--force-reinstall", "--no-deps"]).arg(wheel))
    }

    fn build_and_test(&self, args: &Args) -> Done {
        if args.of_tests {
            built_by_tests("ggmill", &[])?;
        } else {
            build_command(args.release)?;
        }
        let wheel = self.install(args.release)?;
        if args.release {
            return Ok(());
        }
        self.lints()?;
        if !args.of_tests {
            let example = ["build", "--quiet", "-p", "ggmill-testdata", "--example", "corpus"];
            run_command(&mut cargo(&example))?;
        }
        let corpus = target()?.join("python/corpus");
        let example = format!("debug/examples/corpus{}", env::consts::EXE_SUFFIX);
        run_command(command(target()?.join(example)).arg(&corpus))?;
        if !args.no_types {
            run_command(&mut self.module("mypy"))?;
            self.pyright()?;
        }
        self.test(&corpus, &args.pytest)?;
        for base in &args.also {
            let name = base.display().to_string().replace(|c: char| !c.is_alphanumeric(), "-");
            let directory = target()?.join("python").join(format!("also-{name}"));
            let packages = ["numpy>=1.24", "pytest>=8"];
            let other = Self::create(base, &directory, &packages, "import numpy, pytest")?
                .ok_or_else(|| format!("{}: pip cannot install", base.display()))?;
            other.install_wheel(&wheel)?;
            run_command(other.command().arg("--version"))?;
            other.test(&corpus, &args.pytest)?;
        }
        Ok(())
    }

    fn test(&self, corpus: &Path, pytest: &[String]) -> Done {
        run_command(
            self.module("pytest")
                .args(pytest)
                .env("GGMILL_CORPUS", corpus)
                .env("PYTHONDONTWRITEBYTECODE", "1"),
        )
    }

    /// Runs Clippy over the extension, which needs a Python.
    fn lints(&self) -> Done {
        let manifest = format!("--manifest-path={PACKAGE}/Cargo.toml");
        run_command(
            cargo(&["clippy", &manifest, "--locked", "--", "-Dwarnings"])
                .env("PYO3_PYTHON", &self.python)
                .env("CARGO_TARGET_DIR", target()?),
        )
    }

    /// Builds the wheel and returns its path.
    fn build(&self, release: bool) -> Done<PathBuf> {
        let wheels = target()?.join("python/wheels");
        if wheels.exists() {
            fs::remove_dir_all(&wheels)
                .map_err(|error| format!("{}: {error}", wheels.display()))?;
        }
        let profile = if release { "release" } else { "dev" };
        run_command(
            self.module("maturin")
                .args(["build", "--locked", "--quiet", "--profile", profile, "--interpreter"])
                .arg(&self.python)
                .arg("--out")
                .arg(&wheels)
                // The target directory of the workspace, where most dependencies are already built.
                .env("CARGO_TARGET_DIR", target()?),
        )?;
        wheel_in(&wheels)
    }

    /// Runs pyright, a program of Node.js that its package downloads.
    fn pyright(&self) -> Done {
        if !succeeds(self.module("pyright").arg("--version")) {
            println!("skipped: pyright does not start here");
            return Ok(());
        }
        let found = output(self.module("pyright").arg("--pythonpath").arg(&self.python));
        found.map(|text| print!("{text}"))
    }
}

/// Builds the command.
fn build_command(release: bool) -> Done {
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    run_command(cargo(&["build", "--locked", "-p", "ggmill-cli"]).args(profile))
}

/// Copies the command to the directory whose files maturin adds to the wheel as scripts.
fn copy_command(release: bool) -> Done {
    let built = target()?.join(if release { "release" } else { "debug" });
    let name = format!("ggmill{}", env::consts::EXE_SUFFIX);
    let scripts = root().join(PACKAGE).join("ggmill.data/scripts");
    fs::create_dir_all(&scripts)
        .and_then(|()| fs::copy(built.join(&name), scripts.join(&name)))
        .map(drop)
        .map_err(|error| format!("{}: {error}", scripts.display()))
}

fn wheel_in(directory: &Path) -> Done<PathBuf> {
    let failed = |error| format!("{}: {error}", directory.display());
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| format!("{}: maturin left no wheel there", directory.display()))
}
