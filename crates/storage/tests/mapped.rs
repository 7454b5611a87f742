//! Mapped tables: read in place, and a clear end where a page is gone.
use std::{
    fs::OpenOptions,
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Output},
};
use terrace_format::{Codec, Kind, SeqNo, TableId, key};
use terrace_storage::{
    Location, Setup, Tier, open,
    placement::{EntryRef, Hint, Lifetime, Mode, Origin, Placement, ReadHow, TableMeta},
};

const HOW: ReadHow = ReadHow { verify: true, fill_cache: true };
const STORE: &str = "TERRACE_TEST_MAPPED_STORE";
const SIGBUS: i32 = 7;

fn placement(path: &Path, mode: Mode) -> Box<dyn Placement> {
    let setup = Setup { mmap_reads: true, codec: Codec::None, ..Setup::default() };
    open(&Location::Directory(path.into()), mode, Tier::None, &setup).unwrap()
}

fn user(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// A table of 1000 values of 1000 bytes.
fn table(placement: &dyn Placement) -> TableMeta {
    let hint = Hint { level: 0, expected_bytes: 1 << 20, lifetime: Lifetime::Flush };
    let mut build = placement.begin(hint).unwrap();
    build.begin_table(TableId(7)).unwrap();
    for number in 0..1000 {
        let key = key::encode(&user(number), SeqNo(1), Kind::Put);
        build.keep(EntryRef { key: &key, stored: &[number as u8; 1000], origin: Origin::Memory }).unwrap();
    }
    build.end_table().unwrap();
    build.finish().unwrap().0.remove(0)
}

#[test]
fn a_mapped_table_outlives_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Mode::Create);
    let meta = table(&*placement);
    let table = placement.open_table(&meta).unwrap();
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

/// Copied, block would follow block in a buffer, and the buffer be used again.
#[test]
fn a_scan_of_a_mapped_table_shows_values_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Mode::Create);
    let meta = table(&*placement);
    let mut cursor = placement.open_table(&meta).unwrap().cursor(HOW).unwrap();
    let mut places = Vec::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        assert_eq!(cursor.value(), [places.len() as u8; 1000]);
        places.push(cursor.value().as_ptr().addr());
        cursor.next().unwrap();
    }
    assert!(places.len() == 1000 && places.is_sorted() && places[999] - places[0] < meta.bytes as usize);
    cursor.seek_last().unwrap();
    for place in places.into_iter().rev() {
        assert_eq!(cursor.value().as_ptr().addr(), place);
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
}

#[test]
fn what_is_mapped_is_verified_at_every_read() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Mode::Create);
    let meta = table(&*placement);
    let table = placement.open_table(&meta).unwrap();
    let lookup = key::lookup(&user(0), SeqNo(9));
    assert!(table.get(&lookup, HOW).unwrap().is_some());
    let file = OpenOptions::new().write(true).open(folder.path().join("000007.ldb")).unwrap();
    file.write_all_at(&[1], 100).unwrap(); // in the value of the first key, which was 0
    let error = table.get(&lookup, HOW).unwrap_err().to_string();
    assert!(error.contains("checksum") && error.contains("000007.ldb"), "{error}");
    let error = table.cursor(HOW).unwrap().seek_first().unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
    let trusting = ReadHow { verify: false, ..HOW };
    assert_eq!(table.get(&lookup, trusting).unwrap().unwrap().value.iter().sum::<u8>(), 1);
}

/// Reads a table whose file was cut short behind its back. Runs only as the child of the test below.
#[test]
fn child_that_reads_a_table_cut_short() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let placement = placement(Path::new(&path), Mode::Create);
    let meta = table(&*placement);
    let table = placement.open_table(&meta).unwrap();
    let file = Path::new(&path).join("000007.ldb");
    OpenOptions::new().write(true).open(file).unwrap().set_len(4096).unwrap();
    let found = table.get(&key::lookup(&user(900), SeqNo(9)), HOW);
    unreachable!("a page that is gone was read: {found:?}");
}

#[test]
fn a_page_that_is_gone_ends_the_process_and_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stderr, .. } = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_reads_a_table_cut_short", "--nocapture"])
        .env(STORE, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.signal(), Some(SIGBUS), "{status}, {said}");
    let file = folder.path().join("000007.ldb");
    assert!(said.contains("a page of a mapped file is gone") && said.contains(file.to_str().unwrap()), "{said}");
}
