//! `compact`: compacts a store, which removes deleted and overwritten data.
use crate::{
    args::{Bytes, Store},
    table::{self, size},
};
use anyhow::Result;
use serde_json::{Value, json};
use std::{ffi::OsString, io::Write};
use terrace::{Db, LevelInfo};

/// Compacts a store, which removes deleted and overwritten data.
#[derive(clap::Args)]
pub struct Compact {
    #[command(flatten)]
    store: Store,
    /// First key; default: the first of the store.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Last key; default: the last of the store.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bytes: Bytes,
}

impl Compact {
    /// Compacts and prints the levels before and after. The result is durable when this returns.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let from = self.bytes.read_flag("--from", self.from.as_deref())?;
        let to = self.bytes.read_flag("--to", self.to.as_deref())?;
        let db = self.store.open()?;
        let before = levels(&db);
        db.compact_range(from.as_deref(), to.as_deref())?;
        db.wait_idle()?;
        let after = levels(&db);
        db.close()?;
        if self.json {
            writeln!(out, "{}", json!({ "before": levels_json(&before), "after": levels_json(&after) }))?;
            return Ok(());
        }
        let row = |(level, (before, after)): (usize, (&Level, &Level))| {
            vec![
                format!("L{level}"),
                before.tables.to_string(),
                size(before.bytes),
                after.tables.to_string(),
                size(after.bytes),
            ]
        };
        let rows: Vec<Vec<String>> = before.iter().zip(&after).enumerate().map(row).collect();
        table::write(out, &["level", "tables before", "size before", "tables after", "size after"], &rows)
    }
}

struct Level {
    tables: usize,
    bytes: u64,
}

fn levels(db: &Db) -> Vec<Level> {
    let level =
        |info: LevelInfo| Level { tables: info.tables.len(), bytes: info.tables.iter().map(|table| table.bytes).sum() };
    db.layout().into_iter().map(level).collect()
}

fn levels_json(levels: &[Level]) -> Value {
    levels.iter().map(|level| json!({ "tables": level.tables, "bytes": level.bytes })).collect()
}
