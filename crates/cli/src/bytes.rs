//! Converts keys and values to and from text, for arguments, lines and output. There are three
//! forms:
//!
//! ```text
//! raw      the bytes themselves
//! hex      two digits per byte; written in lower case, read in either
//! escaped  printable ASCII unchanged; backslash, tab, newline, return as \\ \t \n \r; other
//!          bytes as \xNN. Reading accepts any unescaped byte, so UTF-8 text may be typed in.
//! ```
use anyhow::{Result, bail};

/// A textual form of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The bytes themselves.
    Raw,
    /// Two hexadecimal digits per byte.
    Hex,
    /// Printable ASCII with backslash escapes.
    Escaped,
}

impl Form {
    /// Decodes `text`.
    pub fn decode(self, text: &[u8]) -> Result<Vec<u8>> {
        match self {
            Form::Raw => Ok(text.to_vec()),
            Form::Hex => decode_hex(text),
            Form::Escaped => decode_escaped(text),
        }
    }

    /// Appends the encoding of `bytes` to `out`.
    pub fn encode(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Form::Raw => out.extend_from_slice(bytes),
            Form::Hex => encode_hex(bytes, out),
            Form::Escaped => bytes.iter().for_each(|&byte| escape(byte, out)),
        }
    }
}

/// Returns the escaped form, for messages and JSON.
fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    Form::Escaped.encode(bytes, &mut out);
    String::from_utf8(out).expect("the escaped form is ASCII")
}

/// Returns the escaped form in single quotes. If `bytes` is longer than `bytes_max`, the text is
/// cut and followed by the full length.
pub fn quoted(bytes: &[u8], bytes_max: usize) -> String {
    match bytes.get(..bytes_max) {
        Some(head) if bytes.len() > bytes_max => format!("'{}'… ({} B)", escaped(head), bytes.len()),
        _ => format!("'{}'", escaped(bytes)),
    }
}

fn encode_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    out.resize(from + 2 * bytes.len(), 0);
    for (pair, &byte) in out[from..].chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&hex_digits(byte));
    }
}

fn hex_digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b' '..=b'~' => out.push(byte),
        _ => {
            out.extend_from_slice(b"\\x");
            out.extend_from_slice(&hex_digits(byte));
        }
    }
}

fn decode_hex(text: &[u8]) -> Result<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        bail!("an odd number of hex digits ({})", text.len());
    }
    let (mut bytes, mut all) = (vec![0; text.len() / 2], 0);
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let (high, low) = (DIGITS[usize::from(pair[0])], DIGITS[usize::from(pair[1])]);
        all |= high | low;
        *byte = high << 4 | low;
    }
    if all == NO_DIGIT {
        text.iter().try_for_each(|&text| digit(text).map(drop))?; // returns an error that names the invalid digit
    }
    Ok(bytes)
}

const NO_DIGIT: u8 = 0xff;

/// The value of each byte as a hexadecimal digit. With this table, decoding takes one load per
/// byte and no branch.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value as usize];
        digits[digit as usize] = value;
        digits[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    digits
};

fn decode_escaped(text: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match rest.next() {
            Some(b'\\') => b'\\',
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'x') => match (rest.next(), rest.next()) {
                (Some(&high), Some(&low)) => byte_of(high, low)?,
                _ => bail!("\\x needs two hex digits"),
            },
            Some(&other) => bail!("unknown escape \\{}; known are \\\\ \\t \\n \\r \\xNN", escaped(&[other])),
            None => bail!("a lone backslash at the end"),
        });
    }
    Ok(out)
}

fn byte_of(high: u8, low: u8) -> Result<u8> {
    Ok(digit(high)? << 4 | digit(low)?)
}

fn digit(text: u8) -> Result<u8> {
    match DIGITS[usize::from(text)] {
        NO_DIGIT => bail!("'{}' is not a hex digit", escaped(&[text])),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_both_forms() {
        let all: Vec<u8> = (0..=255).collect();
        for form in [Form::Raw, Form::Hex, Form::Escaped] {
            let mut text = Vec::new();
            form.encode(&all, &mut text);
            assert_eq!(form.decode(&text).unwrap(), all, "{form:?}");
        }
        assert_eq!(escaped(b"a\tb\\\x00\xff~"), r"a\tb\\\x00\xff~");
        assert_eq!(Form::Hex.decode(b"00FFab").unwrap(), [0, 255, 0xab]);
        assert_eq!(Form::Escaped.decode("\u{e9}".as_bytes()).unwrap(), [0xc3, 0xa9]);
    }

    #[test]
    fn bad_text_is_refused_with_the_reason() {
        for (form, text, reason) in [
            (Form::Hex, "abc", "odd number"),
            (Form::Hex, "zz", "'z' is not a hex digit"),
            (Form::Hex, "+1", "'+' is not a hex digit"),
            (Form::Escaped, r"a\q", r"unknown escape \q"),
            (Form::Escaped, r"a\", "lone backslash"),
            (Form::Escaped, r"\x1", "two hex digits"),
        ] {
            let error = form.decode(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn long_bytes_are_cut_for_messages() {
        assert_eq!(quoted(b"abc", 3), "'abc'");
        assert_eq!(quoted(b"abcd", 3), "'abc'… (4 B)");
    }
}
