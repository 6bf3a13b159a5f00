//! Output that cannot control the terminal or the log that shows it.
//!
//! Names and texts of files are escaped where they are formatted. This is the second barrier, for all
//! text that the command prints: whatever a message contains, no escape sequence except a style, no
//! control character, no character that reorders text, and no command to the runner of a workflow
//! (`::error::` at the beginning of a line, `##[error]`, `##vso[…]` or `##teamcity[…]` anywhere) leaves the
//! process. Documents (JSON, manifests) and values
//! that are printed unchanged on request (`get`, `detokenize`, `template`) do not pass through it.

use std::fmt::Write as _;
use std::io::{self, Write};

use ggmill_core::RawStr;

/// Escapes text that is written to `inner`.
#[derive(Debug)]
pub(crate) struct Guard<W: Write> {
    inner: W,
    /// The beginning of a character or of a style, of which the rest was not written yet.
    pending: Vec<u8>,
    /// The characters that can begin a command.
    begun: Begun,
}

/// The last characters of a line, without styles, as far as they can begin a command to a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// Nothing but white space since the beginning of the line.
    Line,
    /// `:` at the beginning of a line, which `::error::` begins with.
    Colon,
    /// `#` anywhere.
    Hash,
    /// `##` and letters anywhere, which `##[error]` and `##vso[task.complete]` begin with.
    Hashes,
    Nothing,
}

/// The longest style in bytes, with 24-bit colors of text and background.
const MAX_STYLE: usize = 48;

impl<W: Write> Guard<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, pending: Vec::new(), begun: Begun::Line }
    }

    fn pass(&mut self, bytes: &[u8], is_end: bool) -> io::Result<()> {
        let mut all = std::mem::take(&mut self.pending);
        all.extend_from_slice(bytes);
        let mut out = String::with_capacity(all.len());
        let mut rest = &*all;
        while !rest.is_empty() {
            let length = match style(rest) {
                Some(Style::Whole(length)) => {
                    out.push_str(&String::from_utf8_lossy(rest.get(..length).unwrap_or_default()));
                    length
                }
                Some(Style::Cut) if !is_end => break,
                _ => match character(rest) {
                    Ok(c) => {
                        self.put(c, &mut out);
                        c.len_utf8()
                    }
                    Err(Invalid::Cut) if !is_end => break,
                    Err(_) => {
                        let _ = write!(out, "\\x{:02x}", rest.first().copied().unwrap_or_default());
                        self.begun = Begun::Nothing;
                        1
                    }
                },
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        self.pending = rest.to_vec();
        self.inner.write_all(out.as_bytes())
    }

    fn put(&mut self, c: char, out: &mut String) {
        use Begun::{Colon, Hash, Hashes, Line, Nothing};
        let is_hidden = !matches!(c, '\n' | '\t') && !RawStr::is_plain(c);
        let (begun, is_escaped) = match (self.begun, c) {
            (_, '\n') => (Line, false),
            // Runners skip all white space of Unicode.
            (Line, c) if c.is_whitespace() => (Line, is_hidden),
            (Line, ':') => (Colon, false),
            (Colon, ':') | (Hashes, '[') => (Nothing, true),
            (Hash | Hashes, '#') => (Hashes, false),
            (_, '#') => (Hash, false),
            (Hashes, c) if c.is_ascii_alphanumeric() => (Hashes, false),
            _ => (Nothing, is_hidden),
        };
        self.begun = begun;
        if is_escaped {
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
}

/// A style at the beginning of some bytes.
enum Style {
    Whole(usize),
    Cut,
}

fn style(bytes: &[u8]) -> Option<Style> {
    let [0x1b, rest @ ..] = bytes else { return None };
    match rest {
        [] => return Some(Style::Cut),
        [b'[', ..] => {}
        _ => return None,
    }
    let end = bytes.iter().skip(2).position(|byte| !matches!(byte, b'0'..=b'9' | b';'));
    match end.map(|end| end.saturating_add(2)) {
        None if bytes.len() < MAX_STYLE => Some(Style::Cut),
        Some(end) if bytes.get(end) == Some(&b'm') => Some(Style::Whole(end.saturating_add(1))),
        _ => None,
    }
}

enum Invalid {
    /// The bytes are the beginning of a character.
    Cut,
    Never,
}

/// Returns the first character of some bytes.
fn character(bytes: &[u8]) -> Result<char, Invalid> {
    let head = bytes.get(..bytes.len().min(4)).unwrap_or_default();
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(head.get(..error.valid_up_to()).unwrap_or_default())
                .unwrap_or_default()
        }
        Err(error) => {
            let is_cut = error.error_len().is_none();
            return Err(if is_cut { Invalid::Cut } else { Invalid::Never });
        }
    };
    valid.chars().next().ok_or(Invalid::Never)
}

impl<W: Write> Write for Guard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pass(bytes, false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(&[], true)?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(parts: &[&[u8]]) -> String {
        let mut guard = Guard::new(Vec::new());
        for part in parts {
            guard.write_all(part).unwrap();
        }
        guard.flush().unwrap();
        String::from_utf8(guard.inner).unwrap()
    }

    #[test]
    fn only_styles_text_and_line_breaks_pass() {
        for (text, expected) in [
            ("\u{1b}[1mbold\u{1b}[0m\t\u{e9}\n", "\u{1b}[1mbold\u{1b}[0m\t\u{e9}\n"),
            ("\u{1b}]0;T\u{7}\u{1b}[2J", "\\u{1b}]0;T\\u{7}\\u{1b}[2J"),
            ("a\u{9b}31m\u{202e}\u{7f}\r\n", "a\\u{9b}31m\\u{202e}\\u{7f}\\u{d}\n"),
            ("x\n::error::y\n \u{1b}[1m::set", "x\n:\\u{3a}error::y\n \u{1b}[1m:\\u{3a}set"),
            ("##[error]\n## Title [x]\n: a\n a::b", "##\\u{5b}error]\n## Title [x]\n: a\n a::b"),
            ("\u{a0}\u{3000}::error::x", "\u{a0}\u{3000}:\\u{3a}error::x"),
            ("a ##[error]b ##vso[task]", "a ##\\u{5b}error]b ##vso\\u{5b}task]"),
            ("###[x ##teamcity[y #[z", "###\\u{5b}x ##teamcity\\u{5b}y #[z"),
            ("\u{1b}", "\\u{1b}"),
        ] {
            assert_eq!(guarded(&[text.as_bytes()]), expected);
            // In whatever pieces the text is written.
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(guarded(&pieces), expected);
        }
        assert_eq!(guarded(&[b"a\xff\xc3"]), "a\\xff\\xc3");
    }
}
