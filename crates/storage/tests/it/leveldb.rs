//! Tests that SSTables which the real LevelDB wrote are read completely and rewritten byte for
//! byte.
use std::{path::PathBuf, sync::Arc};
use terrace_format::{
    TableId,
    compress::Codec,
    filter::Bloom,
    footer::{FOOTER_BYTES, Footer},
};
use terrace_storage::{
    DurabilityMode, Location, StorageConfig, open,
    placement::{Hint, Lifetime, Listed, ObjectId, OpenMode, Storage, TableMeta, TableReadOptions},
};

fn golden(store: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../format/tests/golden/leveldb", store].iter().collect()
}

/// Returns the options with which LevelDB wrote a golden store (a store that is kept as test
/// data).
fn setup(store: &str) -> StorageConfig {
    let small_blocks = StorageConfig { block_size: 1024, ..StorageConfig::default() };
    match store {
        "plain" => StorageConfig { codec: Codec::None, filter: Some(Arc::new(Bloom::new(10))), ..small_blocks },
        _ => small_blocks,
    }
}

/// Opens a golden store (kept as test data) read-only, so that its files stay unchanged. The
/// golden store has no `LOCK` file, and the open must not create one.
fn open_golden(store: &str) -> Box<dyn Storage> {
    open(&Location::Directory(golden(store)), OpenMode::ReadOnly, DurabilityMode::Sync, &setup(store)).unwrap()
}

fn tables(storage: &dyn Storage) -> Vec<TableMeta> {
    let meta = |listed: Listed| match listed.object {
        ObjectId::Table(id) => Some(TableMeta::unbounded(id, listed.bytes)),
        _ => None,
    };
    storage.list().unwrap().into_iter().filter_map(meta).collect()
}

/// Reads all entries of the table and writes them to a new table, one by one.
fn rewrite(from: &dyn Storage, meta: &TableMeta, to: &dyn Storage) -> TableMeta {
    let mut cursor =
        from.open_table(meta).unwrap().cursor(TableReadOptions { verify: true, fill_cache: false }).unwrap();
    let mut build = to.begin(Hint { level: 0, expected_bytes: meta.bytes, lifetime: Lifetime::Compaction }).unwrap();
    build.begin_table(TableId(meta.id.0)).unwrap();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        build.keep(cursor.entry()).unwrap();
        cursor.next().unwrap();
    }
    build.end_table().unwrap();
    build.finish().unwrap().0.remove(0)
}

#[test]
fn leveldbs_tables_are_read_completely() {
    for store in ["plain", "snappy"] {
        let storage = open_golden(store);
        let metas = tables(&*storage);
        assert_eq!(metas.len(), 2);
        for meta in metas {
            let table = storage.open_table(&meta).unwrap();
            assert_eq!(table.properties().unwrap(), None, "LevelDB writes no properties");
            assert!(table.verify().unwrap().entries > 10, "filters included");
        }
        assert!(!golden(store).join("LOCK").exists());
    }
}

/// Tests that in a rewritten table the data blocks, the filter and the index equal LevelDB's byte
/// for byte. Only properties and metaindex may differ.
#[test]
fn rewritten_tables_equal_leveldbs() {
    let folder = tempfile::tempdir().unwrap();
    let terrace =
        open(&Location::Directory(folder.path().into()), OpenMode::Create, DurabilityMode::None, &setup("plain"))
            .unwrap();
    let leveldb = open_golden("plain");
    for meta in tables(&*leveldb) {
        rewrite(&*leveldb, &meta, &*terrace);
        let name = format!("{}.ldb", meta.id);
        let want = std::fs::read(golden("plain").join(&name)).unwrap();
        let got = std::fs::read(folder.path().join(&name)).unwrap();
        let footer = |bytes: &[u8]| Footer::decode(&bytes[bytes.len() - FOOTER_BYTES..]).unwrap();
        let (want_footer, got_footer) = (footer(&want), footer(&got));
        let before_metaindex = want_footer.metaindex.offset as usize;
        assert!(want[..before_metaindex] == got[..before_metaindex], "{name}: data blocks and filter");
        let index =
            |bytes: &[u8], footer: Footer| bytes[footer.index.offset as usize..bytes.len() - FOOTER_BYTES].to_vec();
        assert!(index(&want, want_footer) == index(&got, got_footer), "{name}: index");
    }
}

/// Tests that rewritten compressed tables have the contents of the original tables. Snappy
/// libraries may compress differently, so only the decompressed contents are compared.
#[test]
fn rewritten_compressed_tables_have_the_same_contents() {
    let folder = tempfile::tempdir().unwrap();
    let terrace =
        open(&Location::Directory(folder.path().into()), OpenMode::Create, DurabilityMode::None, &setup("snappy"))
            .unwrap();
    let leveldb = open_golden("snappy");
    for meta in tables(&*leveldb) {
        let written = rewrite(&*leveldb, &meta, &*terrace);
        let properties = terrace.open_table(&written).unwrap().verify().unwrap();
        assert_eq!(properties, leveldb.open_table(&meta).unwrap().verify().unwrap());
        assert!(written.bytes.abs_diff(meta.bytes) < meta.bytes / 10 + 200, "{} against {}", written.bytes, meta.bytes);
    }
}
