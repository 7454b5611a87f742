//! The file `LOG` of a store, a text file for people. This module decides which events are written
//! to it as a line of text.
use crate::Event;

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
