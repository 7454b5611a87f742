//! Tests of the repair of damaged stores. A repair must salvage every entry whose bytes are
//! intact, use the newest version of each key, and leave the damaged store unchanged.
//!
//! The oracle reads the undamaged files with its own code. It therefore knows which bytes contain
//! each version of each key.
use crate::common::{files, kit, leveldb, versions};
use files::{Files, directory};
use kit::{Model, options};
use leveldb::{Layout, Random, Side, Store};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};
use terrace::{Db, Error, Options, RepairReport, SortedTableWriter, check_on, repair_on};
use terrace_format::{
    TableForm,
    footer::{FOOTER_BYTES, Footer, Handle},
};
use terrace_peers::{leveldb::Library, require};
use terrace_sim::{CrashFs, Rules};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};
use versions::{Version, block, versions};

const SEED: u64 = 0x5a1;
const BATCHES: usize = 160;
/// The count of batches, from the first one on, whose entries are in SSTables.
const FLUSHED: usize = 110;
/// The number of offsets that are tried in each file.
const SAMPLES: usize = 40;

fn layout() -> Options {
    options(
        &[kit::TIGHT, &[("block_size", "1KiB"), ("bloom_bits", "10"), ("level_compaction_dynamic_level_bytes", "off")]]
            .concat(),
    )
}

/// Returns the options of these tests with the table form `tables`.
fn layout_of(tables: TableForm) -> Options {
    let mut options = layout();
    options.tables = Some(tables);
    options
}

/// Makes a store with tables in several levels and two WALs. Returns its files and its contents.
/// If `leftovers` is set, the files include those that have become obsolete since the creation.
fn store(leftovers: bool, tables: TableForm) -> (Files, Model) {
    let fs: Arc<dyn FileSystem> = kit::anywhere();
    let db = kit::open(&fs, &layout_of(tables), true).unwrap();
    let (mut ever, mut model) = (Files::new(), Model::new());
    for number in 1..=BATCHES {
        let mut batch = kit::batch(SEED, number);
        if number % 3 == 0 {
            batch.push((format!("key{:02}", number % 60).into_bytes(), None)); // many deletes
        }
        if number == 140 {
            // The next write begins a new WAL.
            batch.push((b"padding".to_vec(), Some(vec![b'p'; 70 << 10])));
        }
        kit::write(&db, &batch, false).unwrap();
        kit::apply(&mut model, &batch);
        if number % 10 == 0 && number <= FLUSHED {
            db.flush().unwrap();
            ever.extend(files::files(&*fs));
            while db.step(number as u64).is_some() {
                ever.extend(files::files(&*fs));
            }
        }
    }
    let tables: Vec<String> =
        db.layout().iter().flat_map(|level| &level.tables).map(|t| format!("{:06}.ldb", t.number)).collect();
    let levels = db.layout().iter().filter(|level| !level.tables.is_empty()).count();
    drop(db);
    let mut files = files::files(&*fs);
    let logs = files.keys().filter(|name| name.ends_with(".log")).count();
    assert!(levels > 1 && tables.len() > 2 && logs == 2, "{levels} levels, {tables:?}, {logs} logs");
    files.retain(|name, _| !name.ends_with(".ldb") || tables.contains(name));
    if leftovers {
        ever.retain(|name, _| !name.starts_with("MANIFEST"));
        ever.extend(files);
        return (ever, model);
    }
    (files, model)
}

/// Repairs `files` into a new store. Asserts that the old store does not change. Returns the
/// contents of the new store, and the report.
fn repair(files: &Files, options: &Options) -> (Model, RepairReport) {
    let (from, to) = (directory(files), kit::anywhere());
    let report = {
        let damaged = kit::storage(&from, OpenMode::Salvage, options).unwrap();
        let fresh = kit::storage(&to, OpenMode::Create, options).unwrap();
        repair_on(&*damaged, &*fresh, options).unwrap()
    };
    assert!(files::files(&*from) == *files, "the damaged store was changed");
    let checked = check_on(&*kit::storage(&to, OpenMode::ReadOnly, options).unwrap(), options, true).unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
    let db = kit::open(&to, options, true).unwrap();
    let pairs: Model = kit::contents(&db).unwrap().into_iter().collect();
    assert_eq!((report.pairs, report.last_sequence), (pairs.len() as u64, db.last_sequence()));
    db.put("after", "the repair").unwrap();
    assert_eq!(db.get("after").unwrap().as_deref(), Some(&b"the repair"[..]));
    (pairs, report)
}

/// Repairs the store `damaged`, of which the byte range `bytes` of `file` was changed. Checks the
/// result against `versions`, which lists all versions of each key in the undamaged files.
fn judge(what: &str, damaged: &Files, versions: &BTreeMap<Vec<u8>, Vec<Version>>, file: &str, bytes: Range<usize>) {
    let (pairs, report) = repair(damaged, &layout());
    let whole = |v: &&Version| v.file != file || v.bytes.end <= bytes.start || bytes.end <= v.bytes.start;
    let mut harmed = false;
    for (key, versions) in versions {
        let survivor = versions.iter().find(whole).map_or(0, |version| version.seq);
        harmed |= survivor < versions[0].seq;
        let may_be = |found: Option<&Vec<u8>>| {
            let newer = versions.iter().filter(|version| version.seq >= survivor);
            newer.map(|version| version.value.as_ref()).any(|value| value == found) || survivor == 0 && found.is_none()
        };
        assert!(may_be(pairs.get(key)), "{what}: {} is {:?}", key.escape_ascii(), pairs.get(key).map(Vec::len));
    }
    assert!(pairs.keys().all(|key| versions.contains_key(key)), "{what}: a key that never was");
    // If the newest WAL is cut between two records, a repair cannot detect that records are
    // missing.
    let newer_log = |name: &String| name.ends_with(".log") && **name > *file;
    let unreported = file.ends_with(".log") && !damaged.keys().any(newer_log);
    assert!(!harmed || unreported || !report.lost.is_empty(), "{what}: an unreported loss");
    assert!(report.lost.iter().all(|lost| lost.file.len() > 3 && lost.reason.len() > 3), "{what}: {:?}", report.lost);
}

fn offsets(bytes: usize) -> BTreeSet<usize> {
    let ends = (0..8).chain(bytes.saturating_sub(60)..bytes);
    (0..bytes).step_by((bytes / SAMPLES).max(1)).chain(ends).filter(|at| *at < bytes).collect()
}

#[test]
fn an_intact_store_is_copied_completely() {
    for (leftovers, tables) in [(false, TableForm::Block), (true, TableForm::Block), (false, TableForm::Bundled)] {
        let (files, model) = store(leftovers, tables);
        let (pairs, report) = repair(&files, &layout());
        assert!(pairs == model, "leftovers {leftovers}");
        assert_eq!(report.lost, [], "leftovers {leftovers}");
        assert!(report.tables > 2 && report.logs >= 2, "{report:?}");
    }
}

#[test]
fn any_file_may_be_missing() {
    for tables in [TableForm::Block, TableForm::Bundled] {
        let (files, _) = store(false, tables);
        let versions = versions(&files);
        for name in files.keys() {
            let mut damaged = files.clone();
            damaged.remove(name);
            judge(&format!("{name} removed"), &damaged, &versions, name, 0..usize::MAX);
            damaged.insert(name.clone(), Vec::new());
            judge(&format!("{name} empty"), &damaged, &versions, name, 0..usize::MAX);
        }
        let mut damaged = files.clone();
        damaged.retain(|name, _| name.ends_with(".ldb") || name.ends_with(".bundle"));
        let report = repair(&damaged, &layout_of(tables)).1;
        assert!(report.tables > 2 && report.lost.len() == 1, "tables alone are enough: {report:?}");
    }
    let (from, to) = (directory(&Files::new()), kit::anywhere());
    let damaged = kit::storage(&from, OpenMode::Salvage, &layout()).unwrap();
    let fresh = kit::storage(&to, OpenMode::Create, &layout()).unwrap();
    let refused = repair_on(&*damaged, &*fresh, &layout()).unwrap_err();
    assert!(matches!(refused, Error::Missing { .. }), "an empty directory: {refused}");
}

/// Applies the damage at some offsets of every file, each time to a new copy of the store, and
/// judges its repair.
fn campaign(damage: impl Fn(&[u8], usize) -> (Vec<u8>, Range<usize>)) {
    for tables in [TableForm::Block, TableForm::Bundled] {
        let (files, _) = store(false, tables);
        let versions = versions(&files);
        for (name, contents) in &files {
            for offset in offsets(contents.len()) {
                let (bytes, range) = damage(contents, offset);
                let mut damaged = files.clone();
                damaged.insert(name.clone(), bytes);
                judge(&format!("{name} at {offset}, {range:?}"), &damaged, &versions, name, range);
            }
        }
    }
}

/// Tests a repair of a store that has lost its manifest and whose bundle (a file with several
/// SSTables) has lost its directory. The repair must read the bundle as one table, block by block.
#[test]
fn a_bundle_without_directory_and_manifest_is_read_as_one_table() {
    let (mut files, _) = store(false, TableForm::Bundled);
    let versions = versions(&files);
    files.retain(|name, _| !name.starts_with("MANIFEST"));
    for (name, contents) in files.iter().filter(|(name, _)| name.ends_with(".bundle")) {
        let mut damaged = files.clone();
        damaged.get_mut(name).unwrap().truncate(contents.len() - 1);
        let (pairs, report) = repair(&damaged, &layout_of(TableForm::Bundled));
        for (key, versions) in &versions {
            assert!(pairs.get(key) == versions[0].value.as_ref(), "{name}: {}", key.escape_ascii());
        }
        let reported = |lost: &terrace::Lost| lost.file.contains(name.as_str()) && lost.reason.contains("as one table");
        assert!(report.lost.iter().any(reported), "{:?}", report.lost);
    }
}

#[test]
fn a_flipped_byte_costs_its_block() {
    campaign(|contents, at| {
        let mut bytes = contents.to_vec();
        bytes[at] ^= 0x20;
        (bytes, at..at + 1)
    });
}

#[test]
fn a_truncation_costs_only_later_entries() {
    campaign(|contents, at| (contents[..at].to_vec(), at..usize::MAX));
}

#[test]
fn zeroed_sectors_cost_their_blocks() {
    campaign(|contents, at| {
        let (begin, end) = (at / 512 * 512, contents.len().min(at / 512 * 512 + 1024));
        let mut bytes = contents.to_vec();
        bytes[begin..end].fill(0);
        (bytes, begin..end)
    });
}

#[test]
fn without_an_index_blocks_are_found_by_their_checksums() {
    let (files, _) = store(false, TableForm::Block);
    let versions = versions(&files);
    for (name, contents) in files.iter().filter(|(name, _)| name.ends_with(".ldb")) {
        let footer = Footer::decode(&contents[contents.len() - FOOTER_BYTES..]).unwrap();
        let index = footer.index.offset as usize;
        let mut damaged = files.clone();
        damaged.get_mut(name).unwrap()[index] ^= 1;
        judge(&format!("{name}: index"), &damaged, &versions, name, index..index + 1);
        // Damages a data block too. The repair must still find the later blocks.
        let first = block(contents, footer.index);
        let handle = Handle::decode(first.value()).unwrap();
        damaged.get_mut(name).unwrap()[3] ^= 1;
        judge(&format!("{name}: index and a block"), &damaged, &versions, name, 0..handle.end().unwrap() as usize);
    }
}

/// Tests a repair of a store with obsolete tables and WALs. These may still exist because their
/// removal is pending, or because a power cut restored them. The repair must not bring back
/// deleted keys from them.
#[test]
fn leftovers_do_not_count_with_an_intact_manifest() {
    let ((all, model), (live, _)) = (store(true, TableForm::Block), store(false, TableForm::Block));
    let leftovers: Vec<&String> = all.keys().filter(|name| !live.contains_key(*name)).collect();
    assert!(leftovers.len() > 5, "{leftovers:?}");
    for name in leftovers {
        let mut files = live.clone();
        files.insert(name.clone(), all[name].clone());
        let (pairs, report) = repair(&files, &layout());
        assert!(pairs == model, "{name} is back");
        assert_eq!(report.lost, [], "{name} is back");
    }
}

/// Tests a repair of a store that has lost a table. If the inputs of the compaction that made this
/// table still exist, the repair must use these inputs.
#[test]
fn leftovers_replace_losses_of_live_tables() {
    let ((all, model), (live, _)) = (store(true, TableForm::Block), store(false, TableForm::Block));
    for name in live.keys().filter(|name| name.ends_with(".ldb")) {
        let mut files = all.clone();
        files.remove(name);
        let (pairs, report) = repair(&files, &layout());
        assert!(pairs == model, "{name} removed");
        assert_eq!(report.lost.len(), 1, "{name} removed: {:?}", report.lost);
        assert!(report.lost[0].reason.contains("missing") && report.lost[0].from.is_some());
    }
}

#[test]
fn repairing_again_changes_nothing() {
    let (mut files, _) = store(false, TableForm::Block);
    let table = files.keys().find(|name| name.ends_with(".ldb")).unwrap().clone();
    files.get_mut(&table).unwrap()[10] ^= 1;
    files.remove("CURRENT");
    let from = directory(&files);
    let (once, twice): (Arc<dyn FileSystem>, Arc<dyn FileSystem>) = (kit::anywhere(), kit::anywhere());
    for (from, to, losses) in [(&from, &once, true), (&once, &twice, false)] {
        let damaged = kit::storage(from, OpenMode::Salvage, &layout()).unwrap();
        let fresh = kit::storage(to, OpenMode::Create, &layout()).unwrap();
        let report = repair_on(&*damaged, &*fresh, &layout()).unwrap();
        assert_eq!(!report.lost.is_empty(), losses, "{:?}", report.lost);
    }
    let contents = |fs| kit::contents(&kit::open(fs, &layout(), true).unwrap()).unwrap();
    assert!(contents(&once) == contents(&twice));
}

#[test]
fn refused_repairs_create_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    assert!(matches!(Db::repair(&from, &to, &layout()), Err(Error::Missing { .. })));
    assert!(!to.exists());
    std::fs::create_dir(&from).unwrap();
    for (file, text) in [("LOCK", ""), ("CURRENT", "MANIFEST-000001\n"), ("000007.dbtmp", "")] {
        let refused = Db::repair(&from, &to, &layout()).unwrap_err();
        assert!(
            matches!(refused, Error::Missing { .. }) && refused.to_string().contains("nothing to repair"),
            "{refused}"
        );
        assert!(!to.exists(), "before {file}");
        std::fs::write(from.join(file), text).unwrap();
    }
    std::fs::remove_dir_all(&from).unwrap();
    Db::open(&from, layout()).unwrap().put("k", "v").unwrap();
    for inside in [from.clone(), from.join("lost"), from.join("a/../b")] {
        assert!(matches!(Db::repair(&from, &inside, &layout()), Err(Error::Invalid(_))), "{}", inside.display());
    }
    let backwards = layout().comparator(Arc::new(kit::Backwards));
    let error = Db::repair(&from, &to, &backwards).unwrap_err().to_string();
    assert!(error.contains("comparator") && !to.exists(), "{error}");
    let held = Db::open(&from, layout()).unwrap();
    assert!(matches!(Db::repair(&from, &to, &layout()), Err(Error::InUse { .. })));
    assert!(!to.exists());
    drop(held);
    let report = Db::repair(&from, &to, &layout()).unwrap();
    assert_eq!((report.pairs, report.lost.len()), (1, 0));
    assert!(matches!(Db::repair(&from, &to, &layout()), Err(Error::Invalid(_))), "it is not empty any more");
    assert_eq!(Db::open(&to, layout()).unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn leveldb_stores_are_repaired_and_leveldb_opens_them() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let (mut random, mut model, layout) =
        (Random::new(5), Model::new(), Layout { write_buffer_size: 64 << 10, ..Layout::default() });
    for round in 0..3u8 {
        let store = Store::open(Side::Theirs, &from, &layout);
        for _ in 0..[900, 900, 90][usize::from(round)] {
            let (key, value) =
                (format!("key{:03}", random.below(400)).into_bytes(), vec![round; random.below(300) as usize]);
            let op = if random.one_in(4) { leveldb::Op::Delete(key) } else { leveldb::Op::Put(key, value) };
            store.apply(std::slice::from_ref(&op), false);
            match op {
                leveldb::Op::Delete(key) => drop(model.remove(&key)),
                leveldb::Op::Put(key, value) => drop(model.insert(key, value)),
            }
        }
        if round < 2 {
            store.compact(); // ends all background jobs, so the files are the same in every run
        }
        store.close();
    }
    let files: Files = kit::files_below(&from)
        .into_iter()
        .map(|(path, bytes)| (path.file_name().unwrap().to_str().unwrap().to_owned(), bytes))
        .collect();
    let versions = versions(&files);
    assert!([".ldb", ".log"].iter().all(|end| files.keys().any(|name| name.ends_with(end))), "{:?}", files.keys());
    for (name, contents) in &files {
        let mut damaged = files.clone();
        damaged.remove(name);
        judge(&format!("{name} removed"), &damaged, &versions, name, 0..usize::MAX);
        for at in offsets(contents.len()).into_iter().step_by(4) {
            let mut damaged = files.clone();
            damaged.get_mut(name).unwrap()[at] ^= 0x81;
            judge(&format!("{name} at {at}"), &damaged, &versions, name, at..at + 1);
        }
    }
    // The manifest is kept. LevelDB may have left obsolete tables, and only the manifest shows that
    // they are obsolete and that their keys were deleted.
    std::fs::remove_file(from.join("CURRENT")).unwrap();
    let report = Db::repair(&from, &to, &layout.ours()).unwrap();
    assert_eq!(report.lost.len(), 1, "{:?}", report.lost);
    let store = Store::open(Side::Theirs, &to, &Layout { paranoid: true, ..layout });
    assert!(store.forward().into_iter().collect::<Model>() == model);
}

/// Tests the repair of a store whose process was killed during an ingest. The repair must return
/// as much of the ingest as an open does: all of it or nothing.
#[test]
fn an_unfinished_ingest_is_not_revived() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| {
        let path = folder.path().join(name);
        let mut writer = SortedTableWriter::create(&path, &layout()).unwrap();
        (0..if name == "a" { 20 } else { 1 }).for_each(|n| writer.put(format!("{name}{n:02}"), [7; 9000]).unwrap());
        writer.finish().unwrap();
        path
    });
    let disk = CrashFs::new(Rules::Ext4);
    let db = kit::open(&(Arc::new(disk.clone()) as Arc<dyn FileSystem>), &layout(), true).unwrap();
    (1..=20).for_each(|number| drop(kit::write(&db, &kit::batch(SEED, number), false)));
    db.flush().unwrap();
    db.put("alone", "in the log").unwrap();
    let begin = disk.steps();
    db.ingest(&paths).unwrap();
    let mut seen = BTreeSet::new();
    for step in begin..=disk.steps() {
        let left = disk.state_after(step).file_system();
        let opened = kit::contents(&kit::open(&left.clone(), &layout(), true).unwrap()).unwrap();
        let left = disk.state_after(step).file_system();
        let damaged = kit::storage(&left, OpenMode::Salvage, &layout()).unwrap();
        let fresh: Arc<dyn FileSystem> = kit::anywhere();
        repair_on(&*damaged, &*kit::storage(&fresh, OpenMode::Create, &layout()).unwrap(), &layout()).unwrap();
        let repaired = kit::contents(&kit::open(&fresh, &layout(), true).unwrap()).unwrap();
        assert!(repaired == opened, "step {step} of {begin}: REVIVED {} of {} pairs", repaired.len(), opened.len());
        seen.insert(opened.len());
    }
    assert_eq!(seen.len(), 2, "all or nothing");
}
