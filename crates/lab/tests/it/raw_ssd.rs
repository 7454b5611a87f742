//! Measures what a store without a file system costs on an SSD in steady state, with and without
//! discards. The figures are the bytes written to the drive, and the bytes programmed into flash
//! for each of these bytes (WA2). Before the store is created, the drive is filled and overwritten
//! until its write amplification is constant. All sizes are those of the profile `ssd-s`, reduced
//! by the same factor. The seed determines all operations.
use std::sync::Arc;
use terrace::{Db, Options, WriteBatch, WriteOptions};
use terrace_device::{
    BlockDevice, Cached, Deaf, Memory,
    ssd::{Counts, Ftl, Profile, Ssd},
};
use terrace_sim::Rng;
use terrace_storage::{
    backends::raw::{self, RawFs, Sizes},
    open_files,
    placement::OpenMode,
};

const CAPACITY: u64 = 64 << 20;
/// Number of keys. With their values they fill about four fifths of the device, including the
/// temporary space of compactions.
const KEYS: usize = 42_000;
const VALUE_BYTES: usize = 1000;

/// Returns the profile `ssd-s` with superblocks of one sixty-fourth of the size and the same count
/// of superblocks.
fn profile() -> Profile {
    let whole = Profile::named("ssd-s").expect("a profile of that name");
    Profile { capacity_bytes: CAPACITY, pages_per_block: 4, latency: None, ..whole }
}

fn options() -> Options {
    let mut options = Options::preset("device").expect("a preset of that name");
    for (name, value) in [
        ("write_buffer_size", "512KiB"),
        ("target_file_size", "256KiB"),
        ("max_bytes_for_level_base", "2MiB"),
        ("compression", "none"),
        ("durability_interval_ms", "0"),
        ("reserve_bytes", "0"),
        ("unsynced_bytes_limit", "4MiB"),
    ] {
        options.set(name, value).expect("an option of that name");
    }
    options
}

/// Returns a drive in steady state, its file list, and an open store on it.
fn store(discards: bool, sizes: Sizes) -> (Arc<Ssd>, Arc<RawFs>, Db) {
    let mut ftl = Ftl::new(profile()).unwrap();
    assert!(ftl.precondition(|_| true).unwrap(), "it never reaches a steady state");
    let drive = Arc::new(Ssd::with(ftl, Box::new(Memory::new(CAPACITY).unwrap())).unwrap());
    let below: Arc<dyn BlockDevice> = if discards { drive.clone() } else { Arc::new(Deaf::new(drive.clone())) };
    let device = Arc::new(Cached::new(below));
    // The wrapper `Deaf` makes the drive ignore discards. Without it, formatting would discard the
    // drive's previous contents, and the drive would not be in steady state any more.
    raw::format(&Deaf::new(device.clone()), sizes, 1).unwrap();
    let fs = RawFs::new(device, "drive");
    let options = options();
    let tracker = options.durability.tracker(&*fs, &options.setup()).unwrap();
    let placement = open_files(fs.clone(), OpenMode::Create, tracker, &options.setup()).unwrap();
    (drive, fs, Db::open_manual(placement, options).unwrap())
}

/// Overwrites random keys until the host has written `passes` times the drive's capacity. Returns
/// the drive's counters for each pass (writes of one capacity), and the highest share of used
/// slots.
fn run(discards: bool, passes: u64) -> (Vec<Counts>, f64) {
    let (drive, fs, db) = store(discards, Sizes { slot_bytes: 8 << 10, unit_slots: 64 });
    let slots = fs.superblock().unwrap().slots();
    let (mut rng, mut passed, mut before, mut number) = (Rng::new(1), Vec::new(), drive.counts(), 0);
    let mut fullest = 0.0f64;
    while (passed.len() as u64) < passes {
        let key = if number < KEYS { number } else { rng.below(KEYS) };
        number += 1;
        let value: Vec<u8> = (0..VALUE_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        let sync = rng.chance(1, 100);
        db.put_with(format!("key{key:08}"), value, WriteOptions { sync, ..WriteOptions::default() }).unwrap();
        while db.step(0).is_some() {}
        if number % 64 == 0 {
            fullest = fullest.max(1.0 - fs.free_slots().unwrap() as f64 / f64::from(slots));
            let counts = drive.counts();
            if counts.host_bytes - before.host_bytes >= CAPACITY {
                passed.push(counts.since(&before));
                before = counts;
            }
        }
    }
    (passed, fullest)
}

#[test]
fn a_full_drive_in_steady_state_relocates_almost_nothing() {
    for discards in [true, false] {
        let (passes, fullest) = run(discards, 10);
        let wa2: Vec<f64> = passes.iter().map(|counts| counts.wa2().expect("it was written to")).collect();
        println!("discards {discards}: WA2 by pass {wa2:.3?}, at most {:.0} % of the slots in use", fullest * 100.0);
        assert!((0.75..0.95).contains(&fullest), "{fullest} of the device in use");
        assert!(*wa2.last().unwrap() <= 1.05, "discards {discards}: {wa2:.3?}");
    }
}

/// Puts 16,000 entries in batches of `pairs` entries. If `sync` is set, each batch is synced.
/// Returns three byte counts: the bytes written to the drive, the bytes that the store wrote to
/// its WAL, and the bytes that it wrote elsewhere.
fn fill(pairs: usize, sync: bool) -> [u64; 3] {
    let (drive, _, db) = store(true, Sizes { slot_bytes: 64 << 10, unit_slots: 16 });
    let before = drive.counts().host_bytes;
    let mut rng = Rng::new(2);
    for _ in 0..16_000 / pairs {
        let mut batch = WriteBatch::new();
        for _ in 0..pairs {
            batch.put(format!("key{:08}", rng.below(KEYS)), [7; VALUE_BYTES]);
        }
        db.write(batch, WriteOptions { sync, ..WriteOptions::default() }).unwrap();
        while db.step(0).is_some() {}
    }
    let statistics = db.statistics();
    let log: u64 =
        statistics.bytes_written.iter().filter(|(purpose, _)| *purpose == "wal").map(|(_, bytes)| bytes).sum();
    let all: u64 = statistics.bytes_written.iter().map(|(_, bytes)| bytes).sum();
    [drive.counts().host_bytes - before, log, all - log]
}

#[test]
fn unsynced_wal_bytes_are_not_written_and_synced_ones_once() {
    let [unsynced, log, rest] = fill(1, false);
    println!("no syncs: {unsynced} B to the drive, {log} B of WAL, {rest} B of SSTables and others");
    assert!(unsynced < rest + rest / 20 + log / 20, "unneeded WAL bytes were written");
    let [synced, log, rest] = fill(64, true);
    println!("a sync for 64 pairs: {synced} B to the drive, {log} B of WAL, {rest} B of SSTables and others");
    // A sync writes the last page of the WAL. The next sync writes the same page again if it was
    // not full.
    assert!(synced < log + log / 10 + rest + rest / 20, "bytes were written more than once");
}
