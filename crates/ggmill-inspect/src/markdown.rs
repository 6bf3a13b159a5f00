//! The report as Markdown, with tables for a model card or an issue.

use std::io::{self, Write};

use ggmill_core::Model;

use crate::human::{self, grouped};
use crate::text::layout::Styles;
use crate::text::{summary, value};
use crate::{Selection, Summary};

/// Columns of a value; longer strings and arrays are cut.
const VALUE_COLUMNS: usize = 96;

/// Writes the selected sections, each as a table. Text from the file is escaped, so that it is not
/// interpreted as markup. Fails if `out` fails or the file changed since it was opened.
pub fn write(out: &mut dyn Write, model: &Model, selection: &Selection) -> io::Result<()> {
    let mut between = "";
    if selection.summary {
        write_summary(out, model)?;
        between = "\n";
    }
    if selection.metadata {
        write!(out, "{between}| key | type | value |\n|---|---|---|\n")?;
        for entry in model.metadata().iter().filter(|entry| selection.has_key(entry.key())) {
            let content = entry.value().map_err(io::Error::other)?;
            let mut shown = Vec::new();
            value::write_short(&mut shown, &content, VALUE_COLUMNS, &Styles::default())?;
            writeln!(
                out,
                "| {} | {} | {} |",
                escaped(&entry.key().to_string()),
                escaped(&value::type_of(&content)),
                escaped(&String::from_utf8_lossy(&shown))
            )?;
        }
        between = "\n";
    }
    if selection.tensors {
        write!(out, "{between}| tensor | shape | type | size |\n|---|---|---|--:|\n")?;
        for tensor in model.tensors().iter().filter(|tensor| selection.has_name(tensor.name())) {
            let size =
                tensor.size().map_or_else(|| "?".to_owned(), |size| human::bytes(size.into()));
            writeln!(
                out,
                "| {} | {} | {} | {size} |",
                escaped(&tensor.name().to_string()),
                tensor.shape(),
                tensor.ggml_type()
            )?;
        }
    }
    Ok(())
}

fn write_summary(out: &mut dyn Write, model: &Model) -> io::Result<()> {
    let facts = Summary::of(model);
    write!(out, "| {} | |\n|---|---|\n", escaped(&summary::name(model, &facts)))?;
    let rows = summary::rows(&facts, model.file_len());
    for (label, pieces) in rows.iter().filter(|(_, pieces)| !pieces.is_empty()) {
        writeln!(out, "| {label} | {} |", escaped(&pieces.join(" · ")))?;
    }
    if facts.types.is_empty() {
        return Ok(());
    }
    write!(out, "\n| type | tensors | size | share |\n|---|--:|--:|--:|\n")?;
    for used in summary::largest_first(&facts.types) {
        let size = used.bytes.map_or_else(|| "unknown".to_owned(), human::bytes);
        let share = summary::share(used.bytes.unwrap_or(0), facts.tensor_bytes) * 100.0;
        writeln!(out, "| {} | {} | {size} | {share:.1}% |", used.ggml_type, grouped(used.tensors))?;
    }
    Ok(())
}

/// Escapes text for a cell of a Markdown table. Underscores within words are not markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~') {
            out.push('\\');
        }
        if c == '&' {
            out.push_str("&amp;");
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_file_is_escaped() {
        assert_eq!(escaped("a|b <i> [x](y) `c` & d_e"), r"a\|b \<i\> \[x\](y) \`c\` &amp; d_e");
    }
}
