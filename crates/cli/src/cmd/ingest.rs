//! `ingest`: adds the entries of SSTable files to a store.
use crate::{
    args::{Family, Store},
    table::size,
};
use anyhow::Result;
use std::{io::Write, path::PathBuf};
use terrace::Ingested;

/// Adds the contents of SSTables to a store atomically. Creates the store if it is missing.
///
/// The SSTables may be made by `terrace export`, by a program that builds them
/// (SortedTableWriter), or by LevelDB. They are not modified. Their entries become newer than the
/// store's. Their key ranges must not overlap each other. Ingest is faster than `load`, because it
/// bypasses WAL and memtable. The result is durable when the command returns.
#[derive(clap::Args)]
pub struct Ingest {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    family: Family,
    /// SSTable files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Ingest {
    /// Prints the numbers of added entries and SSTables.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let db = self.store.open_or_create()?;
        let ingested = self.family.of_or_create(&db).and_then(|family| Ok(family.ingest(&self.files)?));
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
