//! `check`: verifies the checksums and invariants of a store.
use crate::{args::Store, layout, table::size};
use anyhow::{Result, bail};
use serde_json::json;
use std::io::Write;
use terrace::{CheckReport, Damage, Layout};
use terrace_storage::backends::raw::is_device;

/// Verifies every checksum and invariant of a store. Exits with 1 if there are problems.
///
/// Reads the manifest, the format file, the WALs, and every SSTable. Verifies the checksums, the
/// filters, and the order of entries, both within SSTables and across them: no older version of a
/// key may precede a newer one. Changes nothing.
#[derive(clap::Args)]
pub struct Check {
    #[command(flatten)]
    store: Store,
    /// Read only the parts that an open reads, and the first and last entry of each SSTable.
    #[arg(long)]
    quick: bool,
    /// Read everything (the default).
    #[arg(long, conflicts_with = "quick")]
    deep: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Prints the findings. Returns an error if there are problems.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let report = terrace::check(&self.store.path, &self.store.options()?, self.deep || !self.quick)?;
        let CheckReport { problems, tables, table_bytes, entries, wal_entries, torn_wals, .. } = &report;
        let CheckReport { layout: made_of, range_tombstones, last_sequence, leftovers, damage, lost, .. } = &report;
        let sound = problems.is_empty() && torn_wals.is_empty() && damage.is_empty() && lost.is_empty();
        if self.json {
            let object = json!({ "ok": sound, "made_of": layout::json_at(&self.store.path, *made_of), "problems": problems, "tables": tables,
                "table_bytes": table_bytes, "entries": (!self.quick).then_some(entries), "wal_entries": wal_entries,
                "range_tombstones": range_tombstones, "torn_logs": torn_wals, "last_sequence": last_sequence,
                "damage": damage.iter().map(|place| json!({ "file": place.file, "offset": place.offset, "reason": place.reason }))
                    .collect::<Vec<_>>(), "lost": lost,
                "leftovers": leftovers });
            writeln!(out, "{object}")?;
        } else {
            problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
            let counted = if self.quick { String::new() } else { format!(", {entries} entries") };
            if *made_of != Layout::default() || is_device(&self.store.path) {
                writeln!(out, "made of {}", layout::text_at(&self.store.path, *made_of))?;
            }
            writeln!(
                out,
                "{tables} tables, {}{counted}; {wal_entries} entries in WALs; last sequence number {last_sequence}",
                size(*table_bytes)
            )?;
            if *range_tombstones > 0 {
                writeln!(out, "{range_tombstones} range tombstones in SSTables")?;
            }
            for log in torn_wals {
                writeln!(
                    out,
                    "log {log:06} holds more than its part of the history: a torn end after a power cut, or damage; the next \
                     writing open keeps a copy under lost/"
                )?;
            }
            for Damage { file, offset, reason } in damage {
                writeln!(out, "{file} at byte {offset}: {reason}")?;
            }
            for file in lost {
                writeln!(
                    out,
                    "lost/{file} was set aside by an earlier open: `terrace lost` shows, restores or discards it"
                )?;
            }
            for leftover in leftovers {
                writeln!(out, "{leftover} is not in use; the next writing open removes it")?;
            }
            if sound {
                writeln!(out, "no problems")?;
            }
        }
        match problems.len() {
            0 if sound => Ok(()),
            0 if damage.is_empty() && torn_wals.is_empty() => bail!("files are set aside under lost/"),
            0 => bail!("a WAL is torn or corrupt"),
            1 => bail!("1 problem"),
            count => bail!("{count} problems"),
        }
    }
}
