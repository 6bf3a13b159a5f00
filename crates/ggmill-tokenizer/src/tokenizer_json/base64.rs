//! Base64 (RFC 4648, section 4).

/// The characters of Base64 by value.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each character, 64 for characters outside of the alphabet.
const VALUES: [u8; 256] = {
    let mut values = [64; 256];
    let mut value = 0;
    while value < 64 {
        #[expect(clippy::cast_possible_truncation, reason = "less than 64")]
        #[expect(clippy::indexing_slicing, reason = "in bounds: the compiler evaluates it")]
        {
            values[ALPHABET[value] as usize] = value as u8;
        }
        value += 1;
    }
    values
};

/// Decodes Base64. Fails if the length is wrong or a character is not in the alphabet.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.trim_end_matches('=');
    let padded = text.len().saturating_sub(digits.len());
    if !text.len().is_multiple_of(4) || padded > 2 {
        return Err("is not valid Base64: wrong length".to_owned());
    }
    let mut bytes = Vec::with_capacity(digits.len().saturating_mul(3) / 4);
    let (mut held, mut bits) = (0u32, 0u32);
    for &digit in digits.as_bytes() {
        let value = VALUES.get(usize::from(digit)).copied().filter(|&value| value < 64);
        let value = value.ok_or_else(|| format!("is not valid Base64: byte 0x{digit:02x}"))?;
        held = held << 6 | u32::from(value);
        bits = bits.saturating_add(6);
        if bits >= 8 {
            bits = bits.saturating_sub(8);
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap_or_default());
            held &= (1 << bits) - 1;
        }
    }
    Ok(bytes)
}

/// Encodes bytes in Base64.
pub fn encode_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4usize {
            let digit = (bits >> (18 - 6 * place)) & 63;
            let letter = usize::try_from(digit).ok().and_then(|digit| ALPHABET.get(digit));
            let is_padding = place > three.len();
            text.push(letter.filter(|_| !is_padding).map_or('=', |letter| char::from(*letter)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_decodes_the_rfc_vectors() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode_base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decode_base64("/+8=").unwrap(), [0xff, 0xef]);
        for broken in ["Z", "Zg", "Zg=", "Zg===", "Z=g=", "Zm8-", "Zm 9"] {
            assert!(decode_base64(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn base64_round_trips() {
        for (bytes, text) in [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v")] {
            assert_eq!(encode_base64(bytes), text);
            assert_eq!(decode_base64(text).unwrap(), bytes);
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode_base64(&encode_base64(&all)).unwrap(), all);
    }
}
