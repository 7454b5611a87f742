//! A metamorphic test. It runs one random history of thousands of operations with many sets of
//! options and in every place (directory, memory, raw device, split store). All runs must have
//! equal results, and their statistics must be consistent. If two runs differ, the failure message
//! names the options, the place and the seed.
use crate::common::kit;
use kit::{Model, Pairs, Place, contents, options, write};
use std::{sync::Mutex, thread};
use terrace::{Db, Options, ReadOptions, Snapshot, TableForm, WriteOptions, check_on};
use terrace_sim::Rng;
use terrace_storage::placement::OpenMode;

const SEED: u64 = 0x7e44;
const OPERATIONS: usize = 4000;

type Layout = &'static [(&'static str, &'static str)];

const SMALL: Layout =
    &[("write_buffer_size", "64KiB"), ("target_file_size", "64KiB"), ("max_bytes_for_level_base", "64KiB")];

/// The sets of options with which the history runs. Each is applied after `SMALL`, whose small
/// sizes make sure that one history uses every level.
const LAYOUTS: &[Layout] = &[
    &[],
    &[("write_buffer_size", "4MiB")],
    &[("write_buffer_size", "1MiB"), ("max_write_buffer_number", "8")],
    &[("target_file_size", "2MiB")],
    &[("target_file_size", "256KiB"), ("max_bytes_for_level_base", "10MiB")],
    &[("block_size", "1KiB")],
    &[("block_size", "64KiB"), ("block_restart_interval", "1")],
    &[("block_restart_interval", "2")],
    &[("block_restart_interval", "1024")],
    &[("compression", "none")],
    &[("compression", "zstd")],
    &[("compression", "zstd"), ("zstd_level", "9"), ("block_size", "16KiB")],
    &[("compression", "lz4")],
    &[("range_tombstones", "on")],
    &[("range_tombstones", "on"), ("allow_mmap_reads", "on"), ("bloom_bits", "10"), ("filter_form", "table")],
    &[
        ("range_tombstones", "on"),
        ("pipelined_writes", "on"),
        ("max_background_compactions", "4"),
        ("max_subcompactions", "3"),
        ("min_subcompaction_size", "1KiB"),
        ("intra_l0_compaction_trigger", "2"),
        ("compaction_pri", "min_overlapping_ratio"),
        ("copy_whole_blocks", "on"),
    ],
    &[("tables", "bundled")],
    &[("tables", "bundled"), ("allow_mmap_reads", "on"), ("max_open_files", "16"), ("durability", "background")],
    &[
        ("tables", "bundled"),
        ("range_tombstones", "on"),
        ("max_background_compactions", "4"),
        ("max_subcompactions", "3"),
        ("min_subcompaction_size", "1KiB"),
        ("intra_l0_compaction_trigger", "2"),
        ("compaction_pri", "min_overlapping_ratio"),
        ("copy_whole_blocks", "on"),
    ],
    // In any other durability mode each table build would sync the whole real file system.
    &[("tables", "directory"), ("durability", "none")],
    &[
        ("tables", "directory"),
        ("min_value_file_size", "100"),
        ("max_entries_for_level_base", "100"),
        ("allow_mmap_reads", "on"),
        ("bloom_bits", "10"),
        ("filter_form", "table"),
        ("max_open_files", "16"),
        ("durability", "background"),
    ],
    &[
        ("tables", "directory"),
        ("range_tombstones", "on"),
        ("compression", "zstd"),
        ("max_write_buffer_number", "4"),
        ("max_background_compactions", "4"),
        ("max_subcompactions", "3"),
        ("min_subcompaction_size", "1KiB"),
        ("intra_l0_compaction_trigger", "2"),
        ("compaction_pri", "min_overlapping_ratio"),
        ("copy_whole_blocks", "on"),
        ("durability", "none"),
        ("sync_sealed_wals", "on"),
    ],
    &[("compaction_style", "universal")],
    &[
        ("compaction_style", "universal"),
        ("level0_file_num_compaction_trigger", "2"),
        ("universal_size_ratio", "50"),
        ("universal_max_size_amplification_percent", "50"),
        ("range_tombstones", "on"),
        ("max_background_compactions", "4"),
        ("max_subcompactions", "3"),
        ("min_subcompaction_size", "1KiB"),
        ("intra_l0_compaction_trigger", "2"),
        ("copy_whole_blocks", "on"),
    ],
    &[
        ("compaction_style", "universal"),
        ("tables", "bundled"),
        ("values", "log"),
        ("value_log_threshold", "100"),
        ("value_log_segment_size", "64KiB"),
        ("value_log_gc_percent", "1"),
        ("durability", "auto"),
    ],
    &[("bloom_bits", "10")],
    &[("bloom_bits", "10"), ("filter_form", "table")],
    &[("bloom_bits", "1"), ("filter_form", "table"), ("block_cache_size", "1")],
    &[("block_cache_size", "1")],
    &[("max_open_files", "16"), ("block_cache_size", "64KiB")],
    &[("allow_mmap_reads", "on")],
    &[("allow_mmap_reads", "on"), ("compression", "none"), ("bloom_bits", "10"), ("max_open_files", "16")],
    &[
        ("level0_file_num_compaction_trigger", "1"),
        ("level0_slowdown_writes_trigger", "2"),
        ("level0_stop_writes_trigger", "2"),
    ],
    &[
        ("level0_file_num_compaction_trigger", "100"),
        ("level0_slowdown_writes_trigger", "1000"),
        ("level0_stop_writes_trigger", "1000"),
    ],
    &[
        ("delayed_writes", "on"),
        ("max_write_buffer_number", "4"),
        ("soft_pending_compaction_bytes_limit", "256KiB"),
        ("level0_stop_writes_trigger", "1000"),
    ],
    &[
        ("delayed_writes", "on"),
        ("level0_file_num_compaction_trigger", "2"),
        ("level0_slowdown_writes_trigger", "3"),
        ("level0_stop_writes_trigger", "4"),
    ],
    &[("pipelined_writes", "on"), ("group_commit_wait_us", "1000"), ("max_write_buffer_number", "3")],
    &[("seek_compaction", "off")],
    &[("seek_compaction_bytes", "64")],
    &[("tombstone_compaction_percent", "1"), ("max_background_compactions", "2")],
    &[("seek_compaction", "off"), ("level0_seek_compaction_bytes", "1MiB")],
    &[("max_background_compactions", "3"), ("max_write_buffer_number", "4")],
    &[("max_subcompactions", "4"), ("min_subcompaction_size", "16KiB")],
    &[("compaction_pri", "min_overlapping_ratio"), ("level_compaction_dynamic_level_bytes", "on")],
    &[("copy_whole_blocks", "on"), ("block_size", "1KiB")],
    &[("copy_whole_blocks", "on"), ("compression", "zstd"), ("bloom_bits", "10"), ("range_tombstones", "on")],
    &[
        ("level_compaction_dynamic_level_bytes", "on"),
        ("level0_file_num_compaction_trigger", "1"),
        ("max_background_compactions", "3"),
    ],
    &[("memtable_filter", "on"), ("max_write_buffer_number", "4")],
    &[
        ("max_background_compactions", "4"),
        ("base_background_compactions", "2"),
        ("level0_file_num_compaction_trigger", "2"),
    ],
    &[("intra_l0_compaction_trigger", "2"), ("max_background_compactions", "2"), ("max_write_buffer_number", "4")],
    &[
        ("level0_min_overlap_percent", "1000"),
        ("level0_file_num_compaction_trigger", "2"),
        ("level0_slowdown_writes_trigger", "10"),
        ("max_background_compactions", "2"),
    ],
    &[
        ("max_background_compactions", "4"),
        ("base_background_compactions", "1"),
        ("max_subcompactions", "3"),
        ("min_subcompaction_size", "1KiB"),
        ("intra_l0_compaction_trigger", "2"),
        ("compaction_pri", "min_overlapping_ratio"),
        ("copy_whole_blocks", "on"),
    ],
    &[("paranoid_checks", "on"), ("max_manifest_file_size", "4KiB")],
    &[("durability", "none")],
    &[("wal_write_mode", "map")],
    &[("wal_write_mode", "map"), ("write_buffer_size", "1MiB"), ("idle_durability_ms", "1")],
    &[("durability", "auto"), ("durability_interval_ms", "0")],
    &[
        ("durability", "auto"),
        ("durability_interval_ms", "5"),
        ("wal_write_mode", "map"),
        ("unsynced_bytes_limit", "1MiB"),
    ],
    &[("durability", "background"), ("durability_interval_ms", "0")],
    &[("durability", "group"), ("durability_interval_ms", "0"), ("sync_flushes", "on")],
    &[("durability", "journal-bpf"), ("durability_interval_ms", "5"), ("unsynced_bytes_limit", "1MiB")],
    &[("durability", "journal"), ("durability_interval_ms", "0"), ("unsynced_bytes_limit", "1MiB")],
    &[("values", "log")],
    &[
        ("values", "log"),
        ("value_log_threshold", "0"),
        ("value_log_segment_size", "64KiB"),
        ("durability", "auto"),
        ("value_log_gc_percent", "1"),
    ],
    &[
        ("values", "log"),
        ("value_log_threshold", "100"),
        ("value_readahead_bytes", "1"),
        ("value_log_segment_size", "64KiB"),
        ("value_log_gc_percent", "1"),
        ("allow_mmap_reads", "on"),
        ("pipelined_writes", "on"),
        ("wal_write_mode", "map"),
        ("max_background_compactions", "3"),
        ("max_subcompactions", "3"),
        ("min_subcompaction_size", "1KiB"),
        ("intra_l0_compaction_trigger", "2"),
        ("compression", "none"),
    ],
    &[("idle_durability_ms", "1")],
    &[("idle_durability_ms", "0"), ("max_background_compactions", "2")],
];

/// Sets of options that create a store with a format file. In such a store, a range delete writes
/// a range tombstone.
const WITH_FORMAT_FILE: Layout = &[
    ("range_tombstones", "on"),
    ("compression", "lz4"),
    ("compaction_style", "universal"),
    ("tables", "bundled"),
    ("tables", "directory"),
    ("values", "log"),
];

/// A drop guard that prints the name of the run if the run panics.
struct Context {
    layout: Layout,
    place: &'static str,
}

impl Drop for Context {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("in {} under {:?}, seed {SEED:#x}", self.place, self.layout);
        }
    }
}

/// The results of a run, as far as a user of the store can see them.
#[derive(PartialEq, Eq)]
struct Answers {
    contents: Pairs,
    gets: Vec<Option<Vec<u8>>>,
    scans: Vec<Pairs>,
    last_sequence: u64,
}

fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => Vec::new(),
        1 => vec![0xff; rng.below(4)],
        2 => vec![0; rng.below(4)],
        _ => format!("user/{:03}/{}", rng.below(300), ["name", "mail"][rng.below(2)]).into_bytes(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let bytes = if rng.chance(1, 100) { rng.below(30_000) } else { rng.below(300) };
    let word = rng.next_u64().to_le_bytes();
    let noisy = rng.chance(1, 2);
    (0..bytes).map(|_| if noisy { rng.next_u64() as u8 } else { word[rng.below(8)] }).collect()
}

/// Runs the history and compares the final contents of the store with a map. Without this
/// comparison, all runs could be equally wrong without a failure.
fn run(place: &Place, options: &Options, manual: bool) -> Answers {
    let mut rng = Rng::new(SEED);
    let mut db = place.open(options, manual).expect("open");
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let mut answers = Answers { contents: Vec::new(), gets: Vec::new(), scans: Vec::new(), last_sequence: 0 };
    let mut model = Model::new();
    for _ in 0..OPERATIONS {
        match rng.below(1000) {
            0..800 => {
                let ops: Vec<_> = (0..1 + rng.below(3) * rng.below(3))
                    .map(|_| (key(&mut rng), rng.chance(4, 5).then(|| value(&mut rng))))
                    .collect();
                kit::apply(&mut model, &ops);
                write(&db, &ops, rng.chance(1, 50)).expect("write");
            }
            800..900 => {
                let keys = [key(&mut rng), key(&mut rng), key(&mut rng)];
                let together: terrace::Result<Vec<_>> = db.multi_get(&keys).into_iter().collect();
                let separated = keys.map(|key| db.get(key).expect("get"));
                assert_eq!(together.expect("multi_get"), separated);
                answers.gets.extend(separated);
            }
            900..930 => {
                let range = ReadOptions::new().from(key(&mut rng)).to(key(&mut rng));
                answers.scans.push(kit::scan(&db, range).expect("scan"));
                let back = db.scan_reverse(ReadOptions::new().to(key(&mut rng)).prefix("user/1"));
                answers.scans.push(back.collect::<terrace::Result<_>>().expect("scan back"));
            }
            930..950 => snapshots.push(db.snapshot()),
            950..970 if !snapshots.is_empty() => {
                let snapshot = snapshots.swap_remove(rng.below(snapshots.len()));
                answers.scans.push(kit::scan(&db, ReadOptions::new().snapshot(&snapshot)).expect("scan"));
            }
            970..980 => db.flush().expect("flush"),
            980..984 => {
                let (from, to) = (key(&mut rng), key(&mut rng));
                db.compact_range(Some(&from), Some(&to)).expect("compact");
            }
            984..987 => {
                snapshots.clear();
                let orderly = rng.chance(1, 2);
                if orderly {
                    db.close().expect("close")
                } else {
                    drop(db)
                }
                db = place.open(options, manual).expect("reopen");
            }
            987..992 => {
                let (from, to) = (key(&mut rng), key(&mut rng));
                model.retain(|key, _| !(*key >= from && *key < to));
                db.delete_range(&from, &to, WriteOptions::default()).expect("delete a range");
            }
            _ => drop(db.step(rng.next_u64())),
        }
    }
    answers.last_sequence = db.last_sequence();
    answers.contents = contents(&db).expect("contents");
    assert!(model.into_iter().eq(answers.contents.iter().cloned()), "the contents are not the map's");
    drop(snapshots);
    check_statistics(db, place, options, answers.contents.len() as u64);
    answers
}

/// Makes a full compaction, and checks that the statistics then equal the results of a deep check.
fn check_statistics(db: Db, place: &Place, options: &Options, pairs: u64) {
    db.compact_range(None, None).expect("compact");
    db.wait_idle().expect("idle");
    kit::check_layout(&db.layout(), options.order()).expect("an intact layout");
    let said = db.statistics();
    assert_eq!(said.snapshots + said.sealed_memtables + said.pending_edits + said.failed_deletions, 0, "{said:?}");
    for (level, info) in said.levels.iter().zip(db.layout()) {
        assert_eq!(level.tables, info.tables.len() as u64);
        assert_eq!(level.bytes, info.tables.iter().map(|table| table.bytes).sum::<u64>());
    }
    let bytes = |purpose: &str| said.bytes_written.iter().find(|(name, _)| *name == purpose).expect("a purpose").1;
    let synced = |kind: &str| said.syncs.iter().find(|(name, _)| *name == kind).expect("a kind").1.count;
    let compacted: u64 = said.levels.iter().map(|level| level.compactions.bytes_written).sum();
    let may_be = match said.layout.tables {
        TableForm::Block => compacted..=compacted,
        // In a bundle, each table begins at a multiple of a 4 KiB block, and the bundle's directory
        // follows the tables. All tables but the last one have several blocks; the last one may be
        // short.
        TableForm::Bundled => compacted..=compacted + compacted / 4 + synced("tables") * (8 << 10),
        // Compactions of directory tables write the keys again, but link the files of values.
        TableForm::Directory => 1..=compacted,
    };
    assert!(compacted == 0 || may_be.contains(&bytes("compaction")), "{said:?}");
    let by_level: u64 = said.levels.iter().map(|level| level.compacted_bytes).sum();
    assert_eq!(by_level, bytes("compaction"), "{said:?}");
    for level in said.levels.iter().filter(|level| level.compactions.bytes_written > 0) {
        assert!(level.compacted_bytes > 0, "{said:?}");
        // If every table is a separate file, compactions wrote exactly the bytes of the tables.
        assert!(
            said.layout.tables != TableForm::Block || level.compacted_bytes == level.compactions.bytes_written,
            "{said:?}"
        );
    }
    assert!(said.flushes.bytes_written <= bytes("flush"), "recovery flushes too: {said:?}");
    let syncs: u64 = said.syncs.iter().map(|(_, syncs)| syncs.count).sum();
    assert_eq!(syncs > 0, options.durability.name() != "none", "{said:?}");
    assert!(said.durable_sequence <= said.last_sequence, "{said:?}");

    let tables = said.levels.iter().map(|level| level.tables).sum();
    let table_bytes = said.levels.iter().map(|level| level.bytes).sum();
    db.close().expect("close");
    let storage = kit::storage(&place.fs, OpenMode::ReadOnly, options).expect("open read-only");
    let report = check_on(&*storage, options, true).expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
    // After a full compaction without snapshots there is exactly one entry for each pair, and the
    // WALs have no entry.
    assert_eq!((report.entries, report.range_tombstones, report.wal_entries), (pairs, 0, 0));
    assert_eq!((report.tables, report.table_bytes), (tables, table_bytes), "tables and their bytes");
}

fn with_layout(layout: Layout) -> Options {
    options(&[SMALL, layout].concat())
}

#[test]
fn one_history_has_equal_results_under_all_options_and_in_all_places() {
    assert!(LAYOUTS.len() >= 24, "the campaign has shrunk");
    let places: [fn() -> Place; 5] = [Place::memory, Place::scrambled, Place::directory, Place::device, Place::split];
    let jobs: Vec<_> =
        (0..LAYOUTS.len()).flat_map(|layout| (0..places.len()).map(move |place| (layout, place))).collect();
    // A range delete takes one sequence number. In stores without range tombstones it takes one for
    // each deleted key. Therefore there are two reference runs.
    let references = ["off", "on"].map(|ranges| run(&Place::memory(), &options(&[("range_tombstones", ranges)]), true));
    let deletes_ranges =
        |layout: Layout| WITH_FORMAT_FILE.iter().any(|with_format_file| layout.contains(with_format_file));
    let queue = Mutex::new(jobs);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((layout, place)) = { queue.lock().unwrap().pop() } {
                    let (place, layout) = (places[place](), LAYOUTS[layout]);
                    // A split store always has a format file, whatever the options.
                    let reference = &references[usize::from(deletes_ranges(layout) || place.name == "split")];
                    if let Some(why) = place.refuses(&with_layout(layout)) {
                        println!("skipped: {why}");
                        continue;
                    }
                    let _context = Context { layout, place: place.name };
                    // Stores in real directories run their jobs on threads, so that the timing of
                    // the jobs is that of a real file system.
                    let answers = run(&place, &with_layout(layout), place.path().is_none());
                    assert!(answers.contents == reference.contents, "other answers: contents");
                    assert!(answers.gets == reference.gets, "other answers: gets");
                    assert!(answers.scans == reference.scans, "other answers: scans");
                    assert_eq!(answers.last_sequence, reference.last_sequence);
                }
            });
        }
    });
}
