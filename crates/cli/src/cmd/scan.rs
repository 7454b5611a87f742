//! `scan`: prints the pairs of a key range in ascending or descending key order.
use crate::{
    args::{Bytes, Family, Follow, Range, Store},
    json,
    lines::{Format, write_tabbed},
};
use anyhow::Result;
use std::io::Write;

/// Prints pairs in key order: key, tab, value.
#[derive(clap::Args)]
pub struct Scan {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    follow: Follow,
    #[command(flatten)]
    family: Family,
    #[command(flatten)]
    range: Range,
    /// Print in descending order.
    #[arg(long)]
    reverse: bool,
    /// Print at most this many pairs.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print keys only.
    #[arg(long)]
    keys_only: bool,
    /// Print one JSON object per line, {"key":"…","value":"…"}; bytes that are not UTF-8 are
    /// {"base64":"…"}.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bytes: Bytes,
}

impl Scan {
    /// Prints the pairs one after another.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let options = self.range.options(&self.bytes)?;
        let db = self.store.open_to_read(&self.follow)?;
        let family = self.family.of(&db)?;
        let pairs = if self.reverse { family.scan_reverse(options) } else { family.scan(options) };
        let mut line = Vec::new();
        for pair in pairs.take(self.limit.unwrap_or(usize::MAX)) {
            let (key, value) = pair?;
            line.clear();
            self.write_line(&key, &value, &mut line);
            out.write_all(&line)?;
        }
        Ok(())
    }

    fn write_line(&self, key: &[u8], value: &[u8], line: &mut Vec<u8>) {
        let form = self.bytes.form();
        match (self.json, self.keys_only) {
            (true, false) => Format::Jsonl.write(key, value, line),
            (true, true) => {
                let object = serde_json::json!({ "key": json::text(key) });
                line.extend_from_slice(object.to_string().as_bytes());
                line.push(b'\n');
            }
            (false, false) => write_tabbed(form, key, value, line),
            (false, true) => {
                form.encode(key, line);
                line.push(b'\n');
            }
        }
    }
}
