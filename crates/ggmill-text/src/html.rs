//! Self-contained HTML pages: escaped text, and the beginning of a page.

use std::fmt;
use std::io::{self, Write};

/// Distinguishable colors for light and dark backgrounds.
pub const COLOURS: [&str; 12] = [
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee7733", "#009988",
    "#882255", "#999933", "#44aa99", "#bbbbbb",
];

/// Text escaped for HTML, in content and in quoted attributes.
///
/// ```
/// use ggmill_text::html::Escaped;
/// assert_eq!(Escaped("a<b & \"c\"").to_string(), "a&lt;b &amp; &quot;c&quot;");
/// ```
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper for display")]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// Writes the beginning of a page, up to its first element. Its policy forbids scripts and loading
/// resources. Fails if `out` does.
pub fn write_head(out: &mut dyn Write, title: impl fmt::Display, style: &str) -> io::Result<()> {
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">")?;
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\">"
    )?;
    writeln!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n\
         <style>{style}</style>",
        Escaped(title)
    )
}
