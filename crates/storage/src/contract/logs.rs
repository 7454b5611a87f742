//! Cases for logs (WAL and manifest): a reader returns all records that were appended, in order,
//! and no others.
use super::kit::{Case, Fixture, HEAD, good, is_missing, record, refused, same, separates_values};
use crate::StorageConfig;
use crate::placement::{LogEvent, LogKind, LogReader, ObjectId, OpenMode, Storage};
use terrace_format::{LogId, value_log::MAGIC};

pub(super) const CASES: &[Case] =
    &[records_are_read_back, a_wal_and_a_manifest_may_share_a_number, a_missing_log_is_an_error];

/// Reads every record of a log. Returns the records and the event at the end of the log.
fn read_all(storage: &dyn Storage, reader: &mut dyn LogReader) -> (Vec<Vec<u8>>, LogEvent) {
    let (mut records, mut end_of_last) = (Vec::new(), 0);
    loop {
        match good(reader.next()) {
            LogEvent::Record { offset, bytes } => {
                assert!(offset >= end_of_last, "records come in order");
                // With key-value separation, records of a WAL may be compressed or in a sidecar, so
                // their offsets cannot be compared.
                end_of_last = if separates_values(storage) { 0 } else { offset + bytes.len() as u64 };
                records.push(bytes);
            }
            end @ LogEvent::End { .. } => return (records, end),
            bad @ LogEvent::Bad { .. } => panic!("an intact log is reported as corrupt: {bad:?}"),
        }
    }
}

fn listed_bytes(storage: &dyn Storage, object: ObjectId) -> Option<u64> {
    good(storage.list()).into_iter().find(|listed| listed.object == object).map(|listed| listed.bytes)
}

/// Tests empty, small, block-sized and huge records. They must be read from a log that is still
/// open, and again after the store was reopened.
fn records_are_read_back(fixture: &Fixture) {
    let storage = fixture.with_root();
    for kind in [LogKind::Wal, LogKind::Manifest] {
        let (id, object) = match kind {
            LogKind::Wal => (LogId(5), ObjectId::Wal(LogId(5))),
            LogKind::Manifest => (LogId(6), ObjectId::Manifest(LogId(6))),
        };
        let mut written = vec![HEAD.to_vec()];
        let mut log = good(storage.create_log(id, kind, HEAD));
        for bytes in [0, 1, 6, 7, 100, 32_768 - 7, 32_768, 40_000, 0, 3, (1 << 20) - 1, (3 << 20) + 17, 0] {
            let record = record(&*storage, kind, bytes, written.len() as u64 + 7);
            good(log.append(&record));
            written.push(record);
            let listed = listed_bytes(&*storage, object);
            assert!(
                listed >= Some(log.bytes()),
                "an append reaches the file at once, which may be longer (preallocated)"
            );
        }
        good(log.sync());
        let end = LogEvent::End { offset: log.bytes(), torn: false };
        let mut reader = good(storage.open_log(id, kind));
        assert!(reader.ours(), "Terrace's first record is recognised");
        same(read_all(&*storage, &mut *reader), (written.clone(), end.clone()), "an open log");
        same(good(reader.next()), end.clone(), "the end is returned again");
        drop(log);
        let reopened = good(storage.open_log(id, kind)).as_mut().next();
        let offset = if separates_values(&*storage) && kind == LogKind::Wal { MAGIC.len() as u64 } else { 0 };
        same(good(reopened), LogEvent::Record { offset, bytes: HEAD.to_vec() }, "the first record comes first");
    }
    drop(storage);
    let storage = good(fixture.open(OpenMode::ReadOnly, &StorageConfig::default()));
    let (records, _) = read_all(&*storage, &mut *good(storage.open_log(LogId(5), LogKind::Wal)));
    same(records.len(), 14, "records after reopening");
}

/// Tests that a WAL and a manifest may have the same id, because they are different objects. A
/// second WAL with this id must be rejected.
fn a_wal_and_a_manifest_may_share_a_number(fixture: &Fixture) {
    let storage = fixture.with_root();
    let mut wal = good(storage.create_log(LogId(9), LogKind::Wal, HEAD));
    let mut manifest = good(storage.create_log(LogId(9), LogKind::Manifest, HEAD));
    let (batch, edit) = (record(&*storage, LogKind::Wal, 40, 8), record(&*storage, LogKind::Manifest, 4, 8));
    good(wal.append(&batch));
    good(manifest.append(&edit));
    refused(storage.create_log(LogId(9), LogKind::Wal, HEAD), |error| !is_missing(error));
    for (kind, record) in [(LogKind::Wal, batch), (LogKind::Manifest, edit)] {
        let (records, _) = read_all(&*storage, &mut *good(storage.open_log(LogId(9), kind)));
        same(records, vec![HEAD.to_vec(), record], "the record of its own log");
    }
    drop((wal, manifest)); // some systems list a removed file until its last handle is closed
    good(storage.remove(ObjectId::Wal(LogId(9))));
    good(storage.remove(ObjectId::WalSidecar(LogId(9))));
    refused(storage.open_log(LogId(9), LogKind::Wal), is_missing);
    good(storage.open_log(LogId(9), LogKind::Manifest));
}

fn a_missing_log_is_an_error(fixture: &Fixture) {
    let storage = fixture.with_root();
    refused(storage.open_log(LogId(77), LogKind::Wal), is_missing);
    refused(storage.open_log(LogId(77), LogKind::Manifest), is_missing);
}
