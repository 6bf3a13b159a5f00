//! From the source package of llama-cpp-python: llama.cpp's constants, and the largest vocabulary
//! file (that of gemma-4).

use std::path::PathBuf;

use crate::process::{Done, command, run, target};

use super::environment;

pub(super) const PACKAGE: &str = "llama-cpp-python==0.3.36";
const ARCHIVE: &str = "llama_cpp_python-0.3.36.tar.gz";
const LLAMA_CPP: &str = "llama_cpp_python-0.3.36/vendor/llama.cpp";

/// The largest vocabulary file.
pub(super) fn gemma4() -> Done<PathBuf> {
    member("models/ggml-vocab-gemma-4.gguf")
}

/// A file of llama.cpp's, fetched and unpacked into `target/peers` the first time.
pub(super) fn member(path: &str) -> Done<PathBuf> {
    let directory = target()?.join("peers");
    let member = format!("{LLAMA_CPP}/{path}");
    let file = directory.join(&member);
    if !file.is_file() {
        println!("fetching the source package of {PACKAGE} for {path}");
        let python = environment::python()?;
        let fetch = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-binary=llama-cpp-python",
            PACKAGE,
            "--dest",
        ];
        run(command(&python).args(fetch).arg(&directory))?;
        // The filter keeps an archive from writing anywhere else.
        let unpack = "import sys, tarfile; tarfile.open(sys.argv[1]).extract(sys.argv[2], \
                      sys.argv[3], filter='data')";
        run(command(&python)
            .args(["-c", unpack])
            .arg(directory.join(ARCHIVE))
            .arg(&member)
            .arg(&directory))?;
    }
    Ok(file)
}
