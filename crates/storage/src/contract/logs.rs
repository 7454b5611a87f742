//! Logs: records come back whole and in order, and nothing else does.
use super::kit::{Case, HEAD, Place, good, is_apart, is_missing, record, refused, same};
use crate::StorageConfig;
use crate::placement::{LogEvent, LogKind, LogReader, ObjectId, OpenMode, Storage};
use terrace_format::{LogId, value_log::MAGIC};

pub(super) const CASES: &[Case] = &[records_come_back, logs_are_told_apart, missing_logs_are_missing];

/// Every record up to the end, and the end.
fn read_all(placement: &dyn Storage, reader: &mut dyn LogReader) -> (Vec<Vec<u8>>, LogEvent) {
    let (mut records, mut behind) = (Vec::new(), 0);
    loop {
        match good(reader.next()) {
            LogEvent::Record { offset, bytes } => {
                assert!(offset >= behind, "records come in order");
                // Where values are read out of it, a log may be compressed, and have two parts.
                behind = if is_apart(placement) { 0 } else { offset + bytes.len() as u64 };
                records.push(bytes);
            }
            end @ LogEvent::End { .. } => return (records, end),
            bad @ LogEvent::Bad { .. } => panic!("nothing is wrong with this log: {bad:?}"),
        }
    }
}

fn listed_bytes(placement: &dyn Storage, object: ObjectId) -> Option<u64> {
    good(placement.list()).into_iter().find(|listed| listed.object == object).map(|listed| listed.bytes)
}

/// Empty, small, block-sized and huge records, read back from an open log and after a reopening.
fn records_come_back(place: &Place) {
    let placement = place.with_root();
    for kind in [LogKind::Wal, LogKind::Manifest] {
        let (id, object) = match kind {
            LogKind::Wal => (LogId(5), ObjectId::Wal(LogId(5))),
            LogKind::Manifest => (LogId(6), ObjectId::Manifest(LogId(6))),
        };
        let mut written = vec![HEAD.to_vec()];
        let mut log = good(placement.create_log(id, kind, HEAD));
        for bytes in [0, 1, 6, 7, 100, 32_768 - 7, 32_768, 40_000, 0, 3, (1 << 20) - 1, (3 << 20) + 17, 0] {
            let record = record(&*placement, kind, bytes, written.len() as u64 + 7);
            good(log.append(&record));
            written.push(record);
            let listed = listed_bytes(&*placement, object);
            assert!(listed >= Some(log.bytes()), "an append is handed over at once; zeros may be there before it");
        }
        good(log.sync());
        let end = LogEvent::End { offset: log.bytes(), torn: false };
        let mut reader = good(placement.open_log(id, kind));
        assert!(reader.ours(), "the first record says who wrote the log");
        same(read_all(&*placement, &mut *reader), (written.clone(), end.clone()), "an open log");
        same(good(reader.next()), end.clone(), "the end stays the end");
        drop(log);
        let reopened = good(placement.open_log(id, kind)).as_mut().next();
        let offset = if is_apart(&*placement) && kind == LogKind::Wal { MAGIC.len() as u64 } else { 0 };
        same(good(reopened), LogEvent::Record { offset, bytes: HEAD.to_vec() }, "the first record comes first");
    }
    drop(placement);
    let placement = good(place.open(OpenMode::ReadOnly, &StorageConfig::default()));
    let (records, _) = read_all(&*placement, &mut *good(placement.open_log(LogId(5), LogKind::Wal)));
    same(records.len(), 14, "records after reopening");
}

/// A write-ahead log and a manifest of one number are two things; a number is used once.
fn logs_are_told_apart(place: &Place) {
    let placement = place.with_root();
    let mut wal = good(placement.create_log(LogId(9), LogKind::Wal, HEAD));
    let mut manifest = good(placement.create_log(LogId(9), LogKind::Manifest, HEAD));
    let (batch, edit) = (record(&*placement, LogKind::Wal, 40, 8), record(&*placement, LogKind::Manifest, 4, 8));
    good(wal.append(&batch));
    good(manifest.append(&edit));
    refused(placement.create_log(LogId(9), LogKind::Wal, HEAD), |error| !is_missing(error));
    for (kind, record) in [(LogKind::Wal, batch), (LogKind::Manifest, edit)] {
        let (records, _) = read_all(&*placement, &mut *good(placement.open_log(LogId(9), kind)));
        same(records, vec![HEAD.to_vec(), record], "the record of its own log");
    }
    good(placement.remove(ObjectId::Wal(LogId(9))));
    good(placement.remove(ObjectId::SmallLog(LogId(9))));
    refused(placement.open_log(LogId(9), LogKind::Wal), is_missing);
    good(placement.open_log(LogId(9), LogKind::Manifest));
}

fn missing_logs_are_missing(place: &Place) {
    let placement = place.with_root();
    refused(placement.open_log(LogId(77), LogKind::Wal), is_missing);
    refused(placement.open_log(LogId(77), LogKind::Manifest), is_missing);
}
