//! Tests of memory-mapped files: a missing page of a table must be an error, and a missing page of
//! a WAL must cause a clear message. Tests of values in the value log are here too.
use std::{
    fs::OpenOptions,
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Output},
};
use terrace_format::{Batch, Codec, FormatFile, Kind, Layout, LogId, Op, SeqNo, TableId, Values, key};
use terrace_storage::{
    DurabilityMode, Error, Location, StorageConfig, WalWriteMode, open,
    placement::{
        Bytes, EntryRef, Hint, Lifetime, LogEvent, LogKind, OpenMode, Origin, Storage, TableMeta, TableReadOptions,
    },
};

const HOW: TableReadOptions = TableReadOptions { verify: true, fill_cache: true };
const BACKGROUND: TableReadOptions = TableReadOptions { verify: true, fill_cache: false };
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

/// Returns the stored form of the first value of WAL 3, as memtables contain it.
fn stored(storage: &dyn Storage) -> Bytes {
    let mut log = storage.open_log(LogId(3), LogKind::Wal).unwrap();
    match log.next().unwrap() {
        LogEvent::Record { bytes, .. } => match log.store(Batch::decode(bytes).unwrap()).ops().next() {
            Some(Op::Put(_, stored)) => Bytes::from(stored.to_vec()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
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
    assert_eq!(cursor.value(), [231; 1000], "a cursor keeps the file");
}

/// Tests random moves of a cursor over a mapped table. A seek copies only one entry, and the next
/// move needs its block.
#[test]
fn a_cursor_over_a_mapped_table_moves_like_a_cursor_over_read_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open_mapped(folder.path(), OpenMode::Create);
    let meta = table(&*storage);
    let table = storage.open_table(&meta).unwrap();
    let [mut mapped, mut read] = [HOW, BACKGROUND].map(|how| table.cursor(how).unwrap());
    let mut state = 1_u64;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    for step in 0..20_000 {
        let (action, number) = (below(8), below(1100) as u32);
        for cursor in [&mut mapped, &mut read] {
            match action {
                0..3 => cursor.seek(&key::lookup(&user(number), SeqNo(number as u64 % 2 + 1))).unwrap(),
                3 if number < 50 => cursor.seek_first().unwrap(),
                4 if number < 50 => cursor.seek_last().unwrap(),
                3..6 if cursor.valid() => cursor.next().unwrap(),
                _ if cursor.valid() => cursor.prev().unwrap(),
                _ => {}
            }
        }
        assert_eq!(mapped.valid(), read.valid(), "step {step}");
        if mapped.valid() {
            assert_eq!((mapped.key(), mapped.value()), (read.key(), read.value()), "step {step}");
        }
    }
}

/// Tests a seek that fails after a seek that copied an entry: the cursor must not stay at that
/// entry.
#[test]
fn a_cursor_is_invalid_after_a_failed_seek() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open_mapped(folder.path(), OpenMode::Create);
    let meta = table(&*storage);
    flip(&folder.path().join("000007.ldb"), 500_000);
    let table = storage.open_table(&meta).unwrap();
    let mut cursor = table.cursor(HOW).unwrap();
    let mut failed = 0;
    for number in 0..1000 {
        cursor.seek(&key::lookup(&user(0), SeqNo(1))).unwrap();
        assert_eq!(cursor.value(), [0; 1000]);
        if cursor.seek(&key::lookup(&user(number), SeqNo(1))).is_err() {
            assert!(!cursor.valid());
            failed += 1;
        }
    }
    assert!((1..20).contains(&failed), "{failed} keys are in the damaged block");
}

/// Tests a value-log segment that was written before the store was last opened: each read of a
/// value must verify the value's checksum.
#[test]
fn values_of_an_earlier_session_are_verified_at_every_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = value_log(folder.path(), OpenMode::Create);
    drop(storage.create_log(LogId(3), LogKind::Wal, batch(0).as_bytes()).unwrap());
    drop(storage.create_log(LogId(2), LogKind::Manifest, &[1; 12]).unwrap());
    storage.publish_format_file(&FormatFile::new(storage.layout(), []).encode()).unwrap();
    storage.publish_root(LogId(2)).unwrap();
    drop(storage);
    let storage = value_log(folder.path(), OpenMode::Write);
    let stored = stored(&*storage);
    let value = || storage.value(&user(0), SeqNo(1), stored.clone());
    assert_eq!(*value().unwrap(), [0; 1000]);
    flip(&folder.path().join("000003.vlog"), 500);
    let error = value().unwrap_err().to_string();
    assert!(error.contains("checksum") && error.contains("000003.vlog"), "{error}");
}

/// Changes the byte of `file` at `offset` from 0 to 1.
fn flip(file: &Path, offset: u64) {
    OpenOptions::new().write(true).open(file).unwrap().write_all_at(&[1], offset).unwrap();
}

#[test]
fn mapped_blocks_are_verified_when_they_are_first_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open_mapped(folder.path(), OpenMode::Create);
    let meta = table(&*storage);
    let file = folder.path().join("000007.ldb");
    let open = || storage.open_table(&meta).unwrap();
    let (lookup, first) = (key::lookup(&user(0), SeqNo(9)), |how| open().get(&key::lookup(&user(0), SeqNo(9)), how));
    let table = open();
    assert!(table.get(&lookup, HOW).unwrap().is_some());
    flip(&file, 100); // in the value of the first key
    // The block is verified already, so a lookup through the mapping returns the changed value.
    assert_eq!(table.get(&lookup, HOW).unwrap().unwrap().value.iter().sum::<u8>(), 1);
    // So does a cursor, which copies the block into the cache.
    let mut cursor = table.cursor(HOW).unwrap();
    cursor.seek_first().unwrap();
    assert_eq!(cursor.value().iter().sum::<u8>(), 1);
    let error = table.cursor(BACKGROUND).unwrap().seek_first().unwrap_err().to_string();
    assert!(error.contains("checksum"), "a compaction does not use the cached copy: {error}");
    let error = first(HOW).unwrap_err().to_string();
    assert!(error.contains("checksum") && error.contains("000007.ldb"), "after an open: {error}");
    // A lookup that does not verify must not count as verification.
    let (trusting, table) = (TableReadOptions { verify: false, ..HOW }, open());
    assert_eq!(table.get(&lookup, trusting).unwrap().unwrap().value.iter().sum::<u8>(), 1);
    assert!(table.get(&lookup, HOW).unwrap_err().to_string().contains("checksum"));
}

/// Runs the test `name` in a child process with the variable `STORE`, and returns its output.
fn child(name: &str, store: &Path) -> Output {
    let test = format!("mapped::{name}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture"]).env(STORE, store).output().unwrap()
}

/// Not a test: the child process of the test that truncates a table.
#[test]
fn child_that_reads_a_truncated_table() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let stores = ["a", "b"].map(|name| Path::new(&path).join(name));
    let storages = stores.clone().map(|path| open_mapped(&path, OpenMode::Create));
    let tables = [0, 1].map(|at| storages[at].open_table(&table(&*storages[at])).unwrap());
    let get = |at: usize, number| tables[at].get(&key::lookup(&user(number), SeqNo(9)), HOW);
    let read_all = |at: usize| (0..1000).for_each(|number| assert!(get(at, number).unwrap().is_some()));
    // The second round reads through the mappings.
    [0, 1, 0, 1].into_iter().for_each(read_all);
    OpenOptions::new().write(true).open(stores[0].join("000007.ldb")).unwrap().set_len(8192).unwrap();
    for number in [900, 901, 999] {
        match get(0, number) {
            Err(Error::Io { object, .. }) => assert_eq!(Path::new(&object), stores[0].join("000007.ldb")),
            other => panic!("not an error of the device: {other:?}"),
        }
    }
    let mut cursor = tables[0].cursor(HOW).unwrap();
    assert!(cursor.seek(&key::lookup(&user(900), SeqNo(9))).is_err());
    assert_eq!(*get(0, 0).unwrap().unwrap().value, [0; 1000], "a page that still exists");
    read_all(1);
    println!("the reads failed with errors");
}

#[test]
fn a_missing_page_of_a_table_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stdout, stderr } = child("child_that_reads_a_truncated_table", folder.path());
    let shown = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
    assert!(status.success() && shown.contains("the reads failed with errors"), "{status}, {shown}");
}

/// Not a test: the child process of the test that truncates a WAL.
#[test]
fn child_that_writes_a_truncated_wal() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let setup = StorageConfig { wal_write_mode: WalWriteMode::Map, ..StorageConfig::default() };
    let location = Location::Directory(Path::new(&path).into());
    let storage = open(&location, OpenMode::Create, DurabilityMode::None, &setup).unwrap();
    let mut log = storage.create_log(LogId(3), LogKind::Wal, batch(0).as_bytes()).unwrap();
    OpenOptions::new().write(true).open(Path::new(&path).join("000003.log")).unwrap().set_len(0).unwrap();
    (1..100).for_each(|number| log.append(batch(number).as_bytes()).unwrap());
    unreachable!("missing pages were written");
}

/// Tests a mapped WAL. An unreadable page would lose acknowledged writes, so it ends the process.
#[test]
fn a_missing_page_of_a_wal_ends_the_process_with_a_message_that_names_the_file() {
    // WALs are mapped on tmpfs, whatever the file system of the other temporary files is.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let Output { status, stderr, .. } = child("child_that_writes_a_truncated_wal", folder.path());
    let message = String::from_utf8_lossy(&stderr);
    assert_eq!(status.signal(), Some(SIGBUS), "{status}, {message}");
    let file = folder.path().join("000003.log");
    assert!(
        message.contains("a page of a mapped file cannot be read") && message.contains(file.to_str().unwrap()),
        "{message}"
    );
}
