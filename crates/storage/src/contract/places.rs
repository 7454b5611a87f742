//! Cases for a store as a whole: `CURRENT`, the format file, the list of objects, locks, copies
//! that are set aside, and I/O statistics.
use super::kit::{
    Case, Fixture, HEAD, good, is_in_use, is_missing, one_table, record, refused, same, separates_values,
};
use crate::{
    Purpose, StorageConfig,
    placement::{Lifetime, LogKind, ObjectId, OpenMode, Storage},
};
use terrace_format::{FormatFile, LogId, SegmentId, SeqNo, TableId, key};

pub(super) const CASES: &[Case] = &[
    a_missing_store_is_an_error,
    the_root_is_replaced,
    the_format_file_is_kept,
    everything_is_listed_and_removed,
    copies_are_set_aside,
    one_writer_or_many_readers,
    readers_change_nothing,
    io_statistics_count_every_written_byte,
    limits_are_wide,
];

fn a_table(storage: &dyn Storage, id: u64, lifetime: Lifetime) -> u64 {
    let entry = (key::lookup(b"key", SeqNo(1)), vec![7; 5000]);
    one_table(storage, id, lifetime, [(&entry.0, &entry.1)]).bytes
}

fn objects(storage: &dyn Storage) -> Vec<ObjectId> {
    let mut found: Vec<_> = good(storage.list()).into_iter().map(|listed| listed.object).collect();
    found.sort();
    found
}

fn a_missing_store_is_an_error(fixture: &Fixture) {
    for mode in [OpenMode::Write, OpenMode::ReadOnly, OpenMode::ReadOnly] {
        refused(fixture.open(mode, &StorageConfig::default()), is_missing);
    }
    let storage = fixture.create();
    same(good(storage.load_root()), None, "the root of an empty fixture");
    same(objects(&*storage), vec![], "the objects of an empty fixture");
    drop(storage);
    refused(fixture.open(OpenMode::Write, &StorageConfig::default()), is_missing);
}

fn the_root_is_replaced(fixture: &Fixture) {
    let storage = fixture.with_root();
    same(good(storage.load_root()), Some(LogId(1)), "the first root");
    for id in [5, 123_456_789, 6] {
        good(storage.publish_root(LogId(id)));
        same(good(storage.load_root()), Some(LogId(id)), "the root just published");
    }
    same(objects(&*storage), vec![ObjectId::Manifest(LogId(1))], "nothing temporary stays");
    drop(storage);
    for mode in [OpenMode::Create, OpenMode::Write, OpenMode::ReadOnly] {
        let storage = good(fixture.open(mode, &StorageConfig::default()));
        same(good(storage.load_root()), Some(LogId(6)), "the root after reopening");
    }
}

fn the_format_file_is_kept(fixture: &Fixture) {
    let storage = fixture.create();
    same(good(storage.load_format_file()), None, "no format file yet");
    drop(storage);
    let storage = fixture.with_root();
    let layout = storage.layout();
    let text = FormatFile::new(layout, ["lz4"]).encode();
    good(storage.publish_format_file(&FormatFile::new(layout, []).encode()));
    good(storage.publish_format_file(&text));
    drop(storage);
    let storage = good(fixture.open(OpenMode::ReadOnly, &StorageConfig::default()));
    same(good(storage.load_format_file()), Some(text), "the format file after reopening");
    same(storage.layout(), layout, "the layout after reopening");
}

fn everything_is_listed_and_removed(fixture: &Fixture) {
    let storage = fixture.with_root();
    good(storage.publish_format_file(&FormatFile::new(storage.layout(), []).encode()));
    drop(good(storage.create_log(LogId(2), LogKind::Wal, HEAD)));
    drop(good(storage.create_log(LogId(3), LogKind::Manifest, HEAD)));
    let bytes = a_table(&*storage, 4, Lifetime::Flush);
    let table = ObjectId::Table(TableId(4));
    let mut all = vec![table, ObjectId::Wal(LogId(2)), ObjectId::Manifest(LogId(1)), ObjectId::Manifest(LogId(3))];
    if separates_values(&*storage) {
        // With key-value separation, the job that wrote the table also wrote a value-log segment.
        all.push(ObjectId::Segment(SegmentId(4)));
    }
    same(objects(&*storage), all.clone(), "objects");
    let listed = good(storage.list()).into_iter().find(|listed| listed.object == table);
    same(listed.map(|listed| listed.bytes), Some(bytes), "the size of the table");
    for object in all {
        good(storage.remove(object));
        good(storage.remove(object));
        assert!(!objects(&*storage).contains(&object), "{object:?} is removed");
    }
    good(storage.remove(ObjectId::Temporary(8)));
}

fn copies_are_set_aside(fixture: &Fixture) {
    let storage = fixture.with_root();
    drop(good(storage.create_log(LogId(2), LogKind::Wal, HEAD)));
    a_table(&*storage, 4, Lifetime::Flush);
    let before = good(storage.list());
    for object in [ObjectId::Wal(LogId(2)), ObjectId::Table(TableId(4)), ObjectId::Manifest(LogId(1))] {
        for _ in 0..3 {
            good(storage.set_aside(object));
        }
    }
    same(good(storage.list()), before, "the object stays and the copy is not listed");
    refused(storage.set_aside(ObjectId::Wal(LogId(99))), is_missing);
    // A copy in `lost/` prevents neither the removal of the object nor the creation of a new object
    // with the same number.
    good(storage.remove(ObjectId::Wal(LogId(2))));
    drop(good(storage.create_log(LogId(2), LogKind::Wal, HEAD)));
    good(storage.set_aside(ObjectId::Wal(LogId(2))));
}

fn one_writer_or_many_readers(fixture: &Fixture) {
    let setup = StorageConfig::default();
    let writer = fixture.with_root();
    for mode in [OpenMode::Create, OpenMode::Write, OpenMode::ReadOnly] {
        refused(fixture.open(mode, &setup), is_in_use);
    }
    let log = good(writer.create_log(LogId(7), LogKind::Wal, HEAD));
    drop(writer);
    // The log writer keeps the store locked, although the store was dropped.
    refused(fixture.open(OpenMode::Write, &setup), is_in_use);
    drop(log);
    let readers = (good(fixture.open(OpenMode::ReadOnly, &setup)), good(fixture.open(OpenMode::ReadOnly, &setup)));
    refused(fixture.open(OpenMode::Write, &setup), is_in_use);
    drop(readers.0);
    refused(fixture.open(OpenMode::Create, &setup), is_in_use);
    drop(readers.1);
    good(fixture.open(OpenMode::Write, &setup));
}

fn readers_change_nothing(fixture: &Fixture) {
    let storage = fixture.with_root();
    a_table(&*storage, 4, Lifetime::Flush);
    let (before, format_file) = (good(storage.list()), good(storage.load_format_file()));
    drop(storage);
    let reader = good(fixture.open(OpenMode::ReadOnly, &StorageConfig::default()));
    let allowed = |_: &crate::Error| true;
    refused(reader.create_log(LogId(8), LogKind::Wal, HEAD), allowed);
    refused(reader.begin(super::kit::hint(Lifetime::Flush)), allowed);
    refused(reader.publish_root(LogId(8)), allowed);
    refused(reader.publish_format_file("text"), allowed);
    refused(reader.remove(ObjectId::Table(TableId(4))), allowed);
    refused(reader.set_aside(ObjectId::Table(TableId(4))), allowed);
    same(good(reader.list()), before, "a reader changes nothing");
    same(
        (good(reader.load_root()), good(reader.load_format_file())),
        (Some(LogId(1)), format_file),
        "root and format file",
    );
}

fn io_statistics_count_every_written_byte(fixture: &Fixture) {
    let storage = fixture.with_root();
    let bytes = |purpose| storage.io_stats().bytes(purpose);
    let mut log = good(storage.create_log(LogId(2), LogKind::Wal, HEAD));
    good(log.append(&record(&*storage, LogKind::Wal, 2_000_000, 8)));
    good(log.append(&record(&*storage, LogKind::Wal, 20, 9)));
    good(log.sync());
    let (flushed, compacted) = (a_table(&*storage, 4, Lifetime::Flush), a_table(&*storage, 5, Lifetime::Compaction));
    let files = good(storage.list());
    let of =
        |number: u64| files.iter().filter(move |listed| listed.object.number() == number).map(|listed| listed.bytes);
    let relocated = if separates_values(&*storage) { bytes(Purpose::ValueLogGc) } else { 0 };
    let wrote = (bytes(Purpose::Flush), bytes(Purpose::Compaction) + relocated);
    same(wrote, (of(4).sum(), of(5).sum()), "bytes of tables and of their values");
    let by_level = |level| if level == super::kit::COMPACTED_LEVEL { bytes(Purpose::Compaction) } else { 0 };
    same(storage.io_stats().compacted(), std::array::from_fn(by_level), "bytes of compactions by level");
    assert!(wrote.0 >= flushed && wrote.1 >= compacted, "no less than the size of the tables");
    same(bytes(Purpose::Wal), log.bytes() + log.sidecar_bytes(), "bytes of the log");
    // While a log is open, its file may be preallocated and therefore longer than its records.
    drop(log);
    let tables_and_logs: u64 = good(storage.list()).iter().map(|listed| listed.bytes).sum();
    let counted = Purpose::ALL.into_iter().map(bytes).sum::<u64>() - bytes(Purpose::Other);
    same(counted, tables_and_logs, "everything that is listed was counted");
    let before = bytes(Purpose::Other);
    good(storage.publish_format_file("ten bytes."));
    same(bytes(Purpose::Other) - before, 10, "bytes of the format file");
}

fn limits_are_wide(fixture: &Fixture) {
    let storage = fixture.create();
    let limits = storage.limits();
    assert!(limits.key_bytes_max >= 1 << 16, "{limits:?}");
    // With key-value separation, the stored form of a value has an extra byte, which records where
    // the value is stored. The largest value is therefore one byte smaller.
    let form = u64::from(separates_values(&*storage));
    assert!(limits.value_bytes_max >= u64::from(u32::MAX) - form, "{limits:?}");
}
