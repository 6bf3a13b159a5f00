//! Reads descriptions of architectures from files.

use std::path::Path;

use ggmill_arch::{Architecture, DescriptionFiles};
use ggmill_io::{Directory, RandomAccess};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// Reads the descriptions of architectures at these paths, in order: TOML files, and directories of
/// them in the layout of [`DescriptionFiles`]. [`Catalogue::with`](ggmill_arch::Catalogue::with)
/// documents how they are combined with the built-in ones.
///
/// Fails with the path of a file that cannot be read, is too long, is not UTF-8, or is wrong.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("mine.toml");
/// # std::fs::write(&path, "schema = \"ggmill.architecture/1\"\nname = \"mine\"\ntitle = \"Mine\"")?;
/// let found = ggmill_convert::read_descriptions(&[&path])?;
/// assert_eq!(found[0].name(), "mine");
/// assert_eq!(ggmill_convert::read_descriptions(&[directory.path()])?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_descriptions(paths: &[impl AsRef<Path>]) -> Result<Vec<Architecture>> {
    let mut found = Vec::new();
    for path in paths {
        let path = path.as_ref();
        if path.is_dir() {
            found.extend(of_directory(path)?);
            continue;
        }
        let toml = text(&RandomAccess::open(path)?)?;
        // The source of its computation graphs may be in a separate file.
        let source = path.with_extension("py");
        let parsed = if path.extension().is_some_and(|ending| ending == "toml") && source.is_file()
        {
            Architecture::parse_with_source(&toml, &text(&RandomAccess::open(&source)?)?)
        } else {
            Architecture::parse(&toml)
        };
        found.push(parsed.map_err(|error| wrong(path, error))?);
    }
    Ok(found)
}

fn of_directory(path: &Path) -> Result<Vec<Architecture>> {
    let whole = Directory::open(path)?;
    let mut files = DescriptionFiles::new();
    for part in DescriptionFiles::DIRECTORIES {
        let inner = if part.is_empty() { Some(whole.clone()) } else { whole.subdirectory(part)? };
        let Some(inner) = inner else { continue };
        for name in inner.files()? {
            let place = if part.is_empty() { name.clone() } else { format!("{part}/{name}") };
            if DescriptionFiles::takes(&place) {
                files.add(place, text(&inner.file(&name)?)?);
            }
        }
    }
    files.parse().map_err(|(place, error)| wrong(&path.join(place), error))
}

/// Reads a text file, without the byte order mark that some editors write.
fn text(file: &RandomAccess) -> Result<String> {
    let bytes = file.read_whole(Architecture::MAX_LEN as u64)?;
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let message = format!("not valid UTF-8 from byte {valid}");
        Error::new(ErrorKind::Architecture, message).file(file.path())
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

fn wrong(path: &Path, error: ggmill_arch::Error) -> Error {
    Error::caused(ErrorKind::Architecture, error).file(path)
}
