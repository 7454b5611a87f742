//! Helpers for small stores with key-value separation.
use super::kit::{self, Place};
use std::ops::Range;
use terrace::{Db, Options, check_on};
use terrace_format::{Batch, SeqNo, log_record::Event, value_log::Frames};
use terrace_sim::Rng;
use terrace_storage::placement::OpenMode;

/// Options for small stores with key-value separation. All sizes are a hundredth of the defaults.
pub const SMALL: &[(&str, &str)] = &[
    ("values", "log"),
    ("write_buffer_size", "64KiB"),
    ("target_file_size", "64KiB"),
    ("max_bytes_for_level_base", "128KiB"),
    ("value_log_segment_size", "512KiB"),
    ("durability", "background"),
    ("durability_interval_ms", "0"),
    ("compression", "none"),
];

pub fn key(number: usize) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

pub fn value(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).take(bytes).collect()
}

/// Returns the bytes that the store has written for each purpose, and their sum.
pub fn written(db: &Db) -> (Vec<(&'static str, u64)>, u64) {
    let bytes = db.statistics().bytes_written;
    let sum = bytes.iter().map(|(_, bytes)| bytes).sum();
    (bytes, sum)
}

/// Returns the bytes that the store has written for `purpose`.
pub fn written_for(db: &Db, purpose: &str) -> u64 {
    written(db).0.into_iter().find(|(name, _)| *name == purpose).expect("a purpose").1
}

pub fn check(place: &Place, options: &Options) {
    let storage = kit::storage(&place.fs, OpenMode::ReadOnly, options).expect("open read-only");
    let report = check_on(&*storage, options, true).expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.leftovers, Vec::<String>::new());
}

/// Returns the names of the value-log segments as two lists: the WALs, and the segments that GC
/// wrote.
pub fn segments(place: &Place) -> [Vec<String>; 2] {
    let names: Vec<String> = place.fs.list().expect("list").into_iter().map(|entry| entry.name).collect();
    [".vlog", ".vals"].map(|kind| names.iter().filter(|name| name.ends_with(kind)).cloned().collect())
}

/// Returns the sequence number of each frame of a segment, and the byte range of the frame's
/// entries.
pub fn frames_of(segment: u64, bytes: &[u8]) -> Vec<(SeqNo, Range<u64>)> {
    let mut frames = Frames::new(segment, bytes.len() as u64);
    let mut found = Vec::new();
    loop {
        let read = |offset: u64, buf: &mut [u8]| {
            buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]);
            Ok::<_, terrace::Error>(())
        };
        let Ok(Event::Record { bytes, .. }) = frames.next(read) else { return found };
        let places = frames.places();
        let (Some(first), Some(last)) = (places.first(), places.last()) else { continue };
        found.push((Batch::decode(bytes).expect("a batch").sequence(), first.start..last.end));
    }
}
