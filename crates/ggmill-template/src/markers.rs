//! The markers that a template writes between the texts of a conversation.

use crate::Rendered;

/// The longest marker that is found.
const MAX_LEN: usize = 48;

impl Rendered {
    /// The markers in the text, each once and in order: what the template itself (or a role in it)
    /// writes in the form of a special token. These are `<|…|>` anywhere, and `<…>` directly before
    /// or after a text of the conversation, apart from spaces and a role:
    /// `<start_of_turn>user\nHello<end_of_turn>`.
    ///
    /// ```
    /// use ggmill_template::{Conversation, RenderOptions, Template};
    /// let text = "{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}<x>";
    /// let conversation = Conversation::of([("user", "Is <b> bold?")]);
    /// let rendered = Template::parse(text)?.render(&conversation, &RenderOptions::new())?;
    /// assert_eq!(rendered.markers(), ["<turn>", "<|end|>"]);
    /// # Ok::<(), ggmill_template::Error>(())
    /// ```
    pub fn markers(&self) -> Vec<&str> {
        let mut found: Vec<(usize, &str)> = Vec::new();
        for range in self.trusted() {
            let (start, text) = (range.start, self.text().get(range).unwrap_or_default());
            let mut add = |at: usize, marker| {
                if !found.iter().any(|(_, known)| *known == marker) {
                    found.push((start + at, marker));
                }
            };
            barred(text).for_each(|(at, marker)| add(at, marker));
            if start > 0
                && let Some((at, marker)) = first(text)
            {
                add(at, marker);
            }
            if start + text.len() < self.text().len()
                && let Some((at, marker)) = last(text)
            {
                add(at, marker);
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, marker)| marker).collect()
    }
}

/// Whether this can be between the brackets of a marker.
fn is_plain(part: &str) -> bool {
    !part.is_empty() && part.len() <= MAX_LEN && !part.contains(['<', '>', '\n', ' '])
}

/// The parts of a text that have the form `<|…|>` or `<｜…｜>`, with where they begin.
fn barred(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..)?;
            at += rest.find('<')?;
            let rest = text.get(at..)?;
            let found = rest.chars().nth(1).filter(|c| matches!(c, '|' | '｜')).and_then(|bar| {
                let inside = rest.get(1 + bar.len_utf8()..)?;
                let part = inside.get(..inside.find(&*[bar, '>'].iter().collect::<String>())?)?;
                rest.get(..2 + 2 * bar.len_utf8() + part.len()).filter(|_| is_plain(part))
            });
            let start = at;
            at += found.map_or(1, str::len);
            if let Some(marker) = found {
                return Some((start, marker));
            }
        }
    })
}

/// The marker at the beginning of a text.
fn first(text: &str) -> Option<(usize, &str)> {
    let rest = text.trim_start();
    let part = rest.strip_prefix('<')?;
    let part = part.get(..part.find('>')?)?;
    rest.get(..part.len() + 2)
        .filter(|_| is_plain(part))
        .map(|found| (text.len() - rest.len(), found))
}

/// The marker at the end of a text, before a role.
fn last(text: &str) -> Option<(usize, &str)> {
    let is_role = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let rest = text.trim_end().trim_end_matches(is_role).trim_end();
    let part = rest.strip_suffix('>')?;
    let at = part.rfind('<')?;
    rest.get(at..).filter(|_| part.get(at + 1..).is_some_and(is_plain)).map(|found| (at, found))
}

#[cfg(test)]
mod tests {
    use super::{barred, first, last};

    #[test]
    fn markers_with_bars_are_anywhere() {
        let text = "a <|im_end|>\n<｜User｜><| x|> <|a<|b|> <x> <||>";
        let found: Vec<_> = barred(text).collect();
        assert_eq!(found, [(2, "<|im_end|>"), (13, "<｜User｜>"), (35, "<|b|>")]);
        assert!(found.iter().all(|(at, marker)| text[*at..].starts_with(marker)));
    }

    #[test]
    fn markers_without_bars_are_beside_texts() {
        for (text, at_start, at_end) in [
            (
                "<end_of_turn>\n<start_of_turn>model\n",
                Some("<end_of_turn>"),
                Some("<start_of_turn>"),
            ),
            ("</s>", Some("</s>"), Some("</s>")),
            ("<|turn>user\n", Some("<|turn>"), Some("<|turn>")),
            ("turn|>\n", None, None),
            ("Answer with <b> or <i> only.", None, None),
            ("<a b>", None, None),
            ("<>", None, None),
            ("", None, None),
        ] {
            assert_eq!(first(text).map(|(_, found)| found), at_start, "{text}");
            assert_eq!(last(text).map(|(_, found)| found), at_end, "{text}");
        }
    }
}
