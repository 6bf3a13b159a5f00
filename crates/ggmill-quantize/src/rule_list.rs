//! Lists of rules as people write them.

use ggmill_pipeline::Result;

/// Reads rules that are separated by spaces or lines. An error says which line it is in.
pub(crate) fn rules_in<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1u64..) {
        for word in line.split_whitespace() {
            found.push(parse(word).map_err(|error| error.about(format!("line {number}")))?);
        }
    }
    Ok(found)
}
