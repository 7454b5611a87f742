//! `ingest`: sorted tables become part of a store.
use crate::{args::Store, table::size};
use anyhow::Result;
use std::{io::Write, path::PathBuf};
use terrace::Ingested;

/// Takes over what is in sorted tables, all of it at once. Makes the store if it is missing.
///
/// The tables may come from `terrace export`, from a program that builds them (SortedTableWriter), or be tables of LevelDB's;
/// they stay as they are. What they hold is newer than all that the store holds. Their keys must not overlap one another's.
/// Without log and memtable that is faster than `load`. All or nothing, and durable when it returns.
#[derive(clap::Args)]
pub struct Ingest {
    #[command(flatten)]
    store: Store,
    /// Table files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Ingest {
    /// Prints what was taken over.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let db = self.store.open_or_create()?;
        let ingested = db.ingest(&self.files);
        let closed = db.close();
        let Ingested { entries, tables, bytes, sequence, level } = ingested?;
        closed?;
        if self.json {
            let object = serde_json::json!({ "entries": entries, "tables": tables, "bytes": bytes, "sequence": sequence,
                "level": level });
            writeln!(out, "{object}")?;
            return Ok(());
        }
        writeln!(out, "ingested {entries} entries: {tables} tables, {}, in level {level}", size(bytes))?;
        Ok(())
    }
}
