//! Tests of bundles. A bundle is one file with all output SSTables of a compaction. The tests
//! count syncs, examine the files that a compaction leaves, and check which engines can open such
//! a store. Other suites, which also run with bundles, test that reads return the right results.
use crate::common::{kit, leveldb};
use kit::{Model, Place, TIGHT, contents, options};
use leveldb::{Layout, Side, Store};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use terrace::{Db, Options, Statistics, TableForm, check};
use terrace_peers::{leveldb::Library, require};
use terrace_sim::Rng;

const SEED: u64 = 0xb0;

/// Options with bundles and small tables, and without automatic compactions.
fn bundled() -> Options {
    options(&changes())
}

/// Options with bundles and LevelDB's sizes, to count the bundles that compactions write.
fn plain() -> Options {
    kit::plain(&changes())
}

fn changes() -> Vec<(&'static str, &'static str)> {
    let lazy = &[
        ("level0_file_num_compaction_trigger", "900"),
        ("level0_slowdown_writes_trigger", "1000"),
        ("level0_stop_writes_trigger", "1000"),
    ];
    let roomy = &[("max_bytes_for_level_base", "10MiB"), ("compression", "none"), ("tables", "bundled")];
    [TIGHT, lazy, roomy].concat()
}

/// Returns the files of the store in `path` whose names end in `end`.
fn files(path: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_str().unwrap().ends_with(end)).collect()
}

fn table_syncs(said: &Statistics) -> u64 {
    said.syncs.iter().find(|(kind, _)| *kind == "tables").unwrap().1.count
}

fn written(said: &Statistics) -> u64 {
    let tables = |purpose: &&(&str, u64)| ["flush", "compaction"].contains(&purpose.0);
    said.bytes_written.iter().filter(tables).map(|(_, bytes)| bytes).sum()
}

/// Writes a fixed history to a store with `preset`, and runs every due job immediately. The keys
/// are random, so compactions must rewrite tables and cannot move them. Returns the statistics and
/// the total count of flushes and compactions.
fn filled(preset: &str) -> (Statistics, u64) {
    let mut options = Options::preset(preset).unwrap();
    options.seek_compaction = false;
    let db = Place::memory().open(&options, true).unwrap();
    let (mut rng, mut value) = (Rng::new(SEED), vec![0; 1000]);
    for _ in 0..60_000 {
        value.fill_with(|| rng.next_u64() as u8);
        db.put(rng.below(1 << 40).to_be_bytes(), &value).unwrap();
        while db.step(0).is_some() {}
    }
    let said = db.statistics();
    let builds = said.flushes.count + said.levels.iter().map(|level| level.compactions.count).sum::<u64>();
    (said, builds)
}

/// Tests that with bundles each flush syncs once and each compaction syncs once. A trivial move
/// writes no table, so it must not sync.
#[test]
fn a_compaction_of_bundles_syncs_once() {
    let ((leveldb, builds), (bolt, bolt_builds)) = (filled("leveldb"), filled("bolt"));
    let (syncs, bolt_syncs) = (table_syncs(&leveldb), table_syncs(&bolt));
    let (bytes, bolt_bytes) = (written(&leveldb), written(&bolt));
    println!("leveldb: {builds} builds, {syncs} table syncs, {bytes} B of tables");
    println!("bolt: {bolt_builds} builds, {bolt_syncs} table syncs, {bolt_bytes} B of tables");
    assert_eq!(bolt_builds, builds, "the same history");
    assert_eq!(bolt_syncs, bolt_builds, "one for each");
    assert!(bolt_syncs * 100 <= syncs * 65, "{bolt_syncs} syncs where leveldb has {syncs}");
    assert!(bolt_bytes >= bytes && bolt_bytes <= bytes + bytes / 200, "{bolt_bytes} B where leveldb has {bytes}");
}

fn model(db: &Db) -> Model {
    contents(db).unwrap().into_iter().collect()
}

/// Writes `keys` keys in a mixed order, so that the key ranges of the memtables overlap. Then
/// compacts the store.
fn fill(db: &Db, keys: u32, byte: u8) {
    for n in (0..keys).map(|n| n * 379 % keys) {
        db.put(format!("{n:06}"), vec![byte; 1000]).unwrap();
    }
    db.compact_range(None, Some(format!("{keys:06}").as_bytes())).unwrap();
    db.wait_idle().unwrap();
}

/// Returns two counts: the bundles that have exactly `names` hard links, and those of them that
/// have holes. A hole is freed space of an obsolete table.
fn holes(path: &Path, names: u64) -> (usize, usize) {
    let bundles = files(path, ".bundle").into_iter().map(|path| fs::metadata(path).unwrap());
    let bundles = bundles.filter(|file| file.nlink() == names);
    let bundles: Vec<_> = bundles.map(|file| (file.len(), file.blocks() * 512)).collect();
    println!("bytes and allocated bytes of bundles with {names} names: {bundles:?}");
    (bundles.len(), bundles.iter().filter(|(bytes, allocated)| allocated + 4096 < *bytes).count())
}

#[test]
fn space_of_obsolete_tables_in_a_bundle_is_freed() {
    let place = Place::directory();
    let path = place.path().unwrap();
    let db = Db::open(&path, plain()).unwrap();
    fill(&db, 1000, 1);
    assert_eq!(holes(&path, 1), (1, 0));
    fill(&db, 100, 2);
    assert_eq!(holes(&path, 1), (3, 1));
    let whole = model(&db);
    let right = |(n, (key, value)): (usize, (&Vec<u8>, &Vec<u8>))| {
        *key == format!("{n:06}").into_bytes() && value[0] == if n < 100 { 2 } else { 1 }
    };
    assert!(whole.len() == 1000 && whole.iter().enumerate().all(right));
    db.close().unwrap();
    let report = check(&path, &Options::default(), true).unwrap();
    assert_eq!((report.problems, report.leftovers), (vec![], vec![]));
    assert_eq!(report.layout.tables, TableForm::Bundled);

    let db = Db::open(&path, Options::default()).unwrap();
    assert!(model(&db) == whole);
    db.delete_range("", "zzz", Default::default()).unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    assert_eq!(files(&path, ".bundle"), Vec::<PathBuf>::new(), "a bundle is removed with its last table");
}

/// Tests that a bundle which a checkpoint shares keeps all its space until the checkpoint is
/// removed.
#[test]
fn a_bundle_shared_with_a_checkpoint_keeps_its_space() {
    let place = Place::directory();
    let path = place.path().unwrap();
    let copy = path.with_file_name("copy");
    let db = Db::open(&path, plain()).unwrap();
    fill(&db, 1000, 1);
    db.checkpoint(&copy).unwrap();
    fill(&db, 100, 2);
    assert_eq!(holes(&path, 2), (1, 0));
    let copied = model(&Db::open_read_only(&copy, Options::default()).unwrap());
    assert!(copied.len() == 1000 && copied.values().all(|value| *value == [1; 1000]));
    assert_eq!(check(&copy, &Options::default(), true).unwrap().problems, Vec::<String>::new());
    db.close().unwrap();
    Db::destroy(&copy).unwrap();
    drop(Db::open(&path, Options::default()).unwrap());
    assert_eq!(holes(&path, 1), (3, 1), "an opening gives back what it can");
}

#[test]
fn a_bundle_costs_one_descriptor() {
    let place = Place::directory();
    let path = place.path().unwrap();
    let db = Db::open(&path, bundled()).unwrap();
    fill(&db, 1000, 1);
    model(&db);
    let tables = db.layout().iter().map(|level| level.tables.len()).sum::<usize>();
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let bundle = |to: &PathBuf| to.starts_with(&path) && to.extension().is_some_and(|end| end == "bundle");
    let (open, bundles) = (open.filter(bundle).count(), files(&path, ".bundle").len());
    println!("{tables} tables in {bundles} bundles, {open} descriptors");
    assert!(
        tables >= 8 * bundles && bundles > 0 && open == bundles,
        "{tables} tables in {bundles} bundles, {open} descriptors"
    );
}

/// Tests that the format file records the table form. An open without the option `tables` must use
/// the recorded form. An open with another form must be refused, and the error must name the
/// recorded form.
#[test]
fn a_store_keeps_its_table_form() {
    let [bundles, blocks] = [Place::directory(), Place::directory()].map(|place| (place.path().unwrap(), place));
    let close = |path: &Path, options: Options| -> terrace::Result<TableForm> {
        let db = Db::open(path, options)?;
        let tables = db.statistics().layout.tables;
        db.close().map(|()| tables)
    };
    assert_eq!(close(&bundles.0, Options::preset("bolt").unwrap()).unwrap(), TableForm::Bundled);
    assert_eq!(close(&blocks.0, Options::leveldb_compatible()).unwrap(), TableForm::Block);
    for preset in ["leveldb", "bolt", "default"] {
        let preset = || Options::preset(preset).unwrap();
        assert_eq!(close(&bundles.0, preset()).unwrap(), TableForm::Bundled);
        assert_eq!(close(&blocks.0, preset()).unwrap(), TableForm::Block);
    }
    assert!(!blocks.0.join("TERRACE").exists(), "LevelDB's, and stays it");
    for (path, asked, there) in [(&bundles.0, "block", "bundled"), (&blocks.0, "bundled", "block")] {
        let refused = close(path, options(&[("tables", asked)])).unwrap_err().to_string();
        let words = [&format!("tables={asked}"), &format!("tables={there}"), "terrace convert"];
        assert!(words.iter().all(|word| refused.contains(*word)), "{refused}");
    }
    close(&bundles.0, options(&[("tables", "bundled")])).unwrap();
    fs::remove_file(bundles.0.join("TERRACE")).unwrap();
    let refused = close(&bundles.0, Options::default()).unwrap_err().to_string();
    assert!(refused.contains("bundled-tables") && refused.contains("TERRACE"), "{refused}");
}

#[test]
fn leveldb_refuses_a_store_with_bundles() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let place = Place::directory();
    let path = place.path().unwrap();
    Db::open(&path, bundled()).unwrap().close().unwrap();
    for _ in 0..2 {
        let Err(refusal) = Store::try_open(Side::Theirs, &path, &Layout::default()) else {
            panic!("LevelDB opened it")
        };
        assert!(refusal.contains("unknown tag"), "{refusal}");
        let db = Db::open(&path, bundled()).unwrap();
        fill(&db, 400, 3);
        db.close().unwrap();
        assert!(!files(&path, ".bundle").is_empty());
    }
}
