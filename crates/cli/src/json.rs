//! Converts keys and values to and from JSON. UTF-8 text is a JSON string. All other bytes are an
//! object `{"base64": "…"}` (RFC 4648, padded). A reader recognises which of the two forms a value
//! has by its JSON type.
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the JSON form of `bytes`.
pub fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": encode(bytes) }),
    }
}

/// Returns the bytes that `value` stands for.
pub fn bytes_of(value: &Value) -> Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.clone().into_bytes()),
        Value::Object(object) => match object.iter().next() {
            Some((name, Value::String(digits))) if name == "base64" && object.len() == 1 => {
                decode(digits.as_bytes()).context("base64")
            }
            _ => bail!("not {{\"base64\":\"…\"}}: {value}"),
        },
        other => bail!("neither a string nor {{\"base64\":\"…\"}}: {other}"),
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= chunk.len() { digit.into() } else { '=' });
        }
    }
    out
}

fn decode(text: &[u8]) -> Result<Vec<u8>> {
    ensure!(text.len().is_multiple_of(4), "{} digits, not a multiple of 4", text.len());
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let last = text.len().saturating_sub(4);
    for (at, chunk) in text.chunks_exact(4).enumerate() {
        let padding = if 4 * at == last { chunk.iter().rev().take_while(|digit| **digit == b'=').count() } else { 0 };
        ensure!(padding <= 2, "only padding");
        let mut word = 0u32;
        for digit in &chunk[..4 - padding] {
            let value = ALPHABET.iter().position(|known| known == digit).context("not a digit of base64")?;
            word = word << 6 | value as u32;
        }
        let bytes = (word << (6 * padding)).to_be_bytes();
        ensure!(bytes[4 - padding..].iter().all(|byte| *byte == 0), "surplus bits after the last byte");
        out.extend_from_slice(&bytes[1..4 - padding]);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_survives() {
        let all: Vec<u8> = (0..=255).rev().collect();
        for length in 0..all.len() {
            assert_eq!(bytes_of(&text(&all[..length])).unwrap(), all[..length]);
        }
        for text_of in ["", "\u{0}\u{1f}\\x00\"", "Z\u{fc}rich \u{1f600}"] {
            assert_eq!(text(text_of.as_bytes()), json!(text_of));
            assert_eq!(bytes_of(&json!(text_of)).unwrap(), text_of.as_bytes());
        }
    }

    /// Checks the test vectors of RFC 4648, section 10.
    #[test]
    fn digits_are_pinned() {
        for (bytes, digits) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(encode(bytes.as_bytes()), digits);
            assert_eq!(decode(digits.as_bytes()).unwrap(), bytes.as_bytes());
        }
        assert_eq!(text(&[0xff, 0xfe]), json!({ "base64": "//4=" }));
        for bad in ["Z", "Zg=", "Zg==Zg==", "====", "Z===", "Zh==", "Zm9=", "Zm9\n", "Zm-v"] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
