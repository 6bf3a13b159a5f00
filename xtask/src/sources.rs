//! Rust sources, as the checks of the workspace read them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::Done;

/// Returns the Rust files below a directory, in order, without files of unit tests.
pub(crate) fn sources(directory: &Path) -> Done<Vec<PathBuf>> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut found = Vec::new();
    let mut entries =
        fs::read_dir(directory).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for path in entries.iter().map(fs::DirEntry::path) {
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_name().is_some_and(|name| name != "tests.rs")
        {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the lines of a source that are code, counted from 1.
///
/// This reads line by line and knows no Rust: comments (documentation examples among them) are
/// passed over, and so are unit tests, from `#[cfg(test)]` before a module to the end of a file,
/// and the line behind `#[cfg(test)]` elsewhere. It stops the honest mistake, not someone who means
/// to.
pub(crate) fn code(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut lines = source.lines().enumerate();
    std::iter::from_fn(move || {
        loop {
            let (number, line) = lines.next()?;
            if line.trim() == "#[cfg(test)]" {
                let (_, item) = lines.next()?;
                if item.trim_start().starts_with("mod ") {
                    return None;
                }
            } else if !line.trim_start().starts_with("//") {
                return Some((number + 1, line));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn comments_and_tests_are_no_code() {
        let source = "use a;\n/// b\n#[cfg(test)]\nuse c;\nlet d; // e\n#[cfg(test)]\nmod tests \
                      {\n    f\n}\n";
        assert_eq!(code(source).collect::<Vec<_>>(), [(1, "use a;"), (5, "let d; // e")]);
    }
}
