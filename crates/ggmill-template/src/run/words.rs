//! Words that a macro uses without declaring them.

/// The names that Jinja gives a macro which uses them.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub(super) caller: bool,
    pub(super) kwargs: bool,
    pub(super) varargs: bool,
}

impl Words {
    /// Those that occur in the source of a macro.
    pub(super) fn of(source: &str) -> Self {
        let has = |word| has_word(source, word);
        Self { caller: has("caller"), kwargs: has("kwargs"), varargs: has("varargs") }
    }
}

/// Whether a word occurs in the source.
fn has_word(source: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(word).any(|(start, _)| {
        let before = source.get(..start).and_then(|text| text.chars().next_back());
        let after = source.get(start + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}
