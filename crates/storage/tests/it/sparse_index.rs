//! Tests of tables whose index and filter do not fit into the memory budget: reads give the same
//! results as with the whole index in memory, and damage to the index after the open is an error.
use std::{
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Arc,
};
use terrace_format::{
    Codec, Comparator, KeyOrder, Kind, SeqNo, TableId,
    filter::{Bloom, FilterPolicy},
    footer::{FOOTER_BYTES, Footer},
    key,
};
use terrace_storage::{
    DurabilityMode, Error, FilterForm, Holder, Location, StorageConfig, open,
    placement::{Cursor, EntryRef, Hint, Lifetime, OpenMode, Origin, Storage, Table, TableMeta, TableReadOptions},
};

const HOW: TableReadOptions = TableReadOptions { verify: true, fill_cache: true };
const ENTRIES: u32 = 4000;
/// The whole index and filter of the table take more than half of this budget.
const BUDGET: u64 = 40 << 10;

/// The bytewise order under another name.
struct Other;

impl Comparator for Other {
    fn name(&self) -> &str {
        "other"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.cmp(b)
    }
}

fn user(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Whether files can be mapped here.
const MAPS_FILES: bool = cfg!(all(target_os = "linux", target_pointer_width = "64"));

/// Whether SSTables are mapped, and whether keys have a custom order.
const FORMS: [(bool, bool); 3] = [(false, false), (true, false), (true, true)];

fn storage_of(
    path: &Path,
    memory_budget: Option<u64>,
    (allow_mmap_reads, is_custom): (bool, bool),
) -> Box<dyn Storage> {
    let order = if is_custom { KeyOrder::Custom(Arc::new(Other)) } else { KeyOrder::Bytewise };
    let setup = StorageConfig {
        order,
        allow_mmap_reads,
        memory_budget,
        codec: Codec::None,
        block_size: 1024,
        filter: Some(Arc::new(Bloom::new(10)) as Arc<dyn FilterPolicy>),
        filter_form: FilterForm::Table,
        ..StorageConfig::default()
    };
    // The files of a table need no manifest; a created storage is open for reading and writing.
    open(&Location::Directory(path.into()), OpenMode::Create, DurabilityMode::None, &setup).unwrap()
}

/// Builds a table of the even numbers below 2 x [`ENTRIES`], ten of them in a block.
fn build(path: &Path, form: (bool, bool)) -> TableMeta {
    let storage = storage_of(path, None, form);
    let hint = Hint { level: 0, expected_bytes: 1 << 20, lifetime: Lifetime::Flush };
    let mut build = storage.begin(hint).unwrap();
    build.begin_table(TableId(7)).unwrap();
    for number in 0..ENTRIES {
        let key = key::encode(&user(2 * number), SeqNo(1), Kind::Put);
        build.keep(EntryRef { key: &key, stored: &[number as u8; 90], origin: Origin::Memory }).unwrap();
    }
    build.end_table().unwrap();
    build.finish().unwrap().0.remove(0)
}

fn tails(storage: &dyn Storage) -> u64 {
    storage.budget().held().0[Holder::Tails as usize]
}

fn at(cursor: &Cursor) -> Option<Vec<u8>> {
    cursor.valid().then(|| cursor.key().to_vec())
}

fn lookup(number: u32) -> Vec<u8> {
    key::lookup(&user(number), SeqNo(9))
}

/// Compares all reads of the two tables.
fn compare(sparse: &dyn Table, whole: &dyn Table, is_filtered: bool) {
    let mut excluded = 0;
    for number in 0..2 * ENTRIES + 3 {
        let key = lookup(number);
        assert_eq!(sparse.get(&key, HOW).unwrap(), whole.get(&key, HOW).unwrap(), "key {number}");
        assert_eq!(sparse.offset_of(&key).unwrap(), whole.offset_of(&key).unwrap(), "key {number}");
        let (is_present, may_have) = (number % 2 == 0 && number < 2 * ENTRIES, sparse.may_have(&key).unwrap());
        assert!(may_have || !is_present, "key {number}");
        excluded += u32::from(!may_have);
    }
    assert!(!is_filtered || excluded > ENTRIES * 9 / 10, "the filter excludes {excluded} of {ENTRIES} absent keys");
    assert_eq!(sparse.anchors(50).unwrap(), whole.anchors(50).unwrap());
    let [mut a, mut b] = [sparse, whole].map(|table| table.cursor(HOW).unwrap());
    for step in 0..4000 {
        let key = lookup(step * 7919 % (2 * ENTRIES + 3));
        a = act(a, step, &key);
        b = act(b, step, &key);
        assert_eq!(at(&a), at(&b), "step {step}");
    }
}

/// Moves the cursor. The steps 0 to 15 repeat: a seek, then moves in both directions, which cross
/// several blocks.
fn act(mut cursor: Cursor, step: u32, key: &[u8]) -> Cursor {
    match step % 16 {
        0 | 6 | 12 => cursor.seek(key).unwrap(),
        15 if step % 48 == 15 => cursor.seek_first().unwrap(),
        15 if step % 48 == 31 => cursor.seek_last().unwrap(),
        1 | 13 if cursor.valid() => cursor.skip_block().unwrap(),
        2..=4 | 14 => (0..100).for_each(|_| {
            if cursor.valid() {
                cursor.next().unwrap()
            }
        }),
        _ => (0..90).for_each(|_| {
            if cursor.valid() {
                cursor.prev().unwrap()
            }
        }),
    }
    cursor
}

#[test]
fn a_sparse_index_finds_what_the_whole_index_finds() {
    for form in FORMS {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let meta = folders.each_ref().map(|folder| build(folder.path(), form)).into_iter().next_back().unwrap();
        let small = storage_of(folders[0].path(), Some(BUDGET), form);
        let large = storage_of(folders[1].path(), None, form);
        let [sparse, whole] = [&small, &large].map(|storage| storage.open_table(&meta).unwrap());
        let is_mapped = form.0 && MAPS_FILES;
        assert!(tails(&*small) < tails(&*large) / if is_mapped { 15 } else { 3 }, "the index is whole in memory");
        compare(&*sparse, &*whole, true);
        assert_eq!(sparse.verify().unwrap(), whole.verify().unwrap());
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))] // mapped, a table keeps little in memory
#[test]
fn the_whole_index_is_loaded_once_memory_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let meta = build(folder.path(), (true, false));
    let storage = storage_of(folder.path(), Some(4 * BUDGET), (true, false));
    let memtables = storage.budget().hold(Holder::Memtables);
    memtables.add(3 * BUDGET);
    let table = storage.open_table(&meta).unwrap();
    let sparse = tails(&*storage);
    assert!((1..BUDGET / 8).contains(&sparse), "{sparse} bytes");
    (0..1000).for_each(|number| drop(table.get(&lookup(number), HOW).unwrap()));
    assert_eq!(tails(&*storage), sparse, "there is no room");
    drop(memtables);
    (0..2000).for_each(|number| drop(table.get(&lookup(number), HOW).unwrap()));
    assert!(tails(&*storage) > BUDGET / 2, "{} bytes", tails(&*storage));
}

#[test]
fn damage_to_an_index_after_the_open_is_an_error() {
    for form in FORMS {
        let folder = tempfile::tempdir().unwrap();
        let meta = build(folder.path(), form);
        let storage = storage_of(folder.path(), Some(BUDGET), form);
        let table = storage.open_table(&meta).unwrap();
        let mut file = std::fs::File::options().read(true).write(true).open(folder.path().join("000007.ldb")).unwrap();
        let mut footer = [0; FOOTER_BYTES];
        file.seek(SeekFrom::End(-(FOOTER_BYTES as i64))).and_then(|_| file.read_exact(&mut footer)).unwrap();
        let index = Footer::decode(&footer).unwrap().index;
        file.seek(SeekFrom::Start(index.offset + 5)).and_then(|_| file.write_all(&[0xff])).unwrap();
        let is_corrupt = |error| matches!(error, Error::Corrupt { what: "index", .. });
        assert!(is_corrupt(table.get(&lookup(0), HOW).unwrap_err()));
        assert!(is_corrupt(table.anchors(3).unwrap_err()));
        let mut cursor = table.cursor(HOW).unwrap();
        assert!(is_corrupt(cursor.seek_first().unwrap_err()) && !cursor.valid());
        cursor.seek_last().unwrap();
        for _ in 0..2 {
            assert!(is_corrupt(cursor.seek(&lookup(0)).unwrap_err()) && !cursor.valid());
        }
        cursor.seek_last().unwrap();
        assert!(cursor.valid() && table.get(&lookup(2 * ENTRIES - 2), HOW).unwrap().is_some());
    }
}
