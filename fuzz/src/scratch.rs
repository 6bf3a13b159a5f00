//! Files for targets whose parsers read files: one directory per thread, in memory if the system
//! has a file system there.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

thread_local! {
    static DIRECTORY: OnceCell<TempDir> = const { OnceCell::new() };
}

/// Writes a file of this name, replacing the previous one. Returns its path.
pub(crate) fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory().join(name);
    std::fs::write(&path, bytes).expect("the scratch directory takes small files");
    path
}

/// Returns the directory that [`scratch`] writes to.
pub(crate) fn directory() -> PathBuf {
    DIRECTORY.with(|directory| directory.get_or_init(make).path().to_owned())
}

fn make() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a scratch directory")
}
