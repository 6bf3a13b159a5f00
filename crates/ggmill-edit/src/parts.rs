//! Files that were cut at byte boundaries: `model.gguf.part1of3`, `model.gguf-split-a`.

use std::path::{Path, PathBuf};

use ggmill_core::{Decoder, Header, Limits, Progress as Decoding, RawStr};
use ggmill_io::{Directory, RandomAccess, RangeSink};

use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Progress, Report};

/// Bytes copied per call.
const PIECE: u64 = 64 << 20;

/// Bytes of a header read at a time, and of files compared at a time.
const SMALL_PIECE: usize = 256 << 10;

/// The maximum number of parts of a file.
const MAX_PARTS: u32 = 10_000;

/// The parts of a GGUF file, in order. Together they have a valid header and the bytes of all
/// tensors.
#[derive(Debug)]
pub struct Parts {
    files: Vec<RandomAccess>,
    surplus: u64,
}

/// The components of the name of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PartName {
    prefix: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// `.part2of3`: the number from 1, and the count.
    Of { number: u32, count: u32 },
    /// `.split-b` or `-split-b`: the number from 0, written with this many letters.
    Letters { separator: char, number: u32, letters: usize },
}

impl PartName {
    fn parse(name: &str) -> Option<Self> {
        if let Some((prefix, place)) = name.rsplit_once(".part")
            && let Some((number, count)) = place.split_once("of")
        {
            let parse = |digits: &str| {
                digits
                    .bytes()
                    .all(|digit| digit.is_ascii_digit())
                    .then(|| digits.parse::<u32>().ok())
                    .flatten()
            };
            let (number, count) = (parse(number)?, parse(count)?);
            return (1..=count)
                .contains(&number)
                .then(|| Self { prefix: prefix.to_owned(), place: Place::Of { number, count } });
        }
        let (before, letters) = name.rsplit_once("split-")?;
        let separator = before.chars().next_back().filter(|separator| ".-".contains(*separator))?;
        if !(1..=3).contains(&letters.len())
            || !letters.bytes().all(|letter| letter.is_ascii_lowercase())
        {
            return None;
        }
        let number =
            letters.bytes().fold(0, |number, letter| number * 26 + u32::from(letter - b'a'));
        let place = Place::Letters { separator, number, letters: letters.len() };
        Some(Self { prefix: before.trim_end_matches(separator).to_owned(), place })
    }

    /// Returns the number of the part, from 0.
    fn number(&self) -> u32 {
        match self.place {
            Place::Of { number, .. } => number - 1,
            Place::Letters { number, .. } => number,
        }
    }

    /// Returns the number of parts, if the name has it.
    fn count(&self) -> Option<u32> {
        match self.place {
            Place::Of { count, .. } => Some(count),
            Place::Letters { .. } => None,
        }
    }

    /// Returns the names that part `number` of the same file may have, from 0; none after the last
    /// possible part.
    fn siblings(&self, number: u32) -> Vec<String> {
        let prefix = &self.prefix;
        match self.place {
            Place::Of { count, .. } if number >= count => Vec::new(),
            // Numbers are written plainly, or padded with zeros to the width of the count.
            Place::Of { count, .. } => {
                let width = count.to_string().len();
                vec![
                    format!("{prefix}.part{}of{count}", number + 1),
                    format!("{prefix}.part{:0width$}of{count}", number + 1),
                ]
            }
            Place::Letters { separator, letters, .. } => {
                let mut rest = number;
                let mut name = vec![b'a'; letters];
                for letter in name.iter_mut().rev() {
                    *letter = b'a' + u8::try_from(rest % 26).unwrap_or(0);
                    rest /= 26;
                }
                let name = String::from_utf8_lossy(&name);
                if rest == 0 {
                    vec![format!("{prefix}{separator}split-{name}")]
                } else {
                    Vec::new()
                }
            }
        }
    }
}

impl Parts {
    /// Returns `true` if the path has the name of a part.
    pub fn is_part_name(path: impl AsRef<Path>) -> bool {
        name_of(path.as_ref()).is_some()
    }

    /// Opens parts in any order. For a single part, opens all parts in its directory, whose names
    /// follow from its name.
    ///
    /// Fails if a name is not that of a part, if a part is missing, occurs twice or belongs to another
    /// file, and if the parts together are not a complete GGUF file.
    pub fn open(paths: &[impl AsRef<Path>]) -> Result<Self> {
        let files = match paths {
            [one] => siblings_of(one.as_ref())?,
            several => ordered(several)?,
        };
        let mut parts = Self { files: Vec::with_capacity(files.len()), surplus: 0 };
        for path in &files {
            let file = RandomAccess::open(path)?;
            if parts.files.len() >= ggmill_io::MAX_OPEN_FILES {
                file.close_idle();
            }
            parts.files.push(file);
        }
        let end = parts.read_header()?.data_end();
        parts.surplus = end.map_or(0, |end| parts.total_len().saturating_sub(end));
        Ok(parts)
    }

    /// Returns the parts, in order.
    pub fn files(&self) -> &[RandomAccess] {
        &self.files
    }

    /// Returns the length of all parts together, in bytes.
    pub fn total_len(&self) -> u64 {
        self.files.iter().map(RandomAccess::len).fold(0, u64::saturating_add)
    }

    /// Returns the number of bytes after the end of the model by its header. If there are any, a part
    /// is too long, and unless it is the last part, the parts after it are at wrong offsets.
    pub fn surplus(&self) -> u64 {
        self.surplus
    }

    /// Writes the parts one after the other, without reading their content.
    pub fn join<S>(&self, mut sink: S, progress: &mut Report<'_>) -> Result<S>
    where
        S: RangeSink,
        S::Error: std::error::Error + Send + Sync + 'static,
    {
        let failed = |error| Error::caused(ErrorKind::Io, error);
        let (mut written, total) = (0, self.total_len());
        for file in &self.files {
            let name = file.path().file_name().unwrap_or_default().to_string_lossy();
            let mut offset = 0;
            while offset < file.len() {
                let mut len = PIECE.min(file.len() - offset);
                if !sink.append_range(file, offset, len).map_err(failed)? {
                    len = len.min(SMALL_PIECE as u64);
                    let mut piece = vec![0; usize::try_from(len).unwrap_or(SMALL_PIECE)];
                    file.read_at(offset, &mut piece)?;
                    sink.append(&piece).map_err(failed)?;
                }
                offset += len;
                written += len;
                if progress(Progress::new(&name, written, total)).is_break() {
                    return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
                }
            }
        }
        self.files.iter().try_for_each(RandomAccess::verify)?;
        Ok(sink)
    }

    /// Compares a file with the parts, byte for byte. Fails if it differs.
    pub fn verify(&self, written: &RandomAccess) -> Result<()> {
        let differs = || {
            Error::new(ErrorKind::Io, "the written file differs from its sources")
                .file(written.path())
        };
        if written.len() != self.total_len() {
            return Err(differs());
        }
        let (mut ours, mut theirs) = (vec![0; SMALL_PIECE], vec![0; SMALL_PIECE]);
        let mut start = 0;
        for file in &self.files {
            for offset in (0..file.len()).step_by(SMALL_PIECE) {
                let len =
                    usize::try_from(file.len() - offset).unwrap_or(SMALL_PIECE).min(SMALL_PIECE);
                file.read_at(offset, &mut theirs[..len])?;
                written.read_at(start + offset, &mut ours[..len])?;
                if ours[..len] != theirs[..len] {
                    return Err(differs());
                }
            }
            start += file.len();
        }
        Ok(())
    }

    /// Reads the header, which may span several parts. It is checked against the total length, so a
    /// missing end is found.
    fn read_header(&self) -> Result<Header<'static>> {
        let about = |error| match self.files.first() {
            Some(first) => Error::caused(ErrorKind::Checkpoint, error).file(first.path()),
            None => Error::caused(ErrorKind::Checkpoint, error),
        };
        let mut decoder = Decoder::new(Some(self.total_len()), &Limits::default());
        'parts: for file in &self.files {
            for offset in (0..file.len()).step_by(SMALL_PIECE) {
                let len =
                    usize::try_from(file.len() - offset).unwrap_or(SMALL_PIECE).min(SMALL_PIECE);
                let mut piece = vec![0; len];
                file.read_at(offset, &mut piece)?;
                if decoder.feed(&piece).map_err(about)? == Decoding::Complete {
                    break 'parts;
                }
            }
        }
        decoder.finish().map_err(about)
    }
}

fn name_of(path: &Path) -> Option<PartName> {
    PartName::parse(path.file_name()?.to_str()?)
}

fn not_a_part(path: &Path) -> Error {
    Error::new(ErrorKind::Checkpoint, "expected a name that ends like .part1of3 or .split-a")
        .file(path)
}

fn missing(number: u32, name: &str) -> Error {
    Error::new(
        ErrorKind::Checkpoint,
        format!("part {} is missing: {:?}", number.saturating_add(1), RawStr::from(name)),
    )
}

/// Returns the parts in the directory of this one, in order.
fn siblings_of(path: &Path) -> Result<Vec<PathBuf>> {
    let name = name_of(path).ok_or_else(|| not_a_part(path))?;
    let (directory, _) = Directory::open_either(path)?;
    let mut found = Vec::new();
    for number in 0..MAX_PARTS {
        let siblings = name.siblings(number);
        let Some(sibling) = siblings.iter().find(|sibling| directory.has(sibling)) else {
            // A name with letters does not have the number of parts.
            if let Some(first) =
                siblings.first().filter(|_| name.count().is_some() || number <= name.number())
            {
                return Err(missing(number, first));
            }
            break;
        };
        found.push(path.with_file_name(sibling));
    }
    Ok(found)
}

/// Sorts these parts.
fn ordered(paths: &[impl AsRef<Path>]) -> Result<Vec<PathBuf>> {
    let mut named = Vec::with_capacity(paths.len());
    for path in paths.iter().map(AsRef::as_ref) {
        named.push((name_of(path).ok_or_else(|| not_a_part(path))?, path));
    }
    named.sort_by_key(|(name, _)| name.number());
    let Some((first, _)) = named.first().cloned() else {
        return Err(Error::new(ErrorKind::Misuse, "there are no parts"));
    };
    for (number, (name, path)) in (0u32..).zip(&named) {
        if name.prefix != first.prefix || name.count() != first.count() {
            return Err(Error::new(
                ErrorKind::Checkpoint,
                format!("does not belong to the same file as {:?}", RawStr::from(&*first.prefix)),
            )
            .file(path));
        }
        match name.number() {
            found if found < number => {
                return Err(Error::new(
                    ErrorKind::Checkpoint,
                    format!("part {} occurs twice", found + 1),
                )
                .file(path));
            }
            found if found > number => {
                return Err(missing(
                    number,
                    first.siblings(number).first().map_or("", String::as_str),
                ));
            }
            _ => {}
        }
    }
    let count = u32::try_from(named.len()).unwrap_or(u32::MAX);
    if first.count().is_some_and(|expected| expected > count) {
        return Err(missing(count, first.siblings(count).first().map_or("", String::as_str)));
    }
    Ok(named.into_iter().map(|(_, path)| path.to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_determines_the_names_of_its_siblings() {
        let parse = |name| PartName::parse(name).unwrap();
        assert_eq!(
            parse("a.gguf.part2of12").siblings(0),
            ["a.gguf.part1of12", "a.gguf.part01of12"]
        );
        assert_eq!(parse("a.gguf.part2of12").siblings(12), [""; 0]);
        assert_eq!(parse("a.gguf-split-b").siblings(0), ["a.gguf-split-a"]);
        assert_eq!(parse("a.split-z").siblings(26), [""; 0]);
        assert_eq!(parse("a.split-az").siblings(26), ["a.split-ba"]);
        assert_eq!((parse("a.part007of9").number(), parse("a.part007of9").count()), (6, Some(9)));
        for name in [
            "a.gguf",
            "a.part0of3",
            "a.part4of3",
            "a.partof3",
            "a.part1of",
            "a.split-",
            "a.split-A",
            "asplit-a",
            "a.split-abcd",
            "split-a",
            "a.part1of9999999999",
        ] {
            assert_eq!(PartName::parse(name), None, "{name}");
        }
    }
}
