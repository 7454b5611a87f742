//! Tests of properties that only a real directory has: file names, locks of other programs,
//! removal, and the syncs of each durability mode.
use std::{fs, path::Path, sync::Arc};
use terrace_format::{FormatFile, Layout, LogId, SeqNo, TableForm, TableId, filter::Bloom, key};
use terrace_storage::{
    DurabilityMode, Error, FilterForm, Location, Memory, Purpose, StorageConfig, SyncKind, destroy, open,
    placement::{
        EntryRef, Hint, Lifetime, LogKind, ObjectId, OpenMode, Origin, Piece, Storage, TableMeta, TableReadOptions,
    },
};

const HOW: TableReadOptions = TableReadOptions { verify: true, fill_cache: true };

fn create(path: &Path, durability_mode: DurabilityMode) -> Box<dyn Storage> {
    open(&Location::Directory(path.into()), OpenMode::Create, durability_mode, &StorageConfig::default()).unwrap()
}

fn build_table(storage: &dyn Storage, id: u64) -> TableMeta {
    let mut build = storage.begin(Hint { level: 0, expected_bytes: 100, lifetime: Lifetime::Flush }).unwrap();
    build.begin_table(TableId(id)).unwrap();
    let key = key::lookup(b"key", SeqNo(1));
    build.keep(EntryRef { key: &key, stored: b"value", origin: Origin::Memory }).unwrap();
    build.end_table().unwrap();
    build.finish().unwrap().0.remove(0)
}

/// Creates a store with one file of every kind.
fn full_store(path: &Path) {
    let storage = create(path, DurabilityMode::Sync);
    storage.create_log(LogId(1), LogKind::Manifest, b"twelve bytes").unwrap();
    storage.create_log(LogId(2), LogKind::Wal, b"twelve bytes").unwrap();
    build_table(&*storage, 3);
    storage.publish_root(LogId(1)).unwrap();
    storage.publish_format_file(&FormatFile::new(storage.layout(), []).encode()).unwrap();
    for _ in 0..2 {
        storage.set_aside(ObjectId::Wal(LogId(2))).unwrap();
    }
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_have_leveldbs_names() {
    let folder = tempfile::tempdir().unwrap();
    full_store(folder.path());
    let expected = ["000002.log", "000003.ldb", "CURRENT", "LOCK", "MANIFEST-000001", "TERRACE", "lost"];
    assert_eq!(names(folder.path()), expected);
    assert_eq!(names(&folder.path().join("lost")), ["000002.log", "000002.log-2"]);
    assert_eq!(fs::read(folder.path().join("CURRENT")).unwrap(), b"MANIFEST-000001\n");
}

#[test]
fn tables_with_the_suffix_sst_are_found_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let storage = create(folder.path(), DurabilityMode::Sync);
    let meta = build_table(&*storage, 3);
    fs::rename(folder.path().join("000003.ldb"), folder.path().join("000003.sst")).unwrap();
    let found = storage.open_table(&meta).unwrap().get(&key::lookup(b"key", SeqNo(9)), HOW).unwrap();
    assert_eq!(*found.unwrap().value, *b"value");
    assert_eq!(storage.list().unwrap()[0].object, ObjectId::Table(TableId(3)));
    let present = storage.place_of(ObjectId::Table(TableId(3)));
    assert!(present.ends_with("/000003.sst"), "{present}");
    let absent = storage.place_of(ObjectId::Table(TableId(4)));
    assert!(absent.ends_with("/000004.ldb"), "{absent}");
    storage.set_aside(ObjectId::Table(TableId(3))).unwrap();
    storage.remove(ObjectId::Table(TableId(3))).unwrap();
    assert_eq!(names(folder.path()), ["LOCK", "lost"]);
}

#[test]
fn destroy_removes_the_store_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let location = Location::Directory(path.clone());
    // Nothing exists at this location yet, so there is nothing to remove. This is no error.
    destroy(&location).unwrap();
    full_store(&path);
    destroy(&location).unwrap();
    assert!(!path.exists());

    full_store(&path);
    for foreign in ["notes.txt", "000001.txt", "lost/notes-2", "OPTIONS-000005"] {
        fs::write(path.join(foreign), b"").unwrap();
    }
    destroy(&location).unwrap();
    assert_eq!(names(&path), ["000001.txt", "OPTIONS-000005", "lost", "notes.txt"]);
    assert_eq!(names(&path.join("lost")), ["notes-2"]);
    destroy(&location).unwrap();
    assert_eq!(names(&path), ["000001.txt", "OPTIONS-000005", "lost", "notes.txt"], "no lock file is left");
}

#[test]
fn destroy_fails_while_the_store_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    for location in [Location::Directory(folder.path().join("store")), Location::Memory(memory)] {
        let storage = open(&location, OpenMode::Create, DurabilityMode::Sync, &StorageConfig::default()).unwrap();
        storage.publish_root(LogId(1)).unwrap();
        assert!(matches!(destroy(&location), Err(Error::InUse { .. })));
        assert_eq!(storage.load_root().unwrap(), Some(LogId(1)));
        drop(storage);
        destroy(&location).unwrap();
        let reopened = open(&location, OpenMode::Write, DurabilityMode::Sync, &StorageConfig::default());
        assert!(matches!(reopened, Err(Error::Missing { .. })));
    }
}

/// Tests that Terrace's lock conflicts with LevelDB's, whichever is taken first. LevelDB takes a
/// POSIX lock on `LOCK`.
#[cfg(target_os = "linux")]
#[test]
fn the_lock_conflicts_with_leveldbs_lock() {
    use nix::{
        fcntl::{FcntlArg, fcntl},
        libc,
    };
    let folder = tempfile::tempdir().unwrap();
    full_store(folder.path());
    let lock = fs::OpenOptions::new().read(true).write(true).open(folder.path().join("LOCK")).unwrap();
    let posix = |kind| libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    let storage = create(folder.path(), DurabilityMode::Sync);
    assert!(fcntl(&lock, FcntlArg::F_SETLK(&posix(libc::F_WRLCK))).is_err());
    drop(storage);
    let location = Location::Directory(folder.path().into());
    for mode in [OpenMode::Create, OpenMode::Write, OpenMode::ReadOnly] {
        // The POSIX lock has to be taken again each time: when a process closes any descriptor of a
        // file, it loses all its POSIX locks of this file.
        fcntl(&lock, FcntlArg::F_SETLK(&posix(libc::F_WRLCK))).unwrap();
        let Err(Error::InUse { detail, .. }) = open(&location, mode, DurabilityMode::Sync, &StorageConfig::default())
        else {
            panic!("the store is in use")
        };
        let names_process = cfg!(target_pointer_width = "64"); // the portable directory does not
        assert!(!names_process || detail.contains(&std::process::id().to_string()), "{detail}");
    }
}

#[test]
fn each_durability_mode_syncs_as_often_as_necessary() {
    for durability_mode in [DurabilityMode::Sync, DurabilityMode::Background, DurabilityMode::None] {
        let folder = tempfile::tempdir().unwrap();
        let storage = create(folder.path(), durability_mode);
        let kinds =
            [SyncKind::Log, SyncKind::Manifest, SyncKind::Tables(Purpose::Flush), SyncKind::Root, SyncKind::Directory];
        let syncs = || kinds.map(|kind| storage.io_stats().syncs(kind).count);
        assert_eq!(syncs(), [0, 0, 0, 0, 1], "making the directory");
        let mut log = storage.create_log(LogId(2), LogKind::Wal, b"twelve bytes").unwrap();
        assert_eq!(syncs(), [0, 0, 0, 0, 1], "a log without a sync");
        log.sync().unwrap();
        log.append(b"record").unwrap();
        log.sync().unwrap();
        build_table(&*storage, 3);
        storage.commit().unwrap();
        storage.publish_root(LogId(1)).unwrap();
        let expected = if durability_mode == DurabilityMode::None { [0, 0, 0, 0, 1] } else { [2, 0, 1, 1, 4] };
        assert_eq!(syncs(), expected, "{durability_mode:?}");
        if durability_mode == DurabilityMode::Sync {
            assert_eq!(storage.io_stats().syncs(SyncKind::Log).bytes, log.bytes(), "each byte is counted at one sync");
        }
        assert_eq!(DurabilityMode::from_name(storage.durability_mode()), Some(durability_mode));
    }
}

/// Tests that with a filter, lookups of absent keys do not read data blocks. The test corrupts the
/// data blocks; such lookups must still succeed.
#[test]
fn filters_avoid_reads_of_data_blocks() {
    for form in [FilterForm::Block, FilterForm::Table] {
        let folder = tempfile::tempdir().unwrap();
        let setup =
            StorageConfig { filter: Some(Arc::new(Bloom::new(20))), filter_form: form, ..StorageConfig::default() };
        let storage =
            open(&Location::Directory(folder.path().into()), OpenMode::Create, DurabilityMode::None, &setup).unwrap();
        let meta = build_table(&*storage, 3);
        let path = folder.path().join("000003.ldb");
        let mut bytes = fs::read(&path).unwrap();
        bytes[..20].fill(0xee);
        fs::write(&path, bytes).unwrap();
        let table = storage.open_table(&meta).unwrap();
        assert!(table.get(&key::lookup(b"key", SeqNo(9)), HOW).is_err());
        assert_eq!(table.get(&key::lookup(b"ka", SeqNo(9)), HOW).unwrap(), None);
        assert!(table.verify().is_err());
    }
}

fn create_directory_tables(path: &Path) -> Box<dyn Storage> {
    let setup = StorageConfig {
        layout: Layout { tables: TableForm::Directory, ..Layout::default() },
        ..StorageConfig::default()
    };
    open(&Location::Directory(path.into()), OpenMode::Create, DurabilityMode::Sync, &setup).unwrap()
}

#[test]
fn an_interrupted_removal_leaves_no_store_of_directory_tables() {
    let folder = tempfile::tempdir().unwrap();
    let storage = create_directory_tables(folder.path());
    storage.create_log(LogId(1), LogKind::Manifest, b"twelve bytes").unwrap();
    build_table(&*storage, 3);
    storage.publish_root(LogId(1)).unwrap();
    drop(storage);
    let foreign = folder.path().join("L0/000003/foreign");
    fs::create_dir(&foreign).unwrap();
    let location = Location::Directory(folder.path().into());
    destroy(&location).unwrap_err();
    assert!(!folder.path().join("CURRENT").exists(), "tables were removed before CURRENT");
    fs::remove_dir(&foreign).unwrap();
    destroy(&location).unwrap();
    assert!(!folder.path().exists());
}

#[test]
fn a_reference_to_a_missing_table_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let storage = create_directory_tables(folder.path());
    let mut build = storage.begin(Hint { level: 0, expected_bytes: 100, lifetime: Lifetime::Flush }).unwrap();
    build.begin_table(TableId(3)).unwrap();
    let key = key::lookup(b"key", SeqNo(1));
    let kept = build.keep(EntryRef { key: &key, stored: b"reference", origin: Origin::Table(TableId(99)) });
    let error = kept.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }) && error.to_string().contains("000099"), "{error}");
}

#[test]
fn a_salvage_does_not_read_a_file_longer_than_any_pair() {
    let folder = tempfile::tempdir().unwrap();
    let storage = create_directory_tables(folder.path());
    let meta = build_table(&*storage, 3);
    let table = folder.path().join("L0/000003");
    fs::remove_file(table.join("META")).unwrap();
    fs::File::create(table.join("long.7.00000000")).unwrap().set_len(1 << 40).unwrap();
    let mut salvage = storage.salvage(&meta).unwrap();
    let (mut lost, mut entries) = (Vec::new(), 0);
    loop {
        match salvage.next() {
            Piece::Lost(loss) => lost.push(loss.reason),
            Piece::Block(mut cursor) => {
                while cursor.valid() {
                    entries += 1;
                    cursor.next().unwrap();
                }
            }
            Piece::End => break,
        }
    }
    assert!(lost.iter().any(|reason| reason.contains("more than any pair has")), "{lost:?}");
    assert_eq!(entries, 1, "the other pair is salvaged");
}
