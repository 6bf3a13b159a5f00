//! `merges.txt`, where older checkpoints have the merges of a BPE model.

use ggmill_pipeline::Result;

use super::files::{self, fault};
use super::request::Request;

/// The merges of `merges.txt`, one per line; none if the file does not exist.
pub(crate) fn read(request: &mut Request<'_>) -> Result<Vec<String>> {
    const FILE: &str = "merges.txt";
    let Some(bytes) = files::vocabulary(request.files, FILE)? else { return Ok(Vec::new()) };
    let text = String::from_utf8(bytes).map_err(|_| fault(FILE, "is not valid UTF-8"))?;
    let mut merges = Vec::new();
    let mut malformed = 0usize;
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || (number == 0 && line.starts_with('#')) {
            continue;
        }
        let mut parts = line.split_whitespace();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(left), Some(right), None) => merges.push(format!("{left} {right}")),
            _ => malformed = malformed.saturating_add(1),
        }
    }
    if malformed > 0 {
        request.notes.push(format!("{FILE}: {malformed} lines that are not merges were skipped"));
    }
    Ok(merges)
}
