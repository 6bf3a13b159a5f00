//! The texts of files other than Rust sources: reasons in descriptions, Markdown by paragraph.

/// Returns the reasons in an architecture description, which are messages.
pub(super) fn of_description(source: &str) -> Vec<(usize, String)> {
    let reason = |line: &str| Some(line.trim().strip_prefix("because = ")?.to_owned());
    (1..).zip(source.lines()).filter_map(|(number, line)| Some((number, reason(line)?))).collect()
}

/// Returns the paragraphs of a page, without blocks of code.
pub(super) fn of_markdown(page: &str) -> Vec<(usize, String)> {
    let mut paragraphs = Vec::new();
    let mut paragraph = (0, String::new());
    for (number, line) in page.lines().enumerate() {
        if line.trim().is_empty() {
            paragraphs.push(std::mem::take(&mut paragraph));
            continue;
        }
        if paragraph.1.is_empty() {
            paragraph.0 = number + 1;
        }
        paragraph.1.push_str(line);
        paragraph.1.push('\n');
    }
    paragraphs.push(paragraph);
    paragraphs
}

/// Returns the text in lower case, with single spaces.
pub(super) fn normalized(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
