//! Tests of corrupt files: every byte is changed, and files are truncated to every length. Each
//! read must return the right result or an error. It must not return a wrong result or panic.
use proptest::{collection::vec, prelude::*, sample::Index};
use std::sync::Arc;
use terrace_format::{
    LogId, SeqNo, TableId,
    block::{Block, BlockBuilder, BlockCursor},
    compress::Codec,
    crc,
    filter::Bloom,
    footer::{FOOTER_BYTES, Footer, Handle, seal_block},
    key::{self, TRAILER_BYTES},
};
use terrace_storage::{
    FilterForm, Memory, Result, StorageConfig,
    backends::files::fs::FileSystem,
    durability::NoTracker,
    open_files,
    placement::{
        EntryRef, Hint, Lifetime, LogEvent, LogKind, OpenMode, Origin, Storage, Table, TableMeta, TableReadOptions,
    },
};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn open(memory: &Memory, setup: &StorageConfig) -> Box<dyn Storage> {
    open_files(Arc::new(memory.clone()), OpenMode::Create, Arc::new(NoTracker), setup).unwrap()
}

fn contents(memory: &Memory, name: &str) -> Vec<u8> {
    let file = memory.open(name).unwrap();
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Returns a directory that contains only the file `name`.
fn directory_with(name: &str, bytes: &[u8]) -> Memory {
    let memory = Memory::new();
    memory.create(name).unwrap().append(bytes).unwrap();
    memory
}

fn entries() -> Entries {
    let value = |n: u64| (0..n * 3).map(|at| (at * at) as u8).collect();
    (0..40u64).map(|n| (key::lookup(format!("key {:03}", n / 2).as_bytes(), SeqNo(100 - n)), value(n))).collect()
}

fn setups() -> Vec<StorageConfig> {
    let filter: Option<Arc<dyn terrace_format::filter::FilterPolicy>> = Some(Arc::new(Bloom::new(10)));
    let base = StorageConfig { block_size: 300, block_restart_interval: 4, ..StorageConfig::default() };
    vec![
        StorageConfig { codec: Codec::None, ..base.clone() },
        StorageConfig { filter: filter.clone(), ..base.clone() },
        StorageConfig { filter, filter_form: FilterForm::Table, codec: Codec::Lz4, ..base },
    ]
}

fn table_file(setup: &StorageConfig) -> (TableMeta, Vec<u8>) {
    let memory = Memory::new();
    let storage = open(&memory, setup);
    let mut build = storage.begin(Hint { level: 0, expected_bytes: 0, lifetime: Lifetime::Flush }).unwrap();
    build.begin_table(TableId(1)).unwrap();
    for (key, value) in entries() {
        build.keep(EntryRef { key: &key, stored: &value, origin: Origin::Memory }).unwrap();
    }
    build.end_table().unwrap();
    (build.finish().unwrap().0.remove(0), contents(&memory, "000001.ldb"))
}

fn walk(table: Arc<dyn Table>, how: TableReadOptions) -> Result<Entries> {
    let mut cursor = table.cursor(how)?;
    let mut found = Entries::new();
    cursor.seek_first()?;
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next()?;
    }
    Ok(found)
}

fn walk_back(table: Arc<dyn Table>, how: TableReadOptions) -> Result<Entries> {
    let mut cursor = table.cursor(how)?;
    let mut found = Entries::new();
    cursor.seek_last()?;
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.prev()?;
    }
    found.reverse();
    Ok(found)
}

/// Reads a damaged table in every way. With checksum verification, each read must return the right
/// result or an error. Without verification any result is allowed, but each read must return.
/// Returns true if some read noticed the damage.
fn read_damaged(meta: &TableMeta, bytes: &[u8], setup: &StorageConfig, all: &Entries, case: &str) -> bool {
    let storage = open(&directory_with("000001.ldb", bytes), setup);
    let Ok(table) = storage.open_table(meta) else { return true };
    let verified = TableReadOptions { verify: true, fill_cache: false };
    let mut noticed = table.verify().is_err();
    for walked in [walk(table.clone(), verified), walk_back(table.clone(), verified)] {
        noticed |= walked.is_err();
        assert!(walked.is_err() || walked.is_ok_and(|found| found == *all), "{case}: a wrong walk");
    }
    for (key, value) in all {
        if let Ok(found) = table.get(key, verified) {
            assert_eq!(found.as_ref().map(|found| &*found.value), Some(&**value), "{case}: a wrong lookup");
        }
    }
    let trusting = TableReadOptions { verify: false, fill_cache: false };
    let _ = (walk(table.clone(), trusting), walk_back(table.clone(), trusting), table.get(&all[9].0, trusting));
    noticed
}

#[test]
fn tables_with_any_byte_changed() {
    let all = entries();
    for setup in setups() {
        let (meta, bytes) = table_file(&setup);
        assert!(!read_damaged(&meta, &bytes, &setup, &all, "no damage"));
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                let noticed = read_damaged(&meta, &damaged, &setup, &all, &format!("{setup:?} byte {at}"));
                // No checksum covers the footer. A changed footer that decodes to the same values
                // is therefore no corruption.
                let footer = |bytes: &[u8]| Footer::decode(&bytes[bytes.len() - FOOTER_BYTES..]);
                let same = footer(&damaged) == footer(&bytes);
                assert!(noticed || same, "{setup:?}: byte {at} changed by {change}, and no check noticed");
            }
        }
    }
}

#[test]
fn tables_cut_at_any_length() {
    for setup in setups() {
        let (meta, bytes) = table_file(&setup);
        for length in 0..bytes.len() {
            let storage = open(&directory_with("000001.ldb", &bytes[..length]), &setup);
            assert!(storage.open_table(&meta).is_err(), "{length} bytes where the manifest says more");
            let shorter = TableMeta { bytes: length as u64, ..meta.clone() };
            assert!(storage.open_table(&shorter).is_err(), "a footer in the middle, at {length}");
        }
    }
}

/// Tests tables with holes, because a power cut may replace blocks of a file by zeros. The test
/// replaces 512 bytes of a table by zeros, at every offset that is a multiple of 64.
#[test]
fn tables_with_holes() {
    let all = entries();
    for setup in setups() {
        let (meta, bytes) = table_file(&setup);
        for start in (0..bytes.len()).step_by(64) {
            let mut damaged = bytes.clone();
            let end = (start + 512).min(bytes.len());
            damaged[start..end].fill(0);
            assert!(read_damaged(&meta, &damaged, &setup, &all, &format!("zeros from {start}")));
        }
    }
}

/// Recomputes the checksum of every block of a table after the block was changed.
fn reseal(bytes: &mut [u8], handles: &[Handle]) {
    for handle in handles {
        let (start, end) = (handle.offset as usize, (handle.offset + handle.bytes) as usize);
        let crc = crc::mask(crc::crc32c(&bytes[start..=end]));
        bytes[end + 1..end + 5].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Returns the handles of the metaindex, index and data blocks of an uncompressed table.
fn handles(bytes: &[u8]) -> Vec<Handle> {
    let footer = Footer::decode(&bytes[bytes.len() - FOOTER_BYTES..]).unwrap();
    let (start, end) = (footer.index.offset as usize, (footer.index.offset + footer.index.bytes) as usize);
    let mut index = BlockCursor::new(Arc::new(Block::new(bytes[start..end].to_vec()).unwrap()));
    let mut found = vec![footer.metaindex, footer.index];
    index.seek_first().unwrap();
    while index.valid() {
        found.push(Handle::decode(index.value()).unwrap());
        index.next().unwrap();
    }
    found
}

proptest! {
    /// Tests tables in which random bytes have valid checksums. No call may panic or loop forever.
    #[test]
    fn tables_of_nonsense_with_valid_checksums(changes in vec((any::<Index>(), any::<u8>()), 1..6)) {
        let setup = &setups()[0];
        let (meta, bytes) = table_file(setup);
        let handles = handles(&bytes);
        let mut damaged = bytes.clone();
        for (at, byte) in changes {
            // First a block is selected, and then a byte of this block. If bytes were selected
            // directly, most of them would be in values; changes of the bytes that control the
            // reader are more important.
            let blocks = &handles[at.index(handles.len())];
            damaged[blocks.offset as usize + at.index(blocks.bytes as usize)] = byte;
        }
        reseal(&mut damaged, &handles);
        let storage = open(&directory_with("000001.ldb", &damaged), setup);
        if let Ok(table) = storage.open_table(&meta) {
            let how = TableReadOptions { verify: true, fill_cache: true };
            let _ = (table.verify(), walk(table.clone(), how), walk_back(table.clone(), how));
            for (key, _) in entries() {
                let _ = (table.get(&key, how), table.offset_of(&key));
            }
        }
    }

    #[test]
    fn logs_of_anything(bytes in vec(any::<u8>(), 0..200)) {
        let (records, _) = read_log(&bytes);
        prop_assert!(records.is_empty(), "a record with the right checksum by chance");
    }
}

fn log_file() -> (Vec<Vec<u8>>, Vec<u8>, Vec<u64>) {
    let memory = Memory::new();
    let storage = open(&memory, &StorageConfig::default());
    let mut records = vec![b"twelve bytes".to_vec()];
    let mut log = storage.create_log(LogId(1), LogKind::Wal, &records[0]).unwrap();
    let mut ends = vec![log.bytes()];
    for bytes in [0, 5, 40_000, 20, 0, 300] {
        records.push((0..bytes).map(|at| (at % 253) as u8 + 1).collect());
        log.append(&records[records.len() - 1]).unwrap();
        ends.push(log.bytes());
    }
    (records, contents(&memory, "000001.log"), ends)
}

fn read_log(bytes: &[u8]) -> (Vec<Vec<u8>>, LogEvent) {
    let storage = open(&directory_with("000001.log", bytes), &StorageConfig::default());
    let mut reader = storage.open_log(LogId(1), LogKind::Wal).unwrap();
    let mut records = Vec::new();
    loop {
        match reader.next().unwrap() {
            LogEvent::Record { bytes, .. } => records.push(bytes),
            LogEvent::Bad { .. } => {}
            end @ LogEvent::End { .. } => return (records, end),
        }
    }
}

#[test]
fn logs_with_any_byte_changed() {
    let (records, bytes, _) = log_file();
    assert_eq!(read_log(&bytes).0, records);
    // All payload bytes of the long record are equal, so only bytes at the ends of its fragments
    // are tested.
    for at in (0..bytes.len()).filter(|at| !(600..32_000).contains(at) && !(33_500..39_500).contains(at)) {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            let found = read_log(&damaged).0;
            assert!(found.len() < records.len(), "byte {at} changed, and no check noticed");
            let mut left = records.iter();
            assert!(
                found.iter().all(|record| left.any(|known| known == record)),
                "byte {at}: a record that was never written"
            );
        }
    }
}

#[test]
fn logs_cut_at_any_length() {
    let (records, bytes, ends) = log_file();
    for length in 0..bytes.len() {
        if (600..32_000).contains(&length) && length % 97 != 0 {
            // The long record is incomplete at each of these lengths, so the result is the same for
            // all of them.
            continue;
        }
        let whole = ends.iter().filter(|end| **end <= length as u64).count();
        let (found, end) = read_log(&bytes[..length]);
        assert_eq!(found, records[..whole], "cut at {length}");
        let offset = whole.checked_sub(1).map_or(0, |last| ends[last]);
        assert_eq!(end, LogEvent::End { offset, torn: length as u64 > offset }, "cut at {length}");
    }
}

/// Tests a block that has keys greater than its index key. A compaction must not copy such a block
/// unchanged, because it would write these keys before smaller keys of the following block.
#[test]
fn a_block_with_keys_greater_than_its_index_key_is_not_copied() {
    let setup = &setups()[0];
    let (meta, bytes) = table_file(setup);
    let footer = Footer::decode(&bytes[bytes.len() - FOOTER_BYTES..]).unwrap();
    let (from, end) = (footer.index.offset as usize, (footer.index.offset + footer.index.bytes) as usize);
    let mut listed = BlockCursor::new(Arc::new(Block::new(bytes[from..end].to_vec()).unwrap()));
    listed.seek_first().unwrap();
    for is_false in [false, true] {
        let (mut index, mut blocks) = (BlockBuilder::new(1), 0);
        listed.seek_first().unwrap();
        while listed.valid() {
            let mut key = listed.key().to_vec();
            // The offset of the last byte of the user key in the index key.
            let at = key.len() - TRAILER_BYTES - 1;
            // Makes an index key smaller than keys of its block. The first two index keys stay
            // right: their blocks are read one by one, and the iteration itself would report wrong
            // index keys. The last index key has only one byte and stays right too, because a
            // smaller one would be out of order.
            key[at] -= u8::from(is_false && blocks > 1 && at > 0);
            index.add(&key, listed.value());
            listed.next().unwrap();
            blocks += 1;
        }
        let mut changed = bytes[..from].to_vec();
        changed.extend_from_slice(index.finish());
        seal_block(&mut changed, from, Codec::None);
        changed.extend_from_slice(&footer.encode());
        assert_eq!(changed.len(), bytes.len());
        let storage = open(&directory_with("000001.ldb", &changed), setup);
        let mut cursor =
            storage.open_table(&meta).unwrap().cursor(TableReadOptions { verify: true, fill_cache: false }).unwrap();
        cursor.seek_first().unwrap();
        let mut outcome = Ok(None);
        while cursor.valid() && matches!(outcome, Ok(None)) {
            outcome = cursor.stored_block();
            if outcome.is_ok() {
                cursor.next().unwrap();
            }
        }
        match outcome {
            Ok(block) => assert!(!is_false && block.is_some()),
            Err(error) => assert!(
                is_false && error.to_string().contains("a key is greater than the block's index key"),
                "{error}"
            ),
        }
    }
}
