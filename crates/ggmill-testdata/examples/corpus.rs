//! Writes the corpus to a directory, one file per case, for other readers or as seeds of a fuzzer.
//!
//! ```text
//! cargo run -p ggmill-testdata --example corpus DIRECTORY
//! ```

use std::path::PathBuf;

use ggmill_core::Limits;

fn main() -> std::io::Result<()> {
    let directory =
        std::env::args_os().nth(1).map_or_else(|| PathBuf::from("corpus"), PathBuf::from);
    std::fs::create_dir_all(&directory)?;
    for case in ggmill_testdata::corpus::all() {
        let expected = match case.is_broken() {
            false => "valid",
            true if case.limits == Limits::default() => "broken",
            // Rejected only under special limits; it opens under the defaults.
            true => "limited",
        };
        std::fs::write(directory.join(format!("{expected}-{}.gguf", case.name)), &case.bytes)?;
    }
    Ok(())
}
