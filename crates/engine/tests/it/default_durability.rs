//! Tests of stores for which no option sets the durability mode. A new store must make its files
//! durable in batches, and must record this mode in its format file. An existing store must keep
//! its mode.
use crate::common::kit;
use kit::{Place, TIGHT, contents, storage};
use std::{fs, path::Path, sync::Arc};
use terrace::{Db, DurabilityMode, Error, Options, Syncs, WriteOptions};
use terrace_format::FormatFile;
use terrace_sim::{CrashFs, Rules};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};

/// Returns the default options with the sizes of [`TIGHT`].
fn by_default() -> Options {
    let mut options = Options::default();
    TIGHT.iter().for_each(|(name, value)| options.set(name, value).expect("an option"));
    options
}

/// Opens the store with `options` and returns the durability mode in use.
fn durability_mode(path: &Path, options: Options) -> &'static str {
    let db = Db::open(path, options).expect("open");
    db.put("k", "v").expect("put");
    let durability_mode = db.statistics().durability;
    db.close().expect("close");
    durability_mode
}

fn preset(name: &str) -> Options {
    Options::preset(name).expect("a preset")
}

#[test]
fn a_new_store_uses_batch_durability_and_records_it() {
    let place = Place::directory();
    let path = place.path().expect("a directory");
    let auto = if DurabilityMode::Auto.refusal(&path).is_none() { "group" } else { "background" };
    assert_eq!(DurabilityMode::Inherit.at(&path).expect("nothing there"), DurabilityMode::Auto);
    assert_eq!(durability_mode(&path, Options::default()), auto);
    let format_file =
        FormatFile::decode(&fs::read_to_string(path.join("TERRACE")).expect("a format file")).expect("an intact one");
    assert!(format_file.in_batches && format_file.is_leveldbs(), "{format_file:?}");
    assert_eq!(Db::open_read_only(&path, Options::default()).expect("open").statistics().durability, auto);
    assert_eq!(durability_mode(&path, preset("leveldb")), "sync", "an explicit option wins");
    assert_eq!(durability_mode(&path, Options::default()), auto, "and changes nothing");
    let copy = path.with_extension("copy");
    Db::open(&path, Options::default()).expect("open").checkpoint(&copy).expect("a copy");
    assert_eq!(durability_mode(&copy, Options::default()), auto, "a copy is as its original");
    fs::remove_dir_all(copy).expect("removed");
}

/// Tests that the preset `noblsm` syncs only flushes, and makes compactions durable by the commits
/// of the file system's journal. The preset polls the journal every five seconds and has no limit
/// for unsynced bytes.
#[test]
fn preset_noblsm_has_the_durability_of_its_paper() {
    let (noblsm, leveldb) = (preset("noblsm"), preset("leveldb"));
    assert_eq!(
        (noblsm.durability, noblsm.sync_flushes, noblsm.durability_interval_ms),
        (DurabilityMode::Journal, true, 5000)
    );
    assert_eq!(noblsm.unsynced_bytes_limit, 1 << 40);
    let of = |options: &Options| {
        (
            options.write_buffer_size,
            options.target_file_size,
            options.level0_stop_writes_trigger,
            options.max_background_compactions,
        )
    };
    assert_eq!(of(&noblsm), of(&leveldb), "otherwise it is LevelDB");
}

#[test]
fn an_existing_store_keeps_its_durability_mode() {
    for (made, has_marker) in [(preset("leveldb"), false), (preset("bolt"), true), (preset("volatile"), false)] {
        let place = Place::directory();
        let path = place.path().expect("a directory");
        durability_mode(&path, made);
        for _ in 0..2 {
            assert_eq!(DurabilityMode::Inherit.at(&path).expect("a store"), DurabilityMode::Sync);
            assert_eq!(durability_mode(&path, Options::default()), "sync");
        }
        assert_eq!(path.join("TERRACE").exists(), has_marker);
    }
}

/// Tests that in the default mode no write waits for a sync because of a flush or a compaction.
/// Only a write that requests a sync may wait for one.
#[test]
fn nothing_waits_for_a_sync_by_default() {
    let blocking = |options: Options, sync| {
        let place = Place::directory();
        let db = place.open(&options, false).expect("open");
        for n in 0..4000u32 {
            db.put((n * 7919 % 4000).to_be_bytes(), [n as u8; 500]).expect("put");
        }
        if sync {
            db.put_with("k", "v", WriteOptions::synced()).expect("put");
        }
        db.wait_durable(db.last_sequence()).expect("durable"); // this wait is not part of a write
        let waited = |said: &[(&str, Syncs)]| said.iter().map(|(_, syncs)| syncs.blocking).sum::<u64>();
        let said = db.statistics();
        assert!(said.flushes.count > 5 && said.levels.iter().any(|level| level.compactions.count > 0), "{said:?}");
        let waited = waited(&said.syncs);
        db.close().expect("close");
        waited
    };
    let mut options = by_default();
    assert_eq!(blocking(options.clone(), false), 0, "a write waited for a sync");
    assert!(blocking(options.clone(), true) > 0, "it is counted");
    options.durability = DurabilityMode::Sync;
    assert!(blocking(options, false) > 10, "LevelDB's way");
}

/// Tests that no power cut during the creation of a store loses its durability mode. (The format
/// file, which records the mode, is written before the root `CURRENT`.)
#[test]
fn no_power_cut_during_creation_loses_the_durability_mode() {
    let disk = CrashFs::new(Rules::Ext4);
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    drop(kit::open(&fs, &by_default(), true).expect("open"));
    let mut whole = 0;
    for step in 0..=disk.steps() {
        for seed in 0..8 {
            let left = disk.power_loss(step, seed).file_system();
            // As long as the root file does not exist, an open finds no store.
            if let Ok(found) = storage(&left, OpenMode::Write, &by_default())
                && found.load_root().is_ok_and(|root| root.is_some())
            {
                assert_ne!(found.durability_mode(), "sync", "cut {step}, seed {seed}");
                whole += 1;
            }
            let again =
                kit::open(&left, &by_default(), true).unwrap_or_else(|e| panic!("cut {step}, seed {seed}: {e}"));
            assert_eq!(contents(&again).expect("read"), []);
        }
    }
    assert!(whole > 0);
}

#[test]
fn an_unknown_durability_mode_in_the_format_file_is_refused() {
    let place = Place::directory();
    let path = place.path().expect("a directory");
    durability_mode(&path, Options::default());
    let format_file = path.join("TERRACE");
    let text =
        fs::read_to_string(&format_file).expect("a format file").replace("durability = auto", "durability = prayer");
    fs::write(&format_file, text).expect("written");
    let error = Db::open(&path, Options::default()).map(drop).expect_err("unknown");
    assert!(matches!(&error, Error::Unsupported(text) if text.contains("prayer")), "{error}");
}
