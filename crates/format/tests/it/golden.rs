//! Tests with files that the real LevelDB wrote. Terrace's decoders must read the files, and its
//! encoders must reproduce them byte for byte.
//!
//! tests/golden/leveldb/README.md describes how the files were made.
use std::{cmp::Ordering, collections::BTreeMap, convert::Infallible, fs, path::PathBuf, sync::Arc};
use terrace_format::{
    Batch, Codec, Edit, FileName, KeyOrder, Kind, Op, SeqNo,
    block::{Block, BlockBuilder, BlockCursor},
    compress,
    filter::{self, Bloom, FilterBlock, FilterBlockBuilder, FilterPolicy},
    footer::{FOOTER_BYTES, Footer, Handle, open_block, seal_block},
    key,
    log_record::{Event, Framer, RecordDecoder, is_ours},
    names,
};

const STORES: [&str; 2] = ["plain", "snappy"];
const ORDER: KeyOrder = KeyOrder::Bytewise;

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/golden/leveldb", name].iter().collect()
}

fn read(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns all files of a store, with their file names.
fn files(store: &str) -> Vec<(FileName, Vec<u8>)> {
    let names = fs::read_dir(path(store)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| (FileName::parse(&name).expect(&name), read(&format!("{store}/{name}")))).collect()
}

fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut deframer, mut records) = (RecordDecoder::new(file.len() as u64), Vec::new());
    loop {
        let Ok(event) = deframer.next(|offset, buf: &mut [u8]| -> Result<(), Infallible> {
            buf.copy_from_slice(&file[offset as usize..][..buf.len()]);
            Ok(())
        });
        match event {
            Event::Record { bytes, .. } => records.push(bytes),
            Event::End { offset, torn } => {
                assert_eq!((offset, torn), (file.len() as u64, false));
                return records;
            }
            Event::Bad { .. } => panic!("{event:?}"),
        }
    }
}

fn framed(records: &[Vec<u8>]) -> Vec<u8> {
    let (mut framer, mut file) = (Framer::new(), Vec::new());
    for record in records {
        let Ok(()) = framer.frame(record, |piece| -> Result<(), Infallible> {
            file.extend_from_slice(piece);
            Ok(())
        });
    }
    file
}

#[test]
fn logs_and_batches() {
    for store in STORES {
        for (_, file) in files(store).iter().filter(|(name, _)| matches!(name, FileName::Log(_))) {
            let records = records(file);
            assert!(records.len() > 80 && !is_ours(file));
            assert!(framed(&records) == *file);
            for record in records {
                let decoded = Batch::decode(record.clone()).unwrap();
                let mut again = Batch::new();
                for op in decoded.ops() {
                    again.add(op);
                }
                again.set_sequence(decoded.sequence());
                assert!(again.as_bytes() == record);
            }
        }
    }
}

#[test]
fn manifests_and_current() {
    let mut manifests = vec![read("long.manifest")];
    for store in STORES {
        let files = files(store);
        let current = files.iter().find(|(name, _)| *name == FileName::Current).map(|(_, bytes)| bytes).unwrap();
        let id = names::decode_current(current).unwrap();
        assert_eq!(names::encode_current(id).as_bytes(), current);
        manifests.push(files.into_iter().find(|(name, _)| *name == FileName::Manifest(id)).unwrap().1);
    }
    let mut edits = Vec::new();
    for file in manifests {
        let records = records(&file);
        assert_eq!(framed(&records), file);
        for record in records {
            let edit = Edit::decode(&record).unwrap();
            assert_eq!(edit.encode(), record);
            edits.push(edit);
        }
    }
    assert!(edits.iter().any(|edit| edit.deleted.len() >= 2 && !edit.compact_pointers.is_empty()));
    assert!(edits.iter().all(|edit| edit.comparator.as_deref().is_none_or(|name| name == ORDER.name())));
}

/// A parsed SSTable.
struct Table<'a> {
    file: &'a [u8],
    footer: Footer,
    index: Vec<(Vec<u8>, Vec<u8>)>,
    metaindex: Vec<(Vec<u8>, Vec<u8>)>,
    data: Vec<DataBlock>,
}

struct DataBlock {
    handle: Handle,
    codec: u8,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Table<'_> {
    fn open(file: &[u8]) -> Table<'_> {
        let footer_bytes = &file[file.len() - FOOTER_BYTES..];
        let footer = Footer::decode(footer_bytes).unwrap();
        assert_eq!(footer.encode(), footer_bytes);
        let index = entries(&block(file, footer.index).1, 1);
        let data = index.iter().map(|(_, value)| {
            let handle = Handle::decode(value).unwrap();
            let (codec, block) = block(file, handle);
            DataBlock { handle, codec, entries: entries(&block, 16) }
        });
        let data = data.collect();
        let metaindex = entries(&block(file, footer.metaindex).1, 16);
        Table { file, footer, index, metaindex, data }
    }

    fn meta(&self, name: &str) -> Option<Vec<u8>> {
        let (_, value) = self.metaindex.iter().find(|(key, _)| key == name.as_bytes())?;
        Some(block(self.file, Handle::decode(value).unwrap()).1)
    }
}

/// Returns the codec id and the contents of a block.
fn block(file: &[u8], handle: Handle) -> (u8, Vec<u8>) {
    let sealed = &file[handle.offset as usize..handle.end().unwrap() as usize];
    let (codec, stored) = open_block(sealed, true).unwrap();
    if codec == 0 {
        let mut again = stored.to_vec();
        seal_block(&mut again, 0, Codec::None);
        assert_eq!(again, sealed);
    }
    (codec, compress::decompress(codec, stored).unwrap())
}

/// Returns the entries of a block that LevelDB wrote with this restart interval. The block builder
/// must reproduce the bytes of the block.
fn entries(block: &[u8], restart_interval: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = BlockCursor::new(Arc::new(Block::new(block.to_vec()).unwrap()));
    let (mut builder, mut entries) = (BlockBuilder::new(restart_interval), Vec::new());
    cursor.seek_first().unwrap();
    while cursor.valid() {
        builder.add(cursor.key(), cursor.value());
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next().unwrap();
    }
    assert!(builder.finish() == block);
    entries
}

#[test]
fn tables_and_their_index() {
    for store in STORES {
        for (_, file) in files(store).iter().filter(|(name, _)| matches!(name, FileName::Table(_))) {
            let table = Table::open(file);
            assert!(table.data.len() > 2);
            assert_eq!(store == "snappy", table.data.iter().any(|block| block.codec == 1));
            for (i, (separator, _)) in table.index.iter().enumerate() {
                let mut want = table.data[i].entries.last().unwrap().0.clone();
                match table.data.get(i + 1) {
                    Some(next) => ORDER.shorten_between(&mut want, &next.entries[0].0),
                    None => ORDER.shorten_above(&mut want),
                }
                assert_eq!(*separator, want);
            }
            let keys: Vec<&[u8]> =
                table.data.iter().flat_map(|block| &block.entries).map(|entry| &entry.0[..]).collect();
            assert!(keys.windows(2).all(|pair| ORDER.internal(pair[0], pair[1]) == Ordering::Less));
        }
    }
}

#[test]
fn filters() {
    let bloom = Arc::new(Bloom::new(10));
    let name = filter::block_meta_name(&*bloom);
    for (_, file) in files("plain").iter().filter(|(name, _)| matches!(name, FileName::Table(_))) {
        let table = Table::open(file);
        let found = table.meta(&name).unwrap();
        let mut builder = FilterBlockBuilder::new(bloom.clone());
        for block in &table.data {
            builder.start_block(block.handle.offset);
            for (key, _) in &block.entries {
                builder.add_key(key::user_key(key));
            }
        }
        // LevelDB also calls `start_block` of its filter block at the end of the last data block.
        let last = table.data.last().unwrap().handle;
        builder.start_block(last.end().unwrap());
        assert!(builder.finish() == found);
        let filters = FilterBlock::new(bloom.clone(), found);
        for block in &table.data {
            for (key, _) in &block.entries {
                assert!(filters.may_match(block.handle.offset, key::user_key(key)));
            }
        }
        let wrong = (0..1000).filter(|i| filters.may_match(0, format!("absent{i}").as_bytes())).count();
        assert!(wrong < 50, "{wrong} of 1000");
        assert_eq!(bloom.name(), "leveldb.BuiltinBloomFilter2");
        assert_eq!(table.footer.metaindex.end(), Some(table.footer.index.offset));
    }
}

/// Tests whole stores: the SSTables and the WAL must contain exactly the pairs that LevelDB's
/// iterator returned.
#[test]
fn contents() {
    for store in STORES {
        let mut newest = BTreeMap::<Vec<u8>, (SeqNo, Kind, Vec<u8>)>::new();
        let mut see = |user: &[u8], seq, kind, value: &[u8]| match newest.get(user) {
            Some((seen, ..)) if *seen > seq => {}
            _ => drop(newest.insert(user.to_vec(), (seq, kind, value.to_vec()))),
        };
        for (name, file) in files(store) {
            match name {
                FileName::Table(_) => {
                    for (key, value) in Table::open(&file).data.iter().flat_map(|block| &block.entries) {
                        let key = key::parse(key).unwrap();
                        see(key.user, key.seq, key.kind, value);
                    }
                }
                FileName::Log(_) => {
                    for batch in records(&file).into_iter().map(|record| Batch::decode(record).unwrap()) {
                        for (i, op) in batch.ops().enumerate() {
                            let seq = batch.sequence().plus(i as u64);
                            match op {
                                Op::Put(key, value) => see(key, seq, Kind::Put, value),
                                Op::Delete(key) => see(key, seq, Kind::Delete, b""),
                                _ => panic!("LevelDB writes no such thing"),
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        let mut shown = String::new();
        for (user, (_, _, value)) in newest.iter().filter(|(_, (_, kind, _))| *kind == Kind::Put) {
            let hex: String = user.iter().map(|byte| format!("{byte:02x}")).collect();
            shown += &format!("{hex} {} {}\n", value.len(), fnv1a(value));
        }
        assert!(shown.as_bytes() == read("contents"), "{store}");
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
