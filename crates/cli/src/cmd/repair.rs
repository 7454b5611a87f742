//! `repair`: salvages a damaged store into a new store.
use crate::{args::Settings, bytes::quoted, directory::refuse_foreign, json::text, table::size};
use anyhow::Result;
use serde_json::{Value, json};
use std::{io::Write, path::PathBuf};
use terrace::{Db, Lost, RepairReport};

/// Number of bytes of a key that are shown before it is cut.
const SHOWN_BYTES: usize = 40;

/// Salvages the readable contents of a damaged store into a new store, and lists the losses.
///
/// Writes nothing into SRC, and needs neither its manifest nor the indexes of its SSTables. For
/// each key, DST gets the newest version that is readable. Exits with 0 if DST has everything that
/// is readable, even if something was lost; the list then has the file, the offset and the reason
/// of each loss. A store that opens needs no repair: try `terrace check` first.
#[derive(clap::Args)]
pub struct Repair {
    /// The damaged store.
    #[arg(value_name = "SRC")]
    from: PathBuf,
    /// The new store: an absent or empty directory.
    #[arg(value_name = "DST")]
    to: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Repair {
    /// Prints the losses and the number of salvaged pairs.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let options = self.settings.resolve()?;
        refuse_foreign(&self.from)?;
        refuse_foreign(&self.to)?;
        let report = Db::repair(&self.from, &self.to, &options)?;
        let RepairReport { tables, logs, pairs, bytes, last_sequence, lost } = &report;
        if self.json {
            let object = json!({ "tables": tables, "logs": logs, "pairs": pairs, "bytes": bytes,
                "last_sequence": last_sequence, "lost": lost.iter().map(lost_json).collect::<Value>() });
            writeln!(out, "{object}")?;
            return Ok(());
        }
        for lost in lost {
            writeln!(
                out,
                "lost: {} at byte {}{}: {}{}",
                lost.file,
                lost.offset,
                length(lost),
                lost.reason,
                keys(lost)
            )?;
        }
        writeln!(
            out,
            "read {tables} tables and {logs} logs; wrote {pairs} pairs, {}, to {}",
            size(*bytes),
            self.to.display()
        )?;
        match lost.len() {
            0 => writeln!(out, "nothing was lost")?,
            count => writeln!(
                out,
                "{count} losses: affected keys may have an older value, be missing, or reappear after a delete"
            )?,
        }
        Ok(())
    }
}

fn length(lost: &Lost) -> String {
    if lost.bytes == 0 { String::new() } else { format!(", {} bytes", lost.bytes) }
}

fn keys(lost: &Lost) -> String {
    let shown = |key: &Option<Vec<u8>>| key.as_ref().map_or("…".to_owned(), |key| quoted(key, SHOWN_BYTES));
    match (&lost.from, &lost.to) {
        (None, None) => String::new(),
        (from, to) => format!(" (keys from {} to {})", shown(from), shown(to)),
    }
}

fn lost_json(lost: &Lost) -> Value {
    let key = |key: &Option<Vec<u8>>| key.as_ref().map(|key| text(key));
    json!({ "file": lost.file, "offset": lost.offset, "bytes": lost.bytes, "reason": lost.reason,
        "from": key(&lost.from), "to": key(&lost.to) })
}
