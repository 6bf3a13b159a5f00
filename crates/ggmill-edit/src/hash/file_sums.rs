//! SHA-256 hashes of whole files, as in the output of `sha256sum` and on model hubs.

use ggmill_core::ReadAt;
use ggmill_pipeline::{Error, ErrorKind, Progress, Report, Result};

use super::manifest::{Conclusion, HashLine, HashSubject, Verdict};
use super::{Digest, HashKind};

/// Bytes read and hashed at a time.
const PIECE: usize = 4 << 20;

/// The number of hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

/// Computes the SHA-256 of a whole file, including header and padding.
///
/// `progress` receives the number of bytes read and can stop the operation with
/// [`ControlFlow::Break`](std::ops::ControlFlow::Break). Fails if reading
/// fails or the file changes meanwhile.
///
/// ```
/// use std::ops::ControlFlow;
/// let found = ggmill_edit::hash::file_sha256(&b"abc".to_vec(), &mut |_| ControlFlow::Continue(()))?;
/// assert!(found.to_string().starts_with("ba7816bf8f01cfea414140de5dae2223"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn file_sha256(file: &dyn ReadAt, progress: &mut Report<'_>) -> Result<Digest> {
    let mut state = HashKind::Sha256.start();
    let (len, mut done) = (file.len(), 0);
    let mut buffer = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE))];
    while done < len {
        let count = buffer.len().min(usize::try_from(len - done).unwrap_or(PIECE));
        let piece = &mut buffer[..count];
        file.read_at(done, piece)?;
        state.update(piece);
        done += count as u64;
        if progress(Progress::new("", done, len)).is_break() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
    }
    file.verify()?;
    Ok(state.finish())
}

/// A list of hashes of whole files in one of the forms of `sha256sum`: `HEX  NAME`, with a space or
/// `*` before the name, or `SHA256 (NAME) = HEX`; or the output of certutil or `Get-FileHash` on Windows.
///
/// ```
/// use ggmill_edit::hash::{Conclusion, FileSums};
/// let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/// let sums = FileSums::parse(&format!("{digest}  models/abc.gguf\nnot a sum\n"));
/// let (_, conclusion) = sums.verify("abc.gguf", digest);
/// assert_eq!(conclusion, Conclusion::Success);
/// assert_eq!(sums.only_file(), Some("models/abc.gguf"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileSums {
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    digest: String,
    name: String,
}

impl FileSums {
    /// Parses the lines with hashes, and ignores others.
    pub fn parse(text: &str) -> Self {
        let mut lines = Vec::new();
        // The name that certutil prints in the line before a hash, and the hash that Get-FileHash lists in the
        // line before a path.
        let (mut announced, mut listed) = (None, None);
        for line in text.lines() {
            let name = announced.take();
            lines.extend(Line::parse(line).or_else(|| Line::of_table(line)).or_else(|| {
                let digest = line.split_whitespace().collect::<String>();
                is_digest(&digest).then(|| name.map(|name| Line { digest, name })).flatten()
            }));
            announced = line.strip_prefix("SHA256 hash of ").map(|rest| {
                let name = rest.trim_end().trim_end_matches(':');
                name.strip_prefix("file ").unwrap_or(name).to_owned()
            });
            let field = |name: &str| {
                let rest = line.strip_prefix(name)?.trim_start().strip_prefix(':')?;
                Some(rest.trim().to_owned())
            };
            if let Some(digest) = field("Hash").filter(|digest| is_digest(digest)) {
                listed = Some(digest);
            } else if let Some(name) = field("Path").filter(|name| !name.is_empty()) {
                lines.extend(listed.take().map(|digest| Line { digest, name }));
            }
        }
        Self { lines }
    }

    /// Returns the list with one hash; `None` if it is not a SHA-256 in hexadecimal.
    pub fn expecting(digest: &str, name: &str) -> Option<Self> {
        let line = Line { digest: digest.to_owned(), name: name.to_owned() };
        is_digest(digest).then(|| Self { lines: vec![line] })
    }

    /// Returns `true` if there is no line with a hash.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the name of the file, if all lines are about the same.
    pub fn only_file(&self) -> Option<&str> {
        let (first, rest) = self.lines.split_first()?;
        rest.iter().all(|line| line.name == first.name).then_some(&*first.name)
    }

    /// Verifies the SHA-256 of the file with this name against the lines about it: those with this
    /// name or, if there are none, those with the same file name in any directory. Contradictory lines
    /// are a mismatch.
    pub fn verify(&self, name: &str, digest: &str) -> (HashLine<'static>, Conclusion) {
        let last = |name: &str| name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        let exact: Vec<&Line> = self.lines.iter().filter(|line| line.name == name).collect();
        let about: Vec<&Line> = if exact.is_empty() {
            self.lines.iter().filter(|line| last(&line.name) == last(name)).collect()
        } else {
            exact
        };
        let holds = about.iter().all(|line| line.digest.eq_ignore_ascii_case(digest));
        let (verdict, conclusion) = match (about.is_empty(), holds) {
            (true, _) => (Verdict::NotFound, Conclusion::MissingEntry),
            (false, true) => (Verdict::Ok, Conclusion::Success),
            (false, false) => (Verdict::Mismatch, Conclusion::Failure),
        };
        let line = HashLine {
            kind: HashKind::Sha256,
            digest: digest.to_owned(),
            subject: HashSubject::File,
            verdict: Some(verdict),
        };
        (line, conclusion)
    }
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim_end_matches('\r');
        let (digest, name) = if let Some(rest) = line.strip_prefix("SHA256 (") {
            let (name, digest) = rest.rsplit_once(") = ")?;
            (digest, name.to_owned())
        } else {
            // A backslash before the digest means that the name is escaped.
            let (line, is_escaped) =
                line.strip_prefix('\\').map_or((line, false), |rest| (rest, true));
            let (digest, rest) = line.split_once(' ')?;
            let name = rest.strip_prefix([' ', '*'])?;
            let name = if is_escaped { unescaped(name) } else { name.to_owned() };
            (digest, name)
        };
        (is_digest(digest) && !name.is_empty()).then(|| Self { digest: digest.to_owned(), name })
    }

    /// Parses a row of the table of `Get-FileHash`: `SHA256  HEX  PATH`.
    fn of_table(line: &str) -> Option<Self> {
        let (digest, name) = line.strip_prefix("SHA256 ")?.trim_start().split_once(' ')?;
        let name = name.trim();
        (is_digest(digest) && !name.is_empty())
            .then(|| Self { digest: digest.to_owned(), name: name.to_owned() })
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Replaces the escapes `\n`, `\r` and `\\` in a name.
fn unescaped(name: &str) -> String {
    let mut characters = name.chars();
    let mut plain = String::with_capacity(name.len());
    while let Some(character) = characters.next() {
        let mut rest = characters.clone();
        let meant = match (character, rest.next()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('\\')) => '\\',
            _ => {
                plain.push(character);
                continue;
            }
        };
        plain.push(meant);
        characters = rest;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_from_left_to_right() {
        let name = unescaped(r"a\\nb\nc\\d\e");
        assert_eq!(name, "a\\nb\nc\\d\\e");
    }

    #[test]
    fn lines_in_every_form() {
        let digest = "ab".repeat(32);
        let text = format!(
            "{digest}  a.gguf\r\n{digest} *dir/b.gguf\nSHA256 (c) d.gguf) = {digest}\n\
             \\{digest}  e\\\\f.gguf\n{digest} g.gguf\n{}  h.gguf\nsha256 {digest}  i.gguf\n",
            &digest[1..]
        );
        let names: Vec<_> =
            FileSums::parse(&text).lines.into_iter().map(|line| line.name).collect();
        assert_eq!(names, ["a.gguf", "dir/b.gguf", "c) d.gguf", "e\\f.gguf"]);
    }

    #[test]
    fn an_exact_name_is_preferred_to_the_same_file_name() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let sums = FileSums::parse(&format!("{one}  old/a.gguf\n{two}  new/a.gguf\n"));
        let conclusion = |name: &str| sums.verify(name, &two).1;
        assert_eq!(conclusion("new/a.gguf"), Conclusion::Success);
        assert_eq!(conclusion("old/a.gguf"), Conclusion::Failure);
        assert_eq!(conclusion("a.gguf"), Conclusion::Failure);
        assert_eq!(conclusion("b.gguf"), Conclusion::MissingEntry);
    }
}
