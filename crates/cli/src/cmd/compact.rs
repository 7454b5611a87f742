//! `compact`: compacts a store, which removes deleted and overwritten data.
use crate::{
    args::{Bytes, Family, Store},
    table::{self, size},
};
use anyhow::Result;
use serde_json::{Value, json};
use std::{ffi::OsString, io::Write};
use terrace::ColumnFamily;

/// Compacts a store, or one column family of it, which removes deleted and overwritten data.
#[derive(clap::Args)]
pub struct Compact {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    family: Family,
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
    /// Compacts the store, and prints the levels before and after the compaction. The result is
    /// durable when this call returns.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let from = self.bytes.read_flag("--from", self.from.as_deref())?;
        let to = self.bytes.read_flag("--to", self.to.as_deref())?;
        let db = self.store.open()?;
        let families = self.family.of_or_all(&db)?;
        let before = levels(&families)?;
        families.iter().try_for_each(|family| family.compact_range(from.as_deref(), to.as_deref()))?;
        db.wait_idle()?;
        let after = levels(&families)?;
        drop(families);
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

/// Returns the sums of all families for each level.
fn levels(families: &[ColumnFamily]) -> Result<Vec<Level>> {
    let mut sums = Vec::new();
    for family in families {
        for (number, level) in family.layout()?.into_iter().enumerate() {
            if number == sums.len() {
                sums.push(Level { tables: 0, bytes: 0 });
            }
            sums[number].tables += level.tables.len();
            sums[number].bytes += level.tables.iter().map(|table| table.bytes).sum::<u64>();
        }
    }
    Ok(sums)
}

fn levels_json(levels: &[Level]) -> Value {
    levels.iter().map(|level| json!({ "tables": level.tables, "bytes": level.bytes })).collect()
}
