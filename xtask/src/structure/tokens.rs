//! Rust source as tokens: as much of the language as it takes to find the paths in it.

/// A word or a sign; comments, literals and white space are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `::`
    Path,
    Sign(char),
}

impl Token {
    pub(super) fn is(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }

    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// The tokens of a source, without the items under `#[cfg(test)]`.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    without_tests(&all(source))
}

/// All of them.
pub(super) fn all(source: &str) -> Vec<Token> {
    let text: Vec<char> = source.chars().collect();
    let at = |place: usize| text.get(place).copied().unwrap_or('\0');
    let is_word = |sign: char| sign.is_alphanumeric() || sign == '_';
    let (mut tokens, mut place) = (Vec::new(), 0);
    while place < text.len() {
        let start = place;
        match (at(place), at(place + 1)) {
            ('/', '/') => place += text[place..].iter().take_while(|&&sign| sign != '\n').count(),
            ('/', '*') => place = after_comment(&text, place),
            ('"', _) => place = after_string(&text, place + 1),
            // A character, or the name of a lifetime.
            ('\'', '\\') => {
                place = text[place + 3..]
                    .iter()
                    .position(|&sign| sign == '\'')
                    .map_or(text.len(), |end| place + 4 + end);
            }
            ('\'', _) if at(place + 2) == '\'' => place += 3,
            ('r', '"' | '#') if is_raw(&text, place + 1) => place = after_raw(&text, place + 1),
            ('b', 'r') if is_raw(&text, place + 2) => place = after_raw(&text, place + 2),
            (':', ':') => {
                tokens.push(Token::Path);
                place += 2;
            }
            (sign, _) if is_word(sign) => {
                place += text[place..].iter().take_while(|&&sign| is_word(sign)).count();
                tokens.push(Token::Word(text[start..place].iter().collect()));
            }
            (sign, _) => {
                if !sign.is_whitespace() {
                    tokens.push(Token::Sign(sign));
                }
                place += 1;
            }
        }
    }
    tokens
}

fn after_comment(text: &[char], start: usize) -> usize {
    let (mut depth, mut place) = (0usize, start);
    while place < text.len() {
        match text[place..] {
            ['/', '*', ..] => (depth, place) = (depth + 1, place + 2),
            ['*', '/', ..] => (depth, place) = (depth - 1, place + 2),
            _ => place += 1,
        }
        if depth == 0 {
            break;
        }
    }
    place
}

fn after_string(text: &[char], start: usize) -> usize {
    let mut place = start;
    while place < text.len() && text[place] != '"' {
        place += if text[place] == '\\' { 2 } else { 1 };
    }
    place + 1
}

/// Whether hashes and a quote follow, as in a raw string and not in a raw identifier.
fn is_raw(text: &[char], start: usize) -> bool {
    text.iter().skip(start).find(|&&sign| sign != '#') == Some(&'"')
}

fn after_raw(text: &[char], start: usize) -> usize {
    let hashes = text[start..].iter().take_while(|&&sign| sign == '#').count();
    let end = |place: &usize| {
        text[*place] == '"'
            && text[place + 1..].iter().take_while(|&&sign| sign == '#').count() >= hashes
    };
    (start + hashes + 1..text.len()).find(end).map_or(text.len(), |end| end + 1 + hashes)
}

/// Omits the item after `#[cfg(test)]`: up to its semicolon, or to the end of its block.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        if !is_test(&tokens[place..]) {
            kept.push(tokens[place].clone());
            place += 1;
            continue;
        }
        let mut depth = 0usize;
        for token in &tokens[place..] {
            place += 1;
            depth += usize::from(token.is('{'));
            if token.is('}') {
                depth = depth.saturating_sub(1);
            }
            if depth == 0 && (token.is(';') || token.is('}')) {
                break;
            }
        }
    }
    kept
}

fn is_test(tokens: &[Token]) -> bool {
    let [hash, open, cfg, paren, test, ..] = tokens else { return false };
    hash.is('#')
        && open.is('[')
        && cfg.word() == Some("cfg")
        && paren.is('(')
        && test.word() == Some("test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_comments_and_tests_are_no_code() {
        let source = "use a::b; // c\n/* d /* e */ */ let f: &'g str = \"h\\\"i\"; 'j' '\\n' \
                      r#\"k\"# r#l b\"m\"\n#[cfg(test)]\nmod n { o {} }\n#[cfg(test)] use p;\nq";
        let words: Vec<String> =
            tokens(source).iter().filter_map(|token| token.word().map(str::to_owned)).collect();
        assert_eq!(words, ["use", "a", "b", "let", "f", "g", "str", "r", "l", "b", "q"]);
    }
}
