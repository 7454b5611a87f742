//! `stats`: prints numbers about the state of a store, such as sequence numbers, levels and
//! memtables.
use crate::{
    args::{Follow, Store},
    layout,
    table::{self, size},
};
use anyhow::Result;
use serde_json::{Value, json};
use std::{io::Write, path::Path, time::Duration};
use terrace::{LevelStatistics, Statistics, Syncs, ValueLogStatistics, Values, WorkStatistics};

/// Prints the state of a store in numbers: sequence numbers, levels, memtables.
///
/// Opens the store only for reading. The counters of work and syncs in --json therefore contain
/// only the work of this command.
#[derive(clap::Args)]
pub struct Stats {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    follow: Follow,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Stats {
    /// Prints the statistics.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let db = self.store.open_to_read(&self.follow)?;
        let (statistics, families) = (db.statistics(), db.cf_names());
        if self.json {
            let mut object = json_of(&self.store.path, &statistics);
            object["column_families"] = families.into();
            writeln!(out, "{object}")?;
            return Ok(());
        }
        write_text(&self.store.path, &statistics, &families, out)
    }
}

fn write_text(path: &Path, statistics: &Statistics, families: &[String], out: &mut dyn Write) -> Result<()> {
    let Statistics { place, layout: made_of, durability, preset, last_sequence, levels, memtable_bytes, .. } =
        statistics;
    writeln!(out, "place          {place}")?;
    writeln!(out, "made of        {}", layout::text_at(path, *made_of))?;
    writeln!(out, "preset         {preset}")?;
    if families.len() > 1 {
        writeln!(out, "families       {}", families.join(", "))?;
    }
    let promise = if *durability == "none" { " (no durability across a power cut)" } else { "" };
    writeln!(out, "durability     {durability}{promise}, as opened now")?;
    if statistics.unsynced {
        writeln!(out, "unsynced       last written with durability=none: recent writes may not survive a power cut")?;
    }
    if statistics.torn_wals > 0 {
        writeln!(out, "torn WALs      {}: see `terrace check`", statistics.torn_wals)?;
    }
    if statistics.lost_files > 0 {
        writeln!(out, "lost           {} files under lost/: see `terrace lost list`", statistics.lost_files)?;
    }
    writeln!(out, "last sequence  {last_sequence}")?;
    writeln!(out, "memtables      {} replayed from WALs", size(*memtable_bytes))?;
    let tables: u64 = levels.iter().map(|level| level.tables).sum();
    let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
    writeln!(out, "tables         {tables}, {} ({bytes} B)", size(bytes))?;
    if statistics.layout.values == Values::Log {
        let ValueLogStatistics { segments, bytes, live_bytes, .. } = statistics.value_log;
        let garbage = 100.0 * bytes.saturating_sub(live_bytes) as f64 / bytes.max(1) as f64;
        writeln!(out, "value log      {segments} segments, {}, of which {garbage:.0} % is garbage", size(bytes))?;
    }
    writeln!(out)?;
    let row = |(level, LevelStatistics { tables, bytes, .. }): (usize, &LevelStatistics)| {
        vec![format!("L{level}"), tables.to_string(), size(*bytes)]
    };
    let rows: Vec<Vec<String>> = levels.iter().enumerate().map(row).collect();
    table::write(out, &["level", "tables", "size"], &rows)
}

fn json_of(path: &Path, statistics: &Statistics) -> Value {
    let level = |level: &LevelStatistics| {
        json!({ "tables": level.tables, "bytes": level.bytes, "compactions": work_json(&level.compactions),
        "compacted_bytes": level.compacted_bytes })
    };
    let sync = |(kind, syncs): &(&str, Syncs)| {
        let object = json!({ "count": syncs.count, "blocking": syncs.blocking, "bytes": syncs.bytes, "seconds": seconds(syncs.time) });
        ((*kind).to_owned(), object)
    };
    let written = |(purpose, bytes): &(&str, u64)| ((*purpose).to_owned(), Value::from(*bytes));
    json!({
        "place": statistics.place,
        "made_of": layout::json_at(path, statistics.layout),
        "preset": statistics.preset,
        "durability": statistics.durability,
        "last_sequence": statistics.last_sequence,
        "durable_sequence": statistics.durable_sequence,
        "levels": statistics.levels.iter().map(level).collect::<Value>(),
        "flushes": work_json(&statistics.flushes),
        "value_log": {
            "segments": statistics.value_log.segments,
            "bytes": statistics.value_log.bytes,
            "live_bytes": statistics.value_log.live_bytes,
            "spared": statistics.value_log.spared,
            "put_again_bytes": statistics.value_log.relocated_bytes,
        },
        "free_bytes": statistics.free_bytes,
        "memtable_bytes": statistics.memtable_bytes,
        "memory": {
            "memtables": statistics.memory.memtables,
            "tails": statistics.memory.tails,
            "cursors": statistics.memory.cursors,
            "blocks": statistics.memory.blocks,
            "limit": statistics.memory.limit,
        },
        "sealed_memtables": statistics.sealed_memtables,
        "snapshots": statistics.snapshots,
        "pending_edits": statistics.pending_edits,
        "retained_log_bytes": statistics.retained_wal_bytes,
        "shadow_bytes": statistics.shadow_bytes,
        "tables_given_up": statistics.tables_never_synced,
        "awaiting_removal": statistics.pending_deletions,
        "removals_failed": statistics.failed_deletions,
        "torn_logs": statistics.torn_wals,
        "lost_files": statistics.lost_files,
        "unsynced": statistics.unsynced,
        "stalls": statistics.stalls,
        "stall_seconds": seconds(statistics.stall_time),
        "bytes_written": statistics.bytes_written.iter().map(written).collect::<serde_json::Map<_, _>>(),
        "syncs": statistics.syncs.iter().map(sync).collect::<serde_json::Map<_, _>>(),
        "table_syncs": statistics.table_syncs.iter().map(sync).collect::<serde_json::Map<_, _>>(),
    })
}

fn work_json(work: &WorkStatistics) -> Value {
    json!({ "count": work.count, "bytes_read": work.bytes_read, "bytes_written": work.bytes_written,
        "seconds": seconds(work.time) })
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
