//! The texts of a file: documentation and string literals of Rust sources, Markdown by paragraph.

/// Returns the string literals and the documentation of a source, each with its first line. Other
/// comments and unit tests are skipped.
pub(super) fn of_rust(source: &str) -> Vec<(usize, String)> {
    let mut texts = of_messages(source);
    texts.extend(of_documentation(source));
    texts
}

/// Returns the doc comments of a source, without those of unit tests.
pub(super) fn of_documentation(source: &str) -> Vec<(usize, String)> {
    comments(without_tests(source), true)
}

/// Returns the comments of a source that are not documentation, without those of unit tests.
pub(super) fn of_comments(source: &str) -> Vec<(usize, String)> {
    comments(without_tests(source), false)
}

/// Returns the string literals of a source, each with its first line, without those of unit tests.
pub(super) fn of_messages(source: &str) -> Vec<(usize, String)> {
    literals(without_tests(source))
}

fn without_tests(source: &str) -> &str {
    source.find("#[cfg(test)]\nmod ").map_or(source, |end| &source[..end])
}

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

/// Returns the blocks of comments, each with its first line.
fn comments(source: &str, is_documentation: bool) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let (mut last, mut is_code) = (0, false);
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("//") else { continue };
        let documentation = text.strip_prefix(['/', '!']);
        if documentation.is_some() != is_documentation {
            continue;
        }
        let text = documentation.unwrap_or(text).trim();
        if blocks.is_empty() || last + 1 != number {
            blocks.push((number, String::new()));
            is_code = false;
        }
        last = number;
        if text.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && let Some((_, block)) = blocks.last_mut() {
            if !block.is_empty() {
                block.push(' ');
            }
            block.push_str(text);
        }
    }
    blocks
}

fn literals(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = source;
    let line_of = |rest: &str| source[..source.len() - rest.len()].matches('\n').count() + 1;
    while let Some(start) = rest.find(['/', '"', '\'', 'r']) {
        let before = rest[..start].chars().next_back();
        rest = &rest[start..];
        let is_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let hashes = rest[1..].bytes().take_while(|&byte| byte == b'#').count();
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with('r') && !is_word && rest[1 + hashes..].starts_with('"') {
            let line = line_of(rest);
            let close = format!("\"{}", "#".repeat(hashes));
            let content = &rest[hashes + 2..];
            let end = content.find(&close).unwrap_or(content.len());
            found.push((line, content[..end].to_owned()));
            rest = content.get(end + close.len()..).unwrap_or_default();
        } else if rest.starts_with('"') {
            let line = line_of(rest);
            let mut end = 1;
            while let Some(byte) = rest.as_bytes().get(end).filter(|&&byte| byte != b'"') {
                end += if *byte == b'\\' { 2 } else { 1 };
            }
            found.push((line, joined(rest.get(1..end).unwrap_or_default())));
            rest = rest.get(end + 1..).unwrap_or_default();
        } else if let Some(after) = character(rest) {
            rest = after;
        } else {
            rest = &rest[1..];
        }
    }
    found
}

/// Returns the text after a character literal at its beginning.
fn character(text: &str) -> Option<&str> {
    let content = text.strip_prefix('\'')?;
    let len = match content.strip_prefix('\\') {
        Some(escape) => 2 + escape.get(1..)?.find('\'')?,
        None => content.chars().next()?.len_utf8(),
    };
    content.get(len..)?.strip_prefix('\'')
}

/// Joins the lines of a string literal as the compiler does.
fn joined(literal: &str) -> String {
    let mut lines = literal.split("\\\n");
    let mut text = lines.next().unwrap_or_default().to_owned();
    lines.for_each(|line| text.push_str(line.trim_start()));
    text.replace("\\n", " ")
}
