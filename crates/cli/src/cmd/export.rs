//! `export`: writes the entries of a key range as SSTables into a directory.
use crate::{
    args::{Bytes, Family, Range, Store},
    json::text,
    table::size,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{fs, io::Write, path::PathBuf};

/// Writes a range of keys as SSTables into a directory, for `ingest` or for programs that read
/// LevelDB's SSTables.
///
/// Files are named 000001.ldb and so on, in key order. A missing directory is created. Existing
/// files are never replaced.
#[derive(clap::Args)]
pub struct Export {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    family: Family,
    /// Directory of the SSTables.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    bytes: Bytes,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Export {
    /// Prints what was written.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let options = self.range.options(&self.bytes)?;
        let db = self.store.open_read_only()?;
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let tables = self.family.of_only(&db)?.export(&self.folder, options)?;
        if self.json {
            let table = |table: &terrace::SortedTable| {
                json!({ "path": table.path.display().to_string(), "entries": table.entries, "bytes": table.bytes,
                    "smallest": text(&table.smallest), "largest": text(&table.largest) })
            };
            writeln!(out, "{}", json!({ "tables": tables.iter().map(table).collect::<Value>() }))?;
            return Ok(());
        }
        for table in &tables {
            writeln!(out, "{}  {} pairs, {}", table.path.display(), table.entries, size(table.bytes))?;
        }
        writeln!(out, "{} tables", tables.len())?;
        Ok(())
    }
}
