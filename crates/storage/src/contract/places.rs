//! The place itself: root, marker, lists, locks, what is set aside, and what is counted.
use super::kit::{Case, HEAD, Place, good, is_apart, is_in_use, is_missing, one_table, record, refused, same};
use crate::{
    Purpose, StorageConfig,
    placement::{Lifetime, LogKind, ObjectId, OpenMode, Storage},
};
use terrace_format::{FormatFile, LogId, SegmentId, SeqNo, TableId, key};

pub(super) const CASES: &[Case] = &[
    a_missing_store_is_missing,
    the_root_is_replaced,
    the_marker_is_remembered,
    everything_is_listed_and_removed,
    copies_are_set_aside,
    one_writer_or_many_readers,
    readers_change_nothing,
    traffic_is_what_was_written,
    limits_are_wide,
];

fn a_table(placement: &dyn Storage, id: u64, lifetime: Lifetime) -> u64 {
    let entry = (key::lookup(b"key", SeqNo(1)), vec![7; 5000]);
    one_table(placement, id, lifetime, [(&entry.0, &entry.1)]).bytes
}

fn objects(placement: &dyn Storage) -> Vec<ObjectId> {
    let mut found: Vec<_> = good(placement.list()).into_iter().map(|listed| listed.object).collect();
    found.sort();
    found
}

fn a_missing_store_is_missing(place: &Place) {
    for mode in [OpenMode::Write, OpenMode::ReadOnly, OpenMode::ReadOnly] {
        refused(place.open(mode, &StorageConfig::default()), is_missing);
    }
    let placement = place.create();
    same(good(placement.load_root()), None, "the root of an empty place");
    same(objects(&*placement), vec![], "the objects of an empty place");
    drop(placement);
    refused(place.open(OpenMode::Write, &StorageConfig::default()), is_missing);
}

fn the_root_is_replaced(place: &Place) {
    let placement = place.with_root();
    same(good(placement.load_root()), Some(LogId(1)), "the first root");
    for id in [5, 123_456_789, 6] {
        good(placement.publish_root(LogId(id)));
        same(good(placement.load_root()), Some(LogId(id)), "the root just published");
    }
    same(objects(&*placement), vec![ObjectId::Manifest(LogId(1))], "nothing temporary stays");
    drop(placement);
    for mode in [OpenMode::Create, OpenMode::Write, OpenMode::ReadOnly] {
        let placement = good(place.open(mode, &StorageConfig::default()));
        same(good(placement.load_root()), Some(LogId(6)), "the root after reopening");
    }
}

fn the_marker_is_remembered(place: &Place) {
    let placement = place.create();
    same(good(placement.load_marker()), None, "no marker yet");
    drop(placement);
    let placement = place.with_root();
    let layout = placement.layout();
    let text = FormatFile::new(layout, ["lz4"]).encode();
    good(placement.publish_marker(&FormatFile::new(layout, []).encode()));
    good(placement.publish_marker(&text));
    drop(placement);
    let placement = good(place.open(OpenMode::ReadOnly, &StorageConfig::default()));
    same(good(placement.load_marker()), Some(text), "the marker after reopening");
    same(placement.layout(), layout, "the layout after reopening");
}

fn everything_is_listed_and_removed(place: &Place) {
    let placement = place.with_root();
    good(placement.publish_marker(&FormatFile::new(placement.layout(), []).encode()));
    drop(good(placement.create_log(LogId(2), LogKind::Wal, HEAD)));
    drop(good(placement.create_log(LogId(3), LogKind::Manifest, HEAD)));
    let bytes = a_table(&*placement, 4, Lifetime::Flush);
    let table = ObjectId::Table(TableId(4));
    let mut all = vec![table, ObjectId::Wal(LogId(2)), ObjectId::Manifest(LogId(1)), ObjectId::Manifest(LogId(3))];
    if is_apart(&*placement) {
        all.push(ObjectId::Segment(SegmentId(4))); // of the build's
    }
    same(objects(&*placement), all.clone(), "objects");
    let listed = good(placement.list()).into_iter().find(|listed| listed.object == table);
    same(listed.map(|listed| listed.bytes), Some(bytes), "the size of the table");
    for object in all {
        good(placement.remove(object));
        good(placement.remove(object));
        assert!(!objects(&*placement).contains(&object), "{object:?} is gone");
    }
    good(placement.remove(ObjectId::Temporary(8)));
}

fn copies_are_set_aside(place: &Place) {
    let placement = place.with_root();
    drop(good(placement.create_log(LogId(2), LogKind::Wal, HEAD)));
    a_table(&*placement, 4, Lifetime::Flush);
    let before = good(placement.list());
    for object in [ObjectId::Wal(LogId(2)), ObjectId::Table(TableId(4)), ObjectId::Manifest(LogId(1))] {
        for _ in 0..3 {
            good(placement.set_aside(object));
        }
    }
    same(good(placement.list()), before, "the object stays, the copy is not listed");
    refused(placement.set_aside(ObjectId::Wal(LogId(99))), is_missing);
    // The copy does not hinder removing the object, nor making and setting aside another of its number.
    good(placement.remove(ObjectId::Wal(LogId(2))));
    drop(good(placement.create_log(LogId(2), LogKind::Wal, HEAD)));
    good(placement.set_aside(ObjectId::Wal(LogId(2))));
}

fn one_writer_or_many_readers(place: &Place) {
    let setup = StorageConfig::default();
    let writer = place.with_root();
    for mode in [OpenMode::Create, OpenMode::Write, OpenMode::ReadOnly] {
        refused(place.open(mode, &setup), is_in_use);
    }
    let log = good(writer.create_log(LogId(7), LogKind::Wal, HEAD));
    drop(writer);
    refused(place.open(OpenMode::Write, &setup), is_in_use); // somebody can still write
    drop(log);
    let readers = (good(place.open(OpenMode::ReadOnly, &setup)), good(place.open(OpenMode::ReadOnly, &setup)));
    refused(place.open(OpenMode::Write, &setup), is_in_use);
    drop(readers.0);
    refused(place.open(OpenMode::Create, &setup), is_in_use);
    drop(readers.1);
    good(place.open(OpenMode::Write, &setup));
}

fn readers_change_nothing(place: &Place) {
    let placement = place.with_root();
    a_table(&*placement, 4, Lifetime::Flush);
    let (before, marker) = (good(placement.list()), good(placement.load_marker()));
    drop(placement);
    let reader = good(place.open(OpenMode::ReadOnly, &StorageConfig::default()));
    let allowed = |_: &crate::Error| true;
    refused(reader.create_log(LogId(8), LogKind::Wal, HEAD), allowed);
    refused(reader.begin(super::kit::hint(Lifetime::Flush)), allowed);
    refused(reader.publish_root(LogId(8)), allowed);
    refused(reader.publish_marker("text"), allowed);
    refused(reader.remove(ObjectId::Table(TableId(4))), allowed);
    refused(reader.set_aside(ObjectId::Table(TableId(4))), allowed);
    same(good(reader.list()), before, "a reader changes nothing");
    same((good(reader.load_root()), good(reader.load_marker())), (Some(LogId(1)), marker), "root and marker");
}

fn traffic_is_what_was_written(place: &Place) {
    let placement = place.with_root();
    let bytes = |purpose| placement.traffic().bytes(purpose);
    let mut log = good(placement.create_log(LogId(2), LogKind::Wal, HEAD));
    good(log.append(&record(&*placement, LogKind::Wal, 2_000_000, 8)));
    good(log.append(&record(&*placement, LogKind::Wal, 20, 9)));
    good(log.sync());
    let (flushed, compacted) =
        (a_table(&*placement, 4, Lifetime::Flush), a_table(&*placement, 5, Lifetime::Compaction));
    let files = good(placement.list());
    let of =
        |number: u64| files.iter().filter(move |listed| listed.object.number() == number).map(|listed| listed.bytes);
    let collected = if is_apart(&*placement) { bytes(Purpose::ValueLogGc) } else { 0 };
    let wrote = (bytes(Purpose::Flush), bytes(Purpose::Compaction) + collected);
    same(wrote, (of(4).sum(), of(5).sum()), "bytes of tables and of their values");
    let by_level = |level| if level == super::kit::COMPACTED_LEVEL { bytes(Purpose::Compaction) } else { 0 };
    same(placement.traffic().compacted(), std::array::from_fn(by_level), "bytes of compactions by level");
    assert!(wrote.0 >= flushed && wrote.1 >= compacted, "no less than the tables have");
    same(bytes(Purpose::Wal), log.bytes() + log.small_bytes(), "bytes of the log");
    drop(log); // while it is written, a log may be longer than what it holds
    let tables_and_logs: u64 = good(placement.list()).iter().map(|listed| listed.bytes).sum();
    let counted = Purpose::ALL.into_iter().map(bytes).sum::<u64>() - bytes(Purpose::Other);
    same(counted, tables_and_logs, "everything that is listed was counted");
    let before = bytes(Purpose::Other);
    good(placement.publish_marker("ten bytes."));
    same(bytes(Purpose::Other) - before, 10, "bytes of the marker");
}

fn limits_are_wide(place: &Place) {
    let placement = place.create();
    let limits = placement.limits();
    assert!(limits.key_bytes_max >= 1 << 16, "{limits:?}");
    let form = u64::from(is_apart(&*placement)); // a byte that says where a value is
    assert!(limits.value_bytes_max >= u64::from(u32::MAX) - form, "{limits:?}");
}
