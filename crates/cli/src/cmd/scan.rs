//! `scan`: a range, in key order or against it.
use crate::{
    args::{Bytes, Store},
    lines::{Format, write_tabbed},
};
use anyhow::Result;
use std::{ffi::OsString, io::Write};
use terrace::ReadOptions;

/// Prints pairs in key order: key, tab, value.
#[derive(clap::Args)]
pub struct Scan {
    #[command(flatten)]
    store: Store,
    /// First key.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// End: the first key that is left out.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys that begin with this.
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Last key first.
    #[arg(long)]
    reverse: bool,
    /// At most this many pairs.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print keys alone.
    #[arg(long)]
    keys_only: bool,
    /// One JSON object a line, {"key":"…","value":"…"}, escaped as with --escape.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bytes: Bytes,
}

impl Scan {
    /// Prints the pairs as they come.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let options = self.read_options()?;
        let db = self.store.open_read_only()?;
        let pairs = if self.reverse { db.scan_reverse(options) } else { db.scan(options) };
        let mut line = Vec::new();
        for pair in pairs.take(self.limit.unwrap_or(usize::MAX)) {
            let (key, value) = pair?;
            line.clear();
            self.write_line(&key, &value, &mut line);
            out.write_all(&line)?;
        }
        Ok(())
    }

    fn read_options(&self) -> Result<ReadOptions> {
        // One pass over everything asked for: keeping its blocks would only push others out.
        let mut options = ReadOptions::new().fill_cache(false);
        if let Some(from) = self.bytes.read_flag("--from", self.from.as_deref())? {
            options = options.from(from);
        }
        if let Some(to) = self.bytes.read_flag("--to", self.to.as_deref())? {
            options = options.to(to);
        }
        if let Some(prefix) = self.bytes.read_flag("--prefix", self.prefix.as_deref())? {
            options = options.prefix(prefix);
        }
        Ok(options)
    }

    fn write_line(&self, key: &[u8], value: &[u8], line: &mut Vec<u8>) {
        let form = self.bytes.form();
        match (self.json, self.keys_only) {
            (true, false) => Format::Jsonl.write(key, value, line),
            (true, true) => {
                let object = serde_json::json!({ "key": crate::bytes::escaped(key) });
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
