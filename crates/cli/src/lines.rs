//! The line formats of `load` and `dump`. Each line is one pair.
//!
//! ```text
//! hex      key TAB value, lower-case hex
//! escaped  key TAB value, escaped (see `bytes`)
//! jsonl    {"key":"…","value":"…"}; non-UTF-8 bytes as {"base64":"…"} instead of the string
//! ```
//! A line that has only a key (in `jsonl`, no `value`) has no value. `load` treats such a line as
//! a delete if the user requests it. A key followed by a tab is a pair with an empty value. An
//! empty line is the empty key without a value.
use crate::{
    bytes::Form,
    json::{self, bytes_of},
};
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A line format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Key, tab, value in lower-case hex.
    Hex,
    /// Key, tab, value as text with backslash escapes.
    Escaped,
    /// One JSON object per line, {"key":"…","value":"…"}; non-UTF-8 bytes as {"base64":"…"}.
    Jsonl,
}

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The key.
    pub key: Vec<u8>,
    /// The value, or `None` if the line has only a key.
    pub value: Option<Vec<u8>>,
}

impl Format {
    /// Parses `text`, a line without its newline.
    pub fn parse(self, text: &[u8]) -> Result<Line> {
        match self {
            Format::Hex => parse_tabbed(Form::Hex, text),
            Format::Escaped => parse_tabbed(Form::Escaped, text),
            Format::Jsonl => parse_json(text),
        }
    }

    /// Returns the name of the part that is missing in a line without a value.
    pub fn lacks_value(self) -> &'static str {
        match self {
            Format::Hex | Format::Escaped => "no tab, hence no value",
            Format::Jsonl => "no \"value\"",
        }
    }

    /// Appends the line of a pair to `out`, with its newline.
    pub fn write(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Format::Hex => write_tabbed(Form::Hex, key, value, out),
            Format::Escaped => write_tabbed(Form::Escaped, key, value, out),
            Format::Jsonl => {
                let line = serde_json::json!({ "key": json::text(key), "value": json::text(value) });
                out.extend_from_slice(line.to_string().as_bytes());
                out.push(b'\n');
            }
        }
    }
}

/// Appends `key TAB value NEWLINE` to `out`.
pub fn write_tabbed(form: Form, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    form.encode(key, out);
    out.push(b'\t');
    form.encode(value, out);
    out.push(b'\n');
}

fn parse_tabbed(form: Form, text: &[u8]) -> Result<Line> {
    let (key, value) = match text.iter().position(|&byte| byte == b'\t') {
        Some(tab) => (&text[..tab], Some(&text[tab + 1..])),
        None => (text, None),
    };
    if value.is_some_and(|value| value.contains(&b'\t')) {
        bail!("more than one tab");
    }
    let key = form.decode(key).context("key")?;
    let value = value.map(|value| form.decode(value).context("value")).transpose()?;
    Ok(Line { key, value })
}

fn parse_json(text: &[u8]) -> Result<Line> {
    let Value::Object(object) = serde_json::from_slice(text)? else { bail!("not a JSON object") };
    if let Some(name) = object.keys().find(|name| *name != "key" && *name != "value") {
        bail!("unknown field \"{name}\"; known are \"key\" and \"value\"");
    }
    let field = |name: &str| match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => bytes_of(value).with_context(|| format!("\"{name}\"")).map(Some),
    };
    let Some(key) = field("key")? else { bail!("no \"key\"") };
    Ok(Line { key, value: field("value")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &[u8], value: Option<&[u8]>) -> Line {
        Line { key: key.to_vec(), value: value.map(<[u8]>::to_vec) }
    }

    #[test]
    fn every_byte_survives_every_format() {
        let all: Vec<u8> = (0..=255).collect();
        for format in [Format::Hex, Format::Escaped, Format::Jsonl] {
            for (key, value) in [(&all[..], &b""[..]), (b"", &all[..]), (b"", b"")] {
                let mut out = Vec::new();
                format.write(key, value, &mut out);
                assert_eq!(out.pop(), Some(b'\n'));
                assert!(!out.contains(&b'\n'), "{format:?}");
                assert_eq!(format.parse(&out).unwrap(), line(key, Some(value)), "{format:?}");
            }
        }
    }

    #[test]
    fn texts_are_pinned() {
        for (format, want) in [
            (Format::Hex, "6b09\t00\n"),
            (Format::Escaped, "k\\t\t\\x00\n"),
            (Format::Jsonl, "{\"key\":\"k\\t\",\"value\":\"\\u0000\"}\n"),
        ] {
            let mut out = Vec::new();
            format.write(b"k\t", &[0], &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
        let mut out = Vec::new();
        Format::Jsonl.write("Z\u{fc}rich".as_bytes(), b"Z\xfcrich", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "{\"key\":\"Z\u{fc}rich\",\"value\":{\"base64\":\"WvxyaWNo\"}}\n");
    }

    #[test]
    fn a_key_alone_has_no_value() {
        assert_eq!(Format::Hex.parse(b"6b").unwrap(), line(b"k", None));
        assert_eq!(Format::Escaped.parse(b"k").unwrap(), line(b"k", None));
        assert_eq!(Format::Escaped.parse(b"").unwrap(), line(b"", None));
        assert_eq!(Format::Escaped.parse(b"k\t").unwrap(), line(b"k", Some(b"")));
        assert_eq!(Format::Jsonl.parse(br#"{"key":"k"}"#).unwrap(), line(b"k", None));
        assert_eq!(Format::Jsonl.parse(br#"{"key":"k","value":null}"#).unwrap(), line(b"k", None));
    }

    #[test]
    fn bad_lines_are_refused() {
        for (format, text) in [
            (Format::Hex, "6b\t6\t6b"),
            (Format::Escaped, "a\tb\tc"),
            (Format::Jsonl, "{}"),
            (Format::Jsonl, r#"{"key":1}"#),
            (Format::Jsonl, r#"{"key":{"base64":"WvxyaWN"},"value":""}"#),
            (Format::Jsonl, r#"{"key":{"base64":"WvxyaWNo","hex":""},"value":""}"#),
            (Format::Jsonl, r#"{"key":{"base46":"WvxyaWNo"},"value":""}"#),
            (Format::Jsonl, r#"{"key":"a","values":"b"}"#),
            (Format::Jsonl, r#"["a","b"]"#),
            (Format::Jsonl, r#"{"key":"a"} x"#),
        ] {
            assert!(format.parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
