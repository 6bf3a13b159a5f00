//! Texts as templates write them.

/// The value of string literals side by side, with Python's escapes; `None` where they have
/// something else.
pub(crate) fn python_text(source: &str) -> Option<String> {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars().peekable();
    while let Some(quote) = chars.next() {
        if quote.is_whitespace() {
            continue;
        }
        if quote != '\'' && quote != '"' {
            return None;
        }
        loop {
            let c = chars.next()?;
            if c == quote {
                break;
            }
            if c != '\\' {
                out.push(c);
                continue;
            }
            let escape = chars.next()?;
            match escape {
                '\n' => {}
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'a' => out.push('\x07'),
                'b' => out.push('\x08'),
                'f' => out.push('\x0c'),
                'v' => out.push('\x0b'),
                '\\' | '\'' | '"' => out.push(escape),
                'x' | 'u' | 'U' => {
                    let length = match escape {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let mut code = 0;
                    for _ in 0..length {
                        code = code * 16 + chars.next()?.to_digit(16)?;
                    }
                    out.push(char::from_u32(code)?);
                }
                '0'..='7' => {
                    let mut code = escape.to_digit(8)?;
                    for _ in 0..2 {
                        let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) else { break };
                        code = code * 8 + digit;
                        chars.next();
                    }
                    out.push(char::from_u32(code)?);
                }
                // Python keeps what is not an escape.
                _ => out.extend(['\\', escape]),
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::python_text;

    #[test]
    fn escapes_are_pythons() {
        let shown = |source| python_text(source).unwrap_or_default();
        assert_eq!(shown(r"'a\nb\x41\u00e9\101\d\\'"), "a\nbA\u{e9}A\\d\\");
        assert_eq!(shown(r#"'a' "b\'" "#), "ab'");
        assert_eq!(python_text("x"), None);
        assert_eq!(python_text(r"'\ud800'"), None);
    }
}
