//! Tests of memory-mapped tables and segments: values must be read without a copy, and a missing
//! page must cause a clear message.
use std::{
    fs::OpenOptions,
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Output},
};
use terrace_format::{
    Batch, Codec, FormatFile, Kind, Layout, LogId, Op, SeqNo, TableId, Values, key, value_log::ValuePointer,
};
use terrace_storage::{
    DurabilityMode, Holder, Location, ReadCoalescer, StorageConfig, open,
    placement::{
        Bytes, EntryRef, Hint, Lifetime, LogEvent, LogKind, LogWriter, ObjectId, OpenMode, Origin, Storage, TableMeta,
        TableReadOptions,
    },
};

const HOW: TableReadOptions = TableReadOptions { verify: true, fill_cache: true };
const STORE: &str = "TERRACE_TEST_MAPPED_STORE";
const SIGBUS: i32 = 7;

fn open_mapped(path: &Path, mode: OpenMode) -> Box<dyn Storage> {
    let setup = StorageConfig { allow_mmap_reads: true, codec: Codec::None, ..StorageConfig::default() };
    open(&Location::Directory(path.into()), mode, DurabilityMode::None, &setup).unwrap()
}

fn user(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn value_log(path: &Path, mode: OpenMode) -> Box<dyn Storage> {
    let layout = Layout { values: Values::Log, ..Layout::default() };
    let setup = StorageConfig {
        allow_mmap_reads: true,
        codec: Codec::None,
        layout,
        value_log_threshold: 100,
        ..StorageConfig::default()
    };
    open(&Location::Directory(path.into()), mode, DurabilityMode::None, &setup).unwrap()
}

/// Returns a batch with one put of 1000 bytes.
fn batch(number: u32) -> Batch {
    let mut batch = Batch::new();
    batch.put(&user(number), &[number as u8; 1000]);
    batch.set_sequence(SeqNo(u64::from(number) + 1));
    batch
}

/// Returns the stored forms of the first `count` values of WAL 3, as memtables contain them.
fn stored(storage: &dyn Storage, count: usize) -> Vec<Bytes> {
    let mut log = storage.open_log(LogId(3), LogKind::Wal).unwrap();
    let next = || match log.next().unwrap() {
        LogEvent::Record { bytes, .. } => match log.store(Batch::decode(bytes).unwrap()).ops().next() {
            Some(Op::Put(_, stored)) => Bytes::from(stored.to_vec()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Builds a table of 1000 values of 1000 bytes.
fn table(storage: &dyn Storage) -> TableMeta {
    let hint = Hint { level: 0, expected_bytes: 1 << 20, lifetime: Lifetime::Flush };
    let mut build = storage.begin(hint).unwrap();
    build.begin_table(TableId(7)).unwrap();
    for number in 0..1000 {
        let key = key::encode(&user(number), SeqNo(1), Kind::Put);
        build.keep(EntryRef { key: &key, stored: &[number as u8; 1000], origin: Origin::Memory }).unwrap();
    }
    build.end_table().unwrap();
    build.finish().unwrap().0.remove(0)
}

#[test]
fn a_mapped_table_stays_readable_after_its_removal() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open_mapped(folder.path(), OpenMode::Create);
    let meta = table(&*storage);
    let table = storage.open_table(&meta).unwrap();
    std::fs::remove_file(folder.path().join("000007.ldb")).unwrap();
    for number in [0, 500, 999] {
        let found = table.get(&key::lookup(&user(number), SeqNo(9)), HOW).unwrap().unwrap();
        assert_eq!(*found.value, [number as u8; 1000]);
    }
    let mut cursor = table.cursor(HOW).unwrap();
    cursor.seek_last().unwrap();
    drop(table);
    assert_eq!(cursor.value(), [231; 1000], "a cursor keeps the mapping");
}

/// Tests that a scan of a mapped table does not copy the values. The addresses of the returned
/// values ascend only if they are not copied: copies would use the same buffer again.
#[test]
fn a_scan_of_a_mapped_table_returns_values_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open_mapped(folder.path(), OpenMode::Create);
    let meta = table(&*storage);
    let mut cursor = storage.open_table(&meta).unwrap().cursor(HOW).unwrap();
    let mut addresses = Vec::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        assert_eq!(cursor.value(), [addresses.len() as u8; 1000]);
        addresses.push(cursor.value().as_ptr().addr());
        cursor.next().unwrap();
    }
    assert!(addresses.len() == 1000 && addresses.is_sorted() && addresses[999] - addresses[0] < meta.bytes as usize);
    cursor.seek_last().unwrap();
    for place in addresses.into_iter().rev() {
        assert_eq!(cursor.value().as_ptr().addr(), place);
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
}

/// Tests when a WAL can be mapped. While it is written, it ends in preallocated zeros and cannot
/// be mapped. When the WAL ends, the zeros are truncated, and it can be mapped.
#[test]
fn a_segment_is_mapped_once_it_has_ended() {
    segment_is_mapped(|mut log| log.end());
    // A WAL whose writer is dropped ends in the same way.
    segment_is_mapped(drop);
}

fn segment_is_mapped(end: impl FnOnce(Box<dyn LogWriter>)) {
    let folder = tempfile::tempdir().unwrap();
    let storage = value_log(folder.path(), OpenMode::Create);
    let mut log = storage.create_log(LogId(3), LogKind::Wal, batch(0).as_bytes()).unwrap();
    let segment = storage.open_segment(ObjectId::Wal(LogId(3))).unwrap();
    let value = |number: u32, stored: &Bytes| {
        let value = storage.value(&user(number), SeqNo(u64::from(number) + 1), stored.clone(), HOW).unwrap();
        assert_eq!(*value, [number as u8; 1000]);
        value
    };
    value(0, &stored(&*storage, 1)[0]);
    assert!(segment.shown().is_none());
    (1..100).for_each(|number| log.append(batch(number).as_bytes()).unwrap());
    let all = stored(&*storage, 100);
    value(99, &all[99]);
    assert!(segment.shown().is_none());
    let bytes = log.bytes();
    end(log);
    assert_eq!(segment.shown().unwrap().len() as u64, bytes);
    let mut coalescer = ReadCoalescer::new(1 << 20, storage.budget());
    let values: Vec<Bytes> = (0..100).zip(&all).map(|(number, stored)| value(number, stored)).collect();
    for (number, (stored, value)) in all.iter().zip(&values).enumerate() {
        let next = storage.next_value(&user(number as u32), SeqNo(number as u64 + 1), stored, HOW, &mut coalescer);
        assert_eq!(next.unwrap().as_ptr(), value.as_ptr(), "in place, for a scan as for a lookup");
    }
    assert!(storage.budget().held().0[Holder::Cursors as usize] == 0, "values in place take no memory");
    let beyond = ValuePointer { moved: false, segment: 3, offset: bytes - 10, bytes: 1000 };
    let mut stored = Vec::new();
    beyond.put(&mut stored);
    let error = storage.value(&user(0), SeqNo(1), Bytes::from(stored), HOW).unwrap_err().to_string();
    assert!(error.contains("000003.vlog") && error.contains("it ends before"), "{error}");
    storage.remove(ObjectId::Wal(LogId(3))).unwrap();
    assert_eq!(*values[57], [57; 1000], "a value keeps the mapping");
}

/// Tests a value-log segment that was written before the store was last opened. It must be mapped,
/// and each read of a value must verify the value's checksum.
#[test]
fn segments_of_an_earlier_session_are_mapped_and_verified_at_every_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = value_log(folder.path(), OpenMode::Create);
    drop(storage.create_log(LogId(3), LogKind::Wal, batch(0).as_bytes()).unwrap());
    drop(storage.create_log(LogId(2), LogKind::Manifest, &[1; 12]).unwrap());
    storage.publish_format_file(&FormatFile::new(storage.layout(), []).encode()).unwrap();
    storage.publish_root(LogId(2)).unwrap();
    drop(storage);
    let storage = value_log(folder.path(), OpenMode::Write);
    let stored = stored(&*storage, 1).remove(0);
    let value = || storage.value(&user(0), SeqNo(1), stored.clone(), HOW);
    assert_eq!(*value().unwrap(), [0; 1000]);
    assert!(storage.open_segment(ObjectId::Wal(LogId(3))).unwrap().shown().is_some());
    let file = OpenOptions::new().write(true).open(folder.path().join("000003.vlog")).unwrap();
    file.write_all_at(&[1], 500).unwrap();
    let error = value().unwrap_err().to_string();
    assert!(error.contains("checksum") && error.contains("000003.vlog"), "{error}");
}

#[test]
fn mapped_blocks_are_verified_at_every_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open_mapped(folder.path(), OpenMode::Create);
    let meta = table(&*storage);
    let table = storage.open_table(&meta).unwrap();
    let lookup = key::lookup(&user(0), SeqNo(9));
    assert!(table.get(&lookup, HOW).unwrap().is_some());
    let file = OpenOptions::new().write(true).open(folder.path().join("000007.ldb")).unwrap();
    // Changes a byte in the value of the first key from 0 to 1.
    file.write_all_at(&[1], 100).unwrap();
    let error = table.get(&lookup, HOW).unwrap_err().to_string();
    assert!(error.contains("checksum") && error.contains("000007.ldb"), "{error}");
    let error = table.cursor(HOW).unwrap().seek_first().unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
    let trusting = TableReadOptions { verify: false, ..HOW };
    assert_eq!(table.get(&lookup, trusting).unwrap().unwrap().value.iter().sum::<u8>(), 1);
}

/// Not a test: the child process of the test that truncates a file. It reads a table after the
/// table's file was truncated.
#[test]
fn child_that_reads_a_truncated_table() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let storage = open_mapped(Path::new(&path), OpenMode::Create);
    let meta = table(&*storage);
    let table = storage.open_table(&meta).unwrap();
    let file = Path::new(&path).join("000007.ldb");
    OpenOptions::new().write(true).open(file).unwrap().set_len(4096).unwrap();
    let found = table.get(&key::lookup(&user(900), SeqNo(9)), HOW);
    unreachable!("a missing page was read: {found:?}");
}

#[test]
fn a_missing_page_ends_the_process_with_a_message_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stderr, .. } = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mapped::child_that_reads_a_truncated_table", "--nocapture"])
        .env(STORE, folder.path())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&stderr);
    assert_eq!(status.signal(), Some(SIGBUS), "{status}, {message}");
    let file = folder.path().join("000007.ldb");
    assert!(
        message.contains("a page of a mapped file cannot be read") && message.contains(file.to_str().unwrap()),
        "{message}"
    );
}
