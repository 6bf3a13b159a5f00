//! Python's truth values, literals and `repr` of bytes.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns `true` if a value is true in Python.
pub(crate) fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}

/// Parses a Python literal `'…'` (as UTF-8) or `b'…'`.
pub(crate) fn literal(text: &str) -> Result<Vec<u8>, String> {
    let (is_bytes, quoted) = match text.strip_prefix('b') {
        Some(quoted) => (true, quoted),
        None => (false, text),
    };
    let quote = quoted.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
    let inner = quote.and_then(|quote| quoted.strip_prefix(quote)?.strip_suffix(quote));
    let inner = inner.ok_or("expected a literal in quotes")?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        if Some(c) == quote {
            return Err("an unescaped quote within the literal".to_owned());
        }
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escaped = characters.next().ok_or("ends with a backslash")?;
        let digits = match escaped {
            'n' | 't' | 'r' | 'a' | 'b' | 'f' | 'v' | '\\' | '\'' | '"' => {
                bytes.push(match escaped {
                    'n' => b'\n',
                    't' => b'\t',
                    'r' => b'\r',
                    'a' => 7,
                    'b' => 8,
                    'f' => 12,
                    'v' => 11,
                    other => u8::try_from(other).unwrap_or_default(),
                });
                continue;
            }
            'x' => 2,
            'u' if !is_bytes => 4,
            'U' if !is_bytes => 8,
            other => return Err(format!("unknown escape \\{other}")),
        };
        let hex: String = characters.by_ref().take(digits).collect();
        let code = u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == digits);
        let code = code.ok_or("an escape has too few digits")?;
        if is_bytes {
            bytes.push(u8::try_from(code).unwrap_or_default());
        } else {
            let c = char::from_u32(code).ok_or("an escape is not a character")?;
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(bytes)
}

/// Formats bytes like Python's `repr`, without the quotes.
pub(crate) fn repr(bytes: &[u8]) -> String {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            byte if byte == quote => text.extend(['\\', char::from(byte)]),
            0x20..=0x7e => text.push(char::from(byte)),
            // Writing to a String cannot fail.
            other => drop(write!(text, "\\x{other:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_parsed_and_bytes_are_formatted() {
        for (text, bytes, shown) in [
            (r"'\x00'", &b"\0"[..], r"\x00"),
            (r#"b'\xe2\x80"'"#, b"\xe2\x80\"", r#"\xe2\x80""#),
            (r#""'""#, b"'", "'"),
            (r#"'"\''"#, b"\"'", r#""\'"#),
            (r"'é\u00e9\n\\'", "éé\n\\".as_bytes(), r"\xc3\xa9\xc3\xa9\n\\"),
            (r"'\x80'", "\u{80}".as_bytes(), r"\xc2\x80"),
        ] {
            assert_eq!(literal(text).unwrap(), bytes, "{text}");
            assert_eq!(repr(bytes), shown);
        }
        for broken in
            ["", "'", "a", "'a", r"'\'", r"'\x1'", r"'\q'", "'''", r"b'\u0041'", "b", r"'\ud800'"]
        {
            assert!(literal(broken).is_err(), "{broken}");
        }
    }
}
