//! The file `LOG` of a store, a text file for people. This module decides which events are written
//! to it as a line of text.
use crate::{
    CompactionStyle, Event, Options,
    stats::{Statistics, WorkStatistics},
};
use std::{fmt::Display, time::Duration};

/// Returns the line for `event`; `None` for an event that occurs too often for the file.
pub fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::FlushEnd { bytes, level, time } => format!("flush: {bytes} bytes into level {level} in {time:.1?}"),
        Event::CompactionBegin { level, output_level, tables, bytes } => {
            format!("compaction of level {level} into level {output_level} begins: {tables} SSTables, {bytes} bytes")
        }
        Event::CompactionEnd { level, output_level, tables, bytes, time } => format!(
            "compaction of level {level} into level {output_level} ended: {tables} SSTables, {bytes} bytes in {time:.1?}"
        ),
        Event::CompactionFailed { level, output_level, error } => {
            format!("compaction of level {level} into level {output_level} failed: {error}")
        }
        Event::Damaged { damage } => format!(
            "damage in {} at offset {}: {}; a copy of the file is kept in lost/",
            damage.file, damage.offset, damage.reason
        ),
        Event::Stopped { error } => format!("writes and background work have stopped: {error}"),
        Event::Resumed => "writes and background work go on".into(),
        Event::FlushBegin { .. }
        | Event::StallBegin
        | Event::StallEnd { .. }
        | Event::SyncBegin
        | Event::SyncEnd { .. } => return None,
    })
}

/// The beginning of a line with statistics, which programs read.
const STATISTICS: &str = "statistics: ";

/// Returns the line with the work of the store since it was opened, as a JSON object. `terrace
/// advise` reads it.
pub fn statistics(options: &Options, now: &Statistics) -> String {
    let compactions =
        now.levels.iter().map(|level| level.compactions).fold(WorkStatistics::default(), |sum, work| WorkStatistics {
            count: sum.count + work.count,
            bytes_read: sum.bytes_read + work.bytes_read,
            bytes_written: sum.bytes_written + work.bytes_written,
            time: sum.time + work.time,
        });
    let syncs = |syncs: &terrace_storage::Syncs| {
        object(&[("count", &syncs.count), ("blocking", &syncs.blocking), ("seconds", &seconds(syncs.time))])
    };
    let sums = object(&[
        ("seconds", &seconds(now.uptime)),
        ("preset", &quoted(now.preset)),
        ("durability", &quoted(now.durability)),
        ("filters", &options.setup().filter.is_some()),
        ("compression", &quoted(options.compression.name())),
        ("universal", &(options.compaction_style == CompactionStyle::Universal)),
        ("max_background_compactions", &options.max_background_compactions),
        ("max_open_files", &options.max_open_files),
        ("max_write_buffer_number", &options.max_write_buffer_number),
        ("write_buffer_size", &options.write_buffer_size),
        ("unsynced_bytes_limit", &options.unsynced_bytes_limit),
        ("value_log_gc_percent", &options.value_log_gc_percent),
        ("last_sequence", &now.last_sequence),
        ("lookups", &now.reads.lookups),
        ("searched_tables", &now.reads.searched_tables),
        ("storage_reads", &now.reads.storage_reads),
        ("stalls", &now.stalls),
        ("stall_seconds", &map(now.stall_times.iter().map(|(cause, time)| (*cause, seconds(*time))))),
        ("flushes", &work(&now.flushes)),
        ("compactions", &work(&compactions)),
        ("bytes_written", &map(now.bytes_written.iter().map(|(purpose, bytes)| (*purpose, bytes)))),
        ("syncs", &map(now.syncs.iter().map(|(kind, all)| (*kind, syncs(all))))),
        ("cached_bytes", &now.memory.blocks),
        ("memory_bytes", &now.memory.sum()),
        ("memory_budget", &now.memory.limit.unwrap_or(0)),
    ]);
    format!("{STATISTICS}{sums}")
}

fn work(work: &WorkStatistics) -> String {
    object(&[
        ("count", &work.count),
        ("bytes_read", &work.bytes_read),
        ("bytes_written", &work.bytes_written),
        ("seconds", &seconds(work.time)),
    ])
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// Returns a JSON object with these members. The names need no escapes.
fn object(members: &[(&'static str, &dyn Display)]) -> String {
    map(members.iter().copied())
}

fn map<T: Display>(members: impl Iterator<Item = (&'static str, T)>) -> String {
    let members: Vec<String> = members.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}
