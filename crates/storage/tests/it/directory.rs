//! What a real directory adds to the contract: names, locks of other programs, removal, and who is synced when.
use std::{fs, path::Path, sync::Arc};
use terrace_format::{FormatFile, Layout, LogId, SeqNo, TableForm, TableId, filter::Bloom, key};
use terrace_storage::{
    DurabilityMode, Error, FilterForm, Location, Memory, Purpose, StorageConfig, SyncKind, destroy, open,
    placement::{EntryRef, Hint, Lifetime, LogKind, ObjectId, OpenMode, Origin, Piece, ReadHow, Storage, TableMeta},
};

const HOW: ReadHow = ReadHow { verify: true, fill_cache: true };

fn create(path: &Path, durability_mode: DurabilityMode) -> Box<dyn Storage> {
    open(&Location::Directory(path.into()), OpenMode::Create, durability_mode, &StorageConfig::default()).unwrap()
}

fn build_table(placement: &dyn Storage, id: u64) -> TableMeta {
    let mut build = placement.begin(Hint { level: 0, expected_bytes: 100, lifetime: Lifetime::Flush }).unwrap();
    build.begin_table(TableId(id)).unwrap();
    let key = key::lookup(b"key", SeqNo(1));
    build.keep(EntryRef { key: &key, stored: b"value", origin: Origin::Memory }).unwrap();
    build.end_table().unwrap();
    build.finish().unwrap().0.remove(0)
}

/// A store with one file of every kind.
fn full_store(path: &Path) {
    let placement = create(path, DurabilityMode::Sync);
    placement.create_log(LogId(1), LogKind::Manifest, b"twelve bytes").unwrap();
    placement.create_log(LogId(2), LogKind::Wal, b"twelve bytes").unwrap();
    build_table(&*placement, 3);
    placement.publish_root(LogId(1)).unwrap();
    placement.publish_marker(&FormatFile::new(placement.layout(), []).encode()).unwrap();
    for _ in 0..2 {
        placement.set_aside(ObjectId::Wal(LogId(2))).unwrap();
    }
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_are_named_as_leveldb_names_them() {
    let folder = tempfile::tempdir().unwrap();
    full_store(folder.path());
    let expected = ["000002.log", "000003.ldb", "CURRENT", "LOCK", "MANIFEST-000001", "TERRACE", "lost"];
    assert_eq!(names(folder.path()), expected);
    assert_eq!(names(&folder.path().join("lost")), ["000002.log", "000002.log-2"]);
    assert_eq!(fs::read(folder.path().join("CURRENT")).unwrap(), b"MANIFEST-000001\n");
}

#[test]
fn tables_of_old_leveldbs_are_found_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let placement = create(folder.path(), DurabilityMode::Sync);
    let meta = build_table(&*placement, 3);
    fs::rename(folder.path().join("000003.ldb"), folder.path().join("000003.sst")).unwrap();
    let found = placement.open_table(&meta).unwrap().get(&key::lookup(b"key", SeqNo(9)), HOW).unwrap();
    assert_eq!(*found.unwrap().value, *b"value");
    assert_eq!(placement.list().unwrap()[0].object, ObjectId::Table(TableId(3)));
    let there = placement.place_of(ObjectId::Table(TableId(3)));
    assert!(there.ends_with("/000003.sst"), "{there}");
    let absent = placement.place_of(ObjectId::Table(TableId(4)));
    assert!(absent.ends_with("/000004.ldb"), "{absent}");
    placement.set_aside(ObjectId::Table(TableId(3))).unwrap();
    placement.remove(ObjectId::Table(TableId(3))).unwrap();
    assert_eq!(names(folder.path()), ["LOCK", "lost"]);
}

#[test]
fn destroy_removes_the_store_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let location = Location::Directory(path.clone());
    destroy(&location).unwrap(); // nothing there
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
    assert_eq!(names(&path), ["000001.txt", "OPTIONS-000005", "lost", "notes.txt"], "no lock is left behind");
}

#[test]
fn destroy_is_refused_while_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    for location in [Location::Directory(folder.path().join("store")), Location::Memory(memory)] {
        let placement = open(&location, OpenMode::Create, DurabilityMode::Sync, &StorageConfig::default()).unwrap();
        placement.publish_root(LogId(1)).unwrap();
        assert!(matches!(destroy(&location), Err(Error::InUse { .. })));
        assert_eq!(placement.load_root().unwrap(), Some(LogId(1)));
        drop(placement);
        destroy(&location).unwrap();
        let gone = open(&location, OpenMode::Write, DurabilityMode::Sync, &StorageConfig::default());
        assert!(matches!(gone, Err(Error::Missing { .. })));
    }
}

/// LevelDB takes a POSIX lock on `LOCK`; ours must meet it, in either order.
#[test]
fn the_lock_meets_that_of_leveldb() {
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
    let placement = create(folder.path(), DurabilityMode::Sync);
    assert!(fcntl(&lock, FcntlArg::F_SETLK(&posix(libc::F_WRLCK))).is_err());
    drop(placement);
    let location = Location::Directory(folder.path().into());
    for mode in [OpenMode::Create, OpenMode::Write, OpenMode::ReadOnly] {
        // Taken anew each time: a process loses this kind of lock when it closes any descriptor of the file.
        fcntl(&lock, FcntlArg::F_SETLK(&posix(libc::F_WRLCK))).unwrap();
        let Err(Error::InUse { detail, .. }) = open(&location, mode, DurabilityMode::Sync, &StorageConfig::default())
        else {
            panic!("the store is in use")
        };
        assert!(detail.contains(&std::process::id().to_string()), "{detail}");
    }
}

#[test]
fn syncs_happen_once_and_only_where_something_is_promised() {
    for durability_mode in [DurabilityMode::Sync, DurabilityMode::Background, DurabilityMode::None] {
        let folder = tempfile::tempdir().unwrap();
        let placement = create(folder.path(), durability_mode);
        let kinds =
            [SyncKind::Log, SyncKind::Manifest, SyncKind::Tables(Purpose::Flush), SyncKind::Root, SyncKind::Directory];
        let syncs = || kinds.map(|kind| placement.traffic().syncs(kind).count);
        assert_eq!(syncs(), [0, 0, 0, 0, 1], "making the directory");
        let mut log = placement.create_log(LogId(2), LogKind::Wal, b"twelve bytes").unwrap();
        assert_eq!(syncs(), [0, 0, 0, 0, 1], "a log that nobody synced");
        log.sync().unwrap();
        log.append(b"record").unwrap();
        log.sync().unwrap();
        build_table(&*placement, 3);
        placement.commit().unwrap();
        placement.publish_root(LogId(1)).unwrap();
        let expected = if durability_mode == DurabilityMode::None { [0, 0, 0, 0, 1] } else { [2, 0, 1, 1, 4] };
        assert_eq!(syncs(), expected, "{durability_mode:?}");
        if durability_mode == DurabilityMode::Sync {
            assert_eq!(placement.traffic().syncs(SyncKind::Log).bytes, log.bytes(), "each byte is counted at one sync");
        }
        assert_eq!(DurabilityMode::from_name(placement.durability_mode()), Some(durability_mode));
    }
}

/// A filter keeps lookups of absent keys away from data blocks: with those destroyed, they still answer.
#[test]
fn filters_spare_the_data_blocks() {
    for form in [FilterForm::Block, FilterForm::Table] {
        let folder = tempfile::tempdir().unwrap();
        let setup =
            StorageConfig { filter: Some(Arc::new(Bloom::new(20))), filter_form: form, ..StorageConfig::default() };
        let placement =
            open(&Location::Directory(folder.path().into()), OpenMode::Create, DurabilityMode::None, &setup).unwrap();
        let meta = build_table(&*placement, 3);
        let path = folder.path().join("000003.ldb");
        let mut bytes = fs::read(&path).unwrap();
        bytes[..20].fill(0xee);
        fs::write(&path, bytes).unwrap();
        let table = placement.open_table(&meta).unwrap();
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
    let placement = create_directory_tables(folder.path());
    placement.create_log(LogId(1), LogKind::Manifest, b"twelve bytes").unwrap();
    build_table(&*placement, 3);
    placement.publish_root(LogId(1)).unwrap();
    drop(placement);
    let foreign = folder.path().join("L0/000003/foreign");
    fs::create_dir(&foreign).unwrap();
    let location = Location::Directory(folder.path().into());
    destroy(&location).unwrap_err();
    assert!(!folder.path().join("CURRENT").exists(), "tables were removed before what names them");
    fs::remove_dir(&foreign).unwrap();
    destroy(&location).unwrap();
    assert!(!folder.path().exists());
}

#[test]
fn a_reference_is_not_taken_for_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let placement = create_directory_tables(folder.path());
    let mut build = placement.begin(Hint { level: 0, expected_bytes: 100, lifetime: Lifetime::Flush }).unwrap();
    build.begin_table(TableId(3)).unwrap();
    let key = key::lookup(b"key", SeqNo(1));
    let kept = build.keep(EntryRef { key: &key, stored: b"reference", origin: Origin::Table(TableId(99)) });
    let error = kept.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }) && error.to_string().contains("000099"), "{error}");
}

#[test]
fn a_salvage_does_not_read_a_file_longer_than_any_pair() {
    let folder = tempfile::tempdir().unwrap();
    let placement = create_directory_tables(folder.path());
    let meta = build_table(&*placement, 3);
    let table = folder.path().join("L0/000003");
    fs::remove_file(table.join("META")).unwrap();
    fs::File::create(table.join("long.7.00000000")).unwrap().set_len(1 << 40).unwrap();
    let mut salvage = placement.salvage(&meta).unwrap();
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
    assert_eq!(entries, 1, "the other pair is there");
}
