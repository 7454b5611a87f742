//! Cases for tables and for the jobs that write them: every entry is found by iterating in both
//! directions and by its key, under every configuration.
use super::kit::{Case, Fixture, finish, good, hint, is_missing, one_table, refused, same, separates_values, shown};
use crate::{
    Error, FilterForm, StorageConfig,
    placement::{
        Cursor, EntryRef, Found, Lifetime, ObjectId, OpenMode, Origin, Storage, Table, TableMeta, TableReadOptions,
    },
};
use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use terrace_format::{Comparator, KeyOrder, Kind, SeqNo, TableForm, TableId, compress::Codec, filter::Bloom, key};

pub(super) const CASES: &[Case] = &[
    a_table_returns_the_same_as_a_sorted_map,
    a_custom_comparator_orders_everything,
    a_build_may_have_several_tables,
    blocks_are_copied_whole,
    tables_of_a_build_are_removed_one_by_one,
    an_abandoned_build_leaves_no_object,
    corrupt_entries_are_rejected_by_builds,
    removed_tables_stay_readable,
    a_table_of_another_size_or_number_is_rejected,
];

const HOW: TableReadOptions = TableReadOptions { verify: true, fill_cache: true };

/// User keys with their versions in internal-key order: the newest version of a key is first.
type Versions = BTreeMap<(Vec<u8>, Reverse<u64>), (Kind, Vec<u8>)>;

/// Returns keys of all lengths with long shared prefixes. Each has up to three versions, and some
/// versions are point tombstones. Values have up to 100 KiB.
fn versions(keys: u64) -> Versions {
    let mut all = Versions::new();
    for n in 0..keys {
        let user = match n % 4 {
            0 => Vec::new(),
            1 => n.to_be_bytes()[6..].to_vec(),
            2 => format!("a common prefix/{:05}", n * 7919 % keys).into_bytes(),
            _ => [vec![0xff; (n % 5) as usize], vec![n as u8]].concat(),
        };
        for version in 0..=n % 3 {
            let kind = if (n + version) % 5 == 0 { Kind::Delete } else { Kind::Put };
            let bytes = if n % 97 == 3 { 100_000 } else { n % 300 };
            let value = (0..bytes).map(|at| (at * n / 8) as u8).collect();
            let value = if kind == Kind::Delete { Vec::new() } else { value };
            all.insert((user.clone(), Reverse(n * 10 + version + 1)), (kind, value));
        }
    }
    all
}

fn internal(version: &(Vec<u8>, Reverse<u64>), kind: Kind) -> Vec<u8> {
    key::encode(&version.0, SeqNo(version.1.0), kind)
}

fn entries(versions: &Versions) -> Vec<(Vec<u8>, Vec<u8>)> {
    versions.iter().map(|(at, (kind, value))| (internal(at, *kind), value.clone())).collect()
}

fn setups() -> Vec<StorageConfig> {
    let tiny = StorageConfig {
        codec: Codec::None,
        block_size: 64,
        block_restart_interval: 1,
        block_cache_size: 0,
        ..StorageConfig::default()
    };
    let filtered = StorageConfig { filter: Some(Arc::new(Bloom::new(10))), ..StorageConfig::default() };
    let whole =
        StorageConfig { filter_form: FilterForm::Table, codec: Codec::Lz4, max_open_files: 1, ..filtered.clone() };
    let zstd = StorageConfig { codec: Codec::Zstd, block_size: 64 << 10, ..filtered.clone() };
    let mapped = StorageConfig { codec: Codec::None, allow_mmap_reads: true, ..StorageConfig::default() };
    vec![StorageConfig::default(), tiny, filtered, whole, zstd, mapped]
}

fn a_table_returns_the_same_as_a_sorted_map(fixture: &Fixture) {
    let model = versions(800);
    for (number, setup) in setups().into_iter().enumerate() {
        let storage = good(fixture.open(OpenMode::Create, &setup));
        let all = entries(&model);
        let meta = one_table(&*storage, number as u64 + 1, Lifetime::Flush, all.iter().map(|(k, v)| (k, v)));
        let table = good(storage.open_table(&meta));
        same((&meta.smallest, &meta.largest), (&all[0].0, &all[all.len() - 1].0), "bounds");
        lookups(&*storage, &*table, &model);
        walks(&*storage, table.clone(), &all);
        properties_match_the_entries(&*storage, &*table, &model);
        offsets_rise(&*table, &all, meta.bytes);
        anchors_cut_evenly(&*table, &setup.order, &all, meta.bytes);
        // Under every configuration, the store is opened again with an empty cache, and the table
        // is read again.
        drop((table, storage));
        for other in setups() {
            let storage = good(fixture.open(OpenMode::Create, &other));
            let table = good(storage.open_table(&meta));
            lookups(&*storage, &*table, &model);
            good(table.verify());
        }
    }
}

/// Checks that a lookup at the sequence number of a version returns this version, and that a
/// lookup at the next smaller number does not. Lookups of absent keys must return nothing.
fn lookups(storage: &dyn Storage, table: &dyn Table, model: &Versions) {
    let how = TableReadOptions { verify: false, fill_cache: true };
    let find = |user: &[u8], at: u64| {
        let found = good(table.get(&key::lookup(user, SeqNo(at)), how));
        found.map(|Found { seq, kind, value }| (seq, kind, shown(storage, &key::encode(user, seq, kind), value)))
    };
    for (at, (kind, value)) in model {
        same(find(&at.0, at.1.0), Some((SeqNo(at.1.0), *kind, value.clone())), "its own sequence");
        let older = model.range((at.0.clone(), Reverse(at.1.0 - 1))..).next().filter(|(older, _)| older.0 == at.0);
        let want = older.map(|(at, (kind, value))| (SeqNo(at.1.0), *kind, value.clone()));
        same(find(&at.0, at.1.0 - 1), want, "just before it");
        let absent = [&at.0[..], b"\0absent"].concat();
        same(good(table.get(&key::lookup(&absent, SeqNo::MAX), HOW)), None, "an absent key");
    }
}

/// Returns the entry at the cursor, with the value in the form in which the table stores it.
fn stored_here(cursor: &mut Cursor) -> Option<(Vec<u8>, Vec<u8>)> {
    if !cursor.valid() {
        return None;
    }
    good(cursor.fetch());
    let (key, stored) = (cursor.key().to_vec(), cursor.value().to_vec());
    assert!(cursor.entry().key == key, "entry() returns the current entry");
    Some((key, stored))
}

/// Returns the entry at the cursor, with the user's value.
fn value_here(storage: &dyn Storage, cursor: &mut Cursor) -> Option<(Vec<u8>, Vec<u8>)> {
    let (key, stored) = stored_here(cursor)?;
    let value = shown(storage, &key, stored.into());
    Some((key, value))
}

fn walks(storage: &dyn Storage, table: Arc<dyn Table>, all: &[(Vec<u8>, Vec<u8>)]) {
    let here = |cursor: &mut Cursor| value_here(storage, cursor);
    let mut cursor = good(table.cursor(HOW));
    assert!(!cursor.valid(), "a new cursor is not valid");
    good(cursor.seek_first());
    for (number, want) in all.iter().enumerate() {
        same(here(&mut cursor).as_ref(), Some(want), &format!("forward, entry {number}"));
        good(cursor.next());
    }
    assert!(!cursor.valid(), "after the last entry");
    good(cursor.seek_last());
    for (number, want) in all.iter().enumerate().rev() {
        same(here(&mut cursor).as_ref(), Some(want), &format!("backward, entry {number}"));
        good(cursor.prev());
    }
    assert!(!cursor.valid(), "before the first entry");
    for (number, want) in all.iter().enumerate() {
        good(cursor.seek(&want.0));
        same(here(&mut cursor).as_ref(), Some(want), "seek to a present key");
        if number % 7 == 0 {
            good(cursor.prev());
            same(here(&mut cursor).as_ref(), number.checked_sub(1).map(|before| &all[before]), "back after a seek");
        }
        let gap = key::lookup(&[key::user_key(&want.0), b"\0"].concat(), SeqNo::MAX);
        good(cursor.seek(&gap));
        let next = all.iter().skip(number).find(|(key, _)| KeyOrder::Bytewise.internal(key, &gap).is_ge());
        same(here(&mut cursor).as_ref(), next, "seek into a gap");
    }
}

fn properties_match_the_entries(storage: &dyn Storage, table: &dyn Table, model: &Versions) {
    let counted = good(table.verify());
    let deletes = model.values().filter(|(kind, _)| *kind == Kind::Delete).count();
    same((counted.entries, counted.deletes), (model.len() as u64, deletes as u64), "entries and deletes");
    let value_bytes = model.values().map(|(_, value)| value.len() as u64).sum();
    if !separates_values(storage) {
        same(counted.value_bytes, value_bytes, "bytes of values");
    }
    let sequences = || model.keys().map(|at| SeqNo(at.1.0));
    same(
        counted.sequences,
        (sequences().min().unwrap_or_default(), sequences().max().unwrap_or_default()),
        "sequences",
    );
    assert!(
        good(table.properties()).is_none_or(|claimed| claimed == counted),
        "the stored properties match the entries"
    );
}

fn offsets_rise(table: &dyn Table, all: &[(Vec<u8>, Vec<u8>)], target_file_size: u64) {
    let offsets: Vec<u64> = all.iter().map(|(key, _)| good(table.offset_of(key))).collect();
    assert!(offsets.is_sorted() && offsets.iter().all(|&offset| offset <= target_file_size));
    let past_end = good(table.offset_of(&key::lookup(&[0xff; 40], SeqNo::ZERO)));
    assert!(past_end >= target_file_size / 2 && past_end <= target_file_size, "most of a table is its entries");
}

fn anchors_cut_evenly(table: &dyn Table, order: &KeyOrder, all: &[(Vec<u8>, Vec<u8>)], target_file_size: u64) {
    for count in [1, 2, 7, 1000] {
        let anchors = good(table.anchors(count));
        assert!((1..=count).contains(&anchors.len()), "{} anchors of {count}", anchors.len());
        assert!(anchors.is_sorted_by(|a, b| order.user(&a.0, &b.0).is_le()), "anchors in order");
        let last = &anchors[anchors.len() - 1].0;
        assert!(
            all.iter().all(|(key, _)| order.user(key::user_key(key), last).is_le()),
            "the last anchor is at or after every key"
        );
        let sum: u64 = anchors.iter().map(|(_, bytes)| bytes).sum();
        assert!(sum <= target_file_size && sum >= target_file_size / 2, "the anchors' ranges have {sum} bytes in all");
    }
}

struct Backward;

impl Comparator for Backward {
    fn name(&self) -> &str {
        "contract.Backward"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

fn a_custom_comparator_orders_everything(fixture: &Fixture) {
    let order = KeyOrder::Custom(Arc::new(Backward));
    let filter: Option<Arc<dyn terrace_format::filter::FilterPolicy>> = Some(Arc::new(Bloom::new(10)));
    let setup = StorageConfig { order: order.clone(), block_size: 100, filter, ..StorageConfig::default() };
    let storage = good(fixture.open(OpenMode::Create, &setup));
    let mut all = entries(&versions(300));
    all.sort_by(|a, b| order.internal(&a.0, &b.0));
    let meta = one_table(&*storage, 1, Lifetime::Compaction, all.iter().map(|(k, v)| (k, v)));
    let table = good(storage.open_table(&meta));
    good(table.verify());
    let mut cursor = good(table.cursor(HOW));
    for want in &all {
        good(cursor.seek(&want.0));
        same(value_here(&*storage, &mut cursor).as_ref(), Some(want), "seek under a custom order");
        assert!(good(table.get(&want.0, HOW)).is_some());
    }
}

/// Tests a build with most entries of an older table. It copies a block whole if it keeps all
/// entries of the block, and adds other entries one by one. The new table must have exactly these
/// entries.
fn blocks_are_copied_whole(fixture: &Fixture) {
    for (number, setup) in (0..).zip(setups()) {
        let storage = good(fixture.open(OpenMode::Create, &setup));
        let mut model = versions(800);
        let all = entries(&model);
        let meta = one_table(&*storage, 2 * number + 1, Lifetime::Flush, all.iter().map(|(k, v)| (k, v)));
        let unwanted: BTreeSet<&Vec<u8>> = all.iter().step_by(100).map(|(key, _)| key).collect();
        let table = good(storage.open_table(&meta));
        let mut trusting = good(table.cursor(TableReadOptions { verify: false, ..HOW }));
        good(trusting.seek_first());
        while trusting.valid() {
            assert!(good(trusting.stored_block()).is_none(), "unverified blocks are not copied");
            good(trusting.next());
        }
        let mut cursor = good(table.cursor(HOW));
        let mut build = good(storage.begin(hint(Lifetime::Compaction)));
        good(build.begin_table(TableId(2 * number + 2)));
        let mut taken = 0;
        good(cursor.seek_first());
        while cursor.valid() {
            if let Some(sealed) = good(cursor.stored_block()) {
                let block = cursor.whole_block(sealed);
                let wanted = block.entries.window_entries().all(|(key, _)| !unwanted.contains(&key.to_vec()));
                if wanted && build.takes_block(&block) {
                    good(build.keep_block(&block));
                    taken += block.entries.window_entries().count();
                    good(cursor.skip_block());
                    continue;
                }
            }
            if !unwanted.contains(&cursor.key().to_vec()) {
                good(build.keep(cursor.entry()));
            }
            good(cursor.next());
        }
        good(build.end_table());
        let blocks = storage.layout().tables != TableForm::Directory && !separates_values(&*storage);
        assert_eq!(taken > 0, blocks, "{taken} entries copied in whole blocks, under configuration {number}");
        let meta = finish(&*storage, build).remove(0);
        model.retain(|at, (kind, _)| !unwanted.contains(&internal(at, *kind)));
        let table = good(storage.open_table(&meta));
        lookups(&*storage, &*table, &model);
        walks(&*storage, table.clone(), &entries(&model));
        properties_match_the_entries(&*storage, &*table, &model);
    }
}

/// Tests a job that writes several tables, and a second job that merges them into one table. This
/// table must have all entries.
fn a_build_may_have_several_tables(fixture: &Fixture) {
    let storage = fixture.create();
    let all = entries(&versions(400));
    let mut build = good(storage.begin(hint(Lifetime::Flush)));
    for (part, id) in all.chunks(150).zip(10..) {
        good(build.begin_table(TableId(id)));
        refused(build.begin_table(TableId(99)), |error| !is_missing(error));
        for (key, value) in part {
            good(build.add(key, value));
        }
        good(build.end_table());
    }
    let metas = finish(&*storage, build);
    same(metas.iter().map(|meta| meta.id.0).collect::<Vec<_>>(), (10..10 + metas.len() as u64).collect(), "ids");
    let mut merged = good(storage.begin(hint(Lifetime::Compaction)));
    good(merged.begin_table(TableId(20)));
    let mut grown = 0;
    for meta in &metas {
        let mut cursor = good(good(storage.open_table(meta)).cursor(HOW));
        good(cursor.seek_first());
        while cursor.valid() {
            good(merged.keep(cursor.entry()));
            assert!(merged.table_bytes() >= grown);
            grown = merged.table_bytes();
            good(cursor.next());
        }
    }
    good(merged.end_table());
    let merged = finish(&*storage, merged).remove(0);
    assert!(grown > merged.bytes / 2 && grown <= merged.bytes, "about {grown} of {}", merged.bytes);
    walks(&*storage, good(storage.open_table(&merged)), &all);
}

/// Tests that each table stays readable until it is removed, even if several tables share a
/// bundle. After all are removed, no object may be left of them.
fn tables_of_a_build_are_removed_one_by_one(fixture: &Fixture) {
    let all = entries(&versions(400));
    let storage = fixture.with_root();
    let before = good(storage.list());
    let mut build = good(storage.begin(hint(Lifetime::Compaction)));
    for (part, id) in all.chunks(100).zip(10..) {
        good(build.begin_table(TableId(id)));
        part.iter().for_each(|(key, value)| good(build.add(key, value)));
        good(build.end_table());
    }
    let metas = finish(&*storage, build);
    let check_remaining = |storage: &dyn Storage, removed: usize| {
        for (meta, part) in metas.iter().zip(all.chunks(100)).skip(removed) {
            let table = good(storage.open_table(meta));
            good(table.verify());
            walks(storage, table, part);
        }
    };
    check_remaining(&*storage, 0);
    good(storage.remove(ObjectId::Table(metas[0].id)));
    check_remaining(&*storage, 1);
    drop(storage);
    let storage = good(fixture.open(OpenMode::Write, &StorageConfig::default()));
    good(storage.trim(&metas[2..]));
    check_remaining(&*storage, 2);
    let refs = metas.iter().flat_map(|meta| &meta.refs).map(|(object, _)| *object);
    let bundles: BTreeSet<ObjectId> = refs.clone().filter(|object| matches!(object, ObjectId::Bundle(_))).collect();
    for bundle in &bundles {
        let ObjectId::Bundle(id) = *bundle else { continue };
        let fixture = |meta: &TableMeta| (meta.id, meta.within, meta.bytes);
        let members: Vec<_> = good(storage.tables_in(id)).iter().map(fixture).collect();
        assert!(
            metas[2..].iter().all(|meta| members.contains(&fixture(meta))),
            "a bundle lists its tables: {members:?}"
        );
    }
    for object in metas.iter().map(|meta| ObjectId::Table(meta.id)).chain(refs) {
        good(storage.remove(object));
    }
    same(good(storage.list()), before, "no object is left");
}

fn an_abandoned_build_leaves_no_object(fixture: &Fixture) {
    let storage = fixture.create();
    let before = good(storage.list());
    let mut build = good(storage.begin(hint(Lifetime::Flush)));
    for id in [3, 4] {
        good(build.begin_table(TableId(id)));
        good(build.add(&key::lookup(b"key", SeqNo(1)), &vec![1; 200_000]));
        if id == 3 {
            good(build.end_table());
        }
    }
    drop(build);
    same(good(storage.list()), before, "objects after an abandoned build");
    let (metas, handle) = good(good(storage.begin(hint(Lifetime::Flush))).finish());
    good(storage.commit());
    assert!(metas.is_empty() && good(handle.is_durable()), "an empty build is durable at once");
}

/// Tests keys that are out of order or malformed, which are a sign of corruption. The writer of a
/// table must reject such keys. Otherwise they would be written under a new, valid checksum.
fn corrupt_entries_are_rejected_by_builds(fixture: &Fixture) {
    let storage = fixture.create();
    let (low, high) = (key::lookup(b"a", SeqNo(5)), key::lookup(b"b", SeqNo(5)));
    for (first, second) in [(&high, &low), (&low, &low), (&low, &b"short".to_vec())] {
        let mut build = good(storage.begin(hint(Lifetime::Compaction)));
        good(build.begin_table(TableId(5)));
        good(build.add(first, b""));
        refused(build.add(second, b""), |error| matches!(error, Error::Corrupt { .. }));
        let merged = EntryRef { key: second, stored: b"\0", origin: Origin::Memory };
        refused(build.keep(merged), |error| matches!(error, Error::Corrupt { .. }));
    }
    let mut build = good(storage.begin(hint(Lifetime::Flush)));
    refused(build.add(&low, b""), |error| !is_missing(error));
    refused(build.end_table(), |error| !is_missing(error));
}

fn removed_tables_stay_readable(fixture: &Fixture) {
    let storage = fixture.create();
    let all = entries(&versions(500));
    let build = |id| one_table(&*storage, id, Lifetime::Flush, all.iter().map(|(k, v)| (k, v)));
    let meta: TableMeta = build(3);
    let table = good(storage.open_table(&meta));
    let object = ObjectId::Table(meta.id);
    good(storage.remove(object));
    good(storage.remove(object));
    refused(storage.open_table(&meta), is_missing);
    if storage.separates_values() {
        // A removal of a directory table also removes the table's value files. The test has opened
        // no value file before the removal, so a read of a value must now return an error.
        let put = all.iter().find(|(key, _)| key::apart(key).kind == Kind::Put).expect("a put");
        return refused(table.get(&put.0, HOW), is_missing);
    }
    walks(&*storage, table.clone(), &all);
    let mut cursor = good(table.cursor(HOW));
    good(cursor.seek_last());
    let last = stored_here(&mut cursor);
    good(cursor.seek_first());
    drop(storage);
    // The cursor keeps the files of its table open.
    good(cursor.seek_last());
    same(stored_here(&mut cursor), last, "a cursor on a removed table of a closed store");
}

fn a_table_of_another_size_or_number_is_rejected(fixture: &Fixture) {
    let storage = fixture.create();
    let all = entries(&versions(10));
    let meta = one_table(&*storage, 3, Lifetime::Flush, all.iter().map(|(k, v)| (k, v)));
    let longer = TableMeta { bytes: meta.bytes + 1, ..meta.clone() };
    refused(storage.open_table(&longer), |error| matches!(error, Error::Corrupt { .. }));
    refused(storage.open_table(&TableMeta { id: TableId(4), ..meta.clone() }), is_missing);
    good(storage.open_table(&meta));
}
