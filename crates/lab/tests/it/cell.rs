//! Tests that a cell (the run of one engine in one round) reports exactly the costs of its engine.
//! Most tests use a fake engine whose costs are known.
use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use terrace_lab::{
    cell::{CellSpec, Event, Row, SYNC_KINDS, SyncRow, run_cell},
    device::{DeviceSpec, FileSystem},
    engines::{self, fake::Fake},
    target::{Settings, StoreMedium},
    workload::{self, Job, store::Store, ycsb::Update},
};
use terrace_peers::require;

/// Returns a lock that only one cell at a time can take. The kernel's counters cover the whole
/// process, so two cells that ran at the same time would be counted together.
fn exclusive() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn spec(workloads: &str) -> CellSpec {
    CellSpec {
        engine: "fake".into(),
        workloads: workloads.split(',').map(String::from).collect(),
        num: 1000,
        ..CellSpec::default()
    }
}

/// Runs a cell in a directory of its own and returns its rows (results). The directory is on a
/// disk, because the kernel counts no bytes of a tmpfs.
fn rows(spec: &CellSpec, fake: &Fake) -> Vec<Row> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the store");
    rows_of(&CellSpec { dir: dir.path().into(), ..spec.clone() }, fake)
}

fn rows_of(spec: &CellSpec, fake: &Fake) -> Vec<Row> {
    try_rows_of(spec, fake).expect("the spec is valid")
}

fn try_rows_of(spec: &CellSpec, fake: &Fake) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let engine = |name: &str| if name == "fake" { Ok(Box::new(fake.clone()) as _) } else { engines::engine(name) };
    run_cell(spec, &engine, &mut |event| match event {
        Event::Row(row) => rows.push(*row),
        Event::Progress { progress } => assert!(progress.done <= progress.total, "{progress:?}"),
    })?;
    Ok(rows)
}

/// Runs a cell on a loop device of `bytes` bytes and returns its rows (results). Returns `None` if
/// this machine does not support loop devices.
fn rows_on_loop(bytes: u64, spec: &CellSpec, fake: &Fake) -> Option<Vec<Row>> {
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the device");
    let prepared = DeviceSpec::Loop(bytes, FileSystem::Ext4).prepare(work.path(), StoreMedium::FileSystem, false, None);
    let device = require("loop", prepared)?;
    let spec = CellSpec { dir: device.dir.clone(), device: device.node.clone(), ..spec.clone() };
    let rows = whole(rows_of(&spec, fake));
    device.remove().expect("it is not in use");
    Some(rows)
}

fn whole(rows: Vec<Row>) -> Vec<Row> {
    rows.iter().for_each(|row| assert_eq!(row.error, None, "{}", row.workload));
    rows
}

#[test]
fn known_bytes_syncs_and_times_are_reported() {
    let _exclusive = exclusive();
    let fake = Fake {
        write_time: Duration::from_micros(300),
        read_time: Duration::from_micros(100),
        bytes_per_change: 4096,
        writes_per_sync: 10,
        stall: Duration::from_millis(1),
        counts: true,
        ..Fake::default()
    };
    let rows = whole(rows(&spec("fillseq,readrandom"), &fake));
    let (fill, read) = (&rows[0], &rows[1]);

    assert_eq!((fill.ops, fill.bytes.user, fill.bytes.engine), (1000, 116_000, Some(4_096_000)));
    assert_eq!(fill.wa.engine, Some(4_096_000.0 / 116_000.0));
    assert_eq!(fill.bytes.engine_by_purpose.as_ref().unwrap()["wal"], 4_096_000);
    let process = fill.bytes.process.expect("/proc/self/io");
    // The file system also dirties its own pages: inodes, extents and bitmaps.
    let metadata = 256 << 10;
    assert!((4_096_000..4_096_000 + metadata).contains(&process), "{process}");
    // The file system may need one more block for extents.
    let space = fill.space_bytes.expect("a directory");
    assert!((4_096_000..=4_096_000 + 4096).contains(&space), "{space}");
    assert_eq!(fill.sa, Some(space as f64 / 116_000.0));

    let log = fill.syncs.kinds["log"].unwrap();
    assert_eq!((log.count, log.blocking, log.bytes), (100, Some(100), Some(4_096_000)));
    assert_eq!((fill.syncs.count, fill.syncs.blocking), (Some(100), Some(100)));
    for kind in SYNC_KINDS.into_iter().filter(|kind| *kind != "log") {
        assert_eq!(fill.syncs.kinds[kind].unwrap().count, 0, "{kind}");
    }
    if let Some(outside) = &fill.syncs_outside {
        assert_eq!(outside["log"].count, 100, "the kernel saw the same");
    }
    assert_eq!(fill.stall_seconds, Some(1.0));

    let put = fill.latency_us["put"];
    assert_eq!(put.count, 1000);
    assert!(put.p50 >= 299.7 && put.p50 < 900.0, "{put:?}: 300 µs, less a thousandth of rounding");
    assert!(put.p50 <= put.p90 && put.p90 <= put.p99 && put.p99 <= put.p999 && put.p9999 <= put.max, "{put:?}");
    let over_time = fill.over_time.as_ref().expect("latencies are recorded");
    assert_eq!(over_time.ops.iter().sum::<u64>(), 1000);
    // A call takes at least 300 µs, so a span (period of time) can contain only this number of
    // calls.
    let most = (over_time.span_seconds / 300e-6) as u64 + 1;
    assert!(over_time.ops.len() >= 30 && over_time.ops.iter().all(|ops| *ops <= most), "{over_time:?}");
    assert_eq!(over_time.latency_us.keys().collect::<Vec<_>>(), ["put"]);
    let times = &over_time.latency_us["put"];
    assert!(times.p50.iter().flatten().all(|micros| *micros >= 300.0), "{times:?}");
    let longest = times.max.iter().flatten().copied().fold(0.0, f64::max);
    assert!(longest >= put.max && longest < put.max * 1.07, "{longest} is not {}", put.max);
    assert!(fill.seconds.unwrap() >= 0.3 && fill.micros_per_op.unwrap() >= 300.0);
    assert!(fill.cpu_seconds.unwrap().user > 0.15, "it spins: {:?}", fill.cpu_seconds);

    assert_eq!((read.ops, read.found, read.bytes.returned), (1000, 1000, 116_000));
    let get = read.latency_us["get"];
    assert!(get.count == 1000 && get.p50 >= 99.9 && get.p50 < 400.0, "{get:?}");
    assert_eq!((read.bytes.user, read.wa.engine, read.syncs.count), (0, None, Some(0)));
}

#[test]
fn the_device_counts_the_written_bytes() {
    let _exclusive = exclusive();
    let fake = Fake { bytes_per_change: 4096, counts: true, ..Fake::default() };
    let Some(rows) = rows_on_loop(64 << 20, &spec("fillseq"), &fake) else { return };
    let row = &rows[0];

    let seen = row.bytes.device.expect("the device counts");
    let metadata = 512 << 10; // journal, inode tables, bitmaps
    assert!((4_096_000..4_096_000 + metadata).contains(&seen), "{seen}");
    assert!(row.bytes.file_system.expect("ext4 counts").abs_diff(seen) <= 4096, "{:?}", row.bytes);
    assert_eq!(row.wa.wa1, Some(seen as f64 / 116_000.0));
    assert_eq!(row.wa.fs, Some(seen as f64 / 4_096_000.0));
    assert!(row.device_flushes >= Some(1) && row.journal_commits >= Some(1), "the lab's own sync, at least");
}

/// Tests the engine `null`, which stores nothing, so that all writes are lost. A driver that
/// checks results must find the loss at the first read. A driver that does not check results must
/// report no error.
#[test]
fn answers_are_checked_unless_the_spec_says_otherwise() {
    let _exclusive = exclusive();
    let reads = "fillseq,readrandom,readseq,readreverse";
    let null = CellSpec { engine: "null".into(), ..spec(reads) };
    let checked = rows(&null, &Fake::default());
    assert!(
        checked.iter().any(|row| row.error.as_ref().is_some_and(|error| error.contains("wrong result"))),
        "{checked:?}"
    );
    let unchecked = whole(rows(&CellSpec { check_answers: false, ..null }, &Fake::default()));
    assert_eq!(unchecked.len(), 4);
}

#[test]
fn missing_engine_counters_are_null() {
    let _exclusive = exclusive();
    let rows = whole(rows(&spec("fillrandom"), &Fake::default()));
    let json = serde_json::to_value(&rows[0]).expect("a row is JSON");
    for path in ["/bytes/engine", "/bytes/engine_by_purpose", "/bytes/nand", "/wa/engine", "/wa/wa2", "/stall_seconds"]
    {
        assert_eq!(json.pointer(path), Some(&serde_json::Value::Null), "{path}");
    }
    let contract = "engine preset version workload round num key_size value_size threads ops seconds micros_per_op \
        user_mib_per_s settle_seconds latency_us stall_seconds bytes wa ra sa syncs device_flushes journal_commits \
        space_bytes peak_rss_bytes peak_anon_bytes cpu_seconds build settings machine";
    for name in contract.split_whitespace() {
        assert!(json.get(name).is_some(), "{name}");
    }
    for kind in SYNC_KINDS {
        assert!(json["syncs"].get(kind).is_some(), "{kind}");
    }
    let event = Event::Row(Box::new(rows[0].clone()));
    let text = serde_json::to_string(&event).expect("an event is JSON");
    let Ok(Event::Row(back)) = serde_json::from_str(&text) else { panic!("a row reads back as a row: {text}") };
    assert_eq!((&back.workload, &back.bytes, &back.syncs), (&rows[0].workload, &rows[0].bytes, &rows[0].syncs));
    let progress = r#"{"progress":{"workload":"fillseq","phase":"run","done":1,"total":2}}"#;
    assert!(matches!(serde_json::from_str(progress), Ok(Event::Progress { .. })));
}

#[test]
fn an_error_ends_the_cell_with_its_message() {
    let _exclusive = exclusive();
    let fails = Fake { fails_after: Some(1500), ..Fake::default() };
    let rows = rows(&spec("fillrandom,overwrite,readrandom"), &fails);
    assert_eq!(rows.len(), 2, "nothing follows the failure");
    assert_eq!(rows[0].error, None);
    assert!(rows[1].error.as_ref().unwrap().contains("fails as configured"), "{:?}", rows[1].error);
}

#[test]
fn a_lost_write_is_found_by_every_kind_of_read() {
    let _exclusive = exclusive();
    let forgets = Fake { forgets_after: Some(500), ..Fake::default() };
    for read in ["readrandom", "readseq", "readreverse", "seekrandom"] {
        let mut spec = spec(&format!("fillseq,{read}"));
        spec.reads = Some(20_000);
        let rows = rows(&spec, &forgets);
        let error = rows[1].error.as_ref().unwrap_or_else(|| panic!("{read} saw nothing"));
        assert!(error.contains("wrong result for key 0000000000000500"), "{read}: {error}");
    }
    // After a lost overwrite, the key still has its older value.
    let rows = rows(&spec("fillseq,overwrite,readseq"), &Fake { forgets_after: Some(1999), ..Fake::default() });
    assert!(rows[2].error.as_ref().unwrap().contains("wrong result"), "{:?}", rows[2].error);
}

#[test]
fn an_unavailable_engine_is_reported_in_its_row() {
    let _exclusive = exclusive();
    let rows = rows(&CellSpec { engine: "oracle".into(), ..spec("fillseq,readseq") }, &Fake::default());
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.error.as_ref().unwrap().contains("oracle")));
}

#[test]
fn every_workload_runs_and_verifies_on_terrace() {
    let _exclusive = exclusive(); // the workloads of this test write
    let lists = [
        "fillseq,readseq,readreverse,overwrite,readrandom,readmissing,readhot,seekrandom,deleterandom,readrandom,readseq,\
         deleteseq,readseq,seekrandom",
        "fillrandom,readwhilewriting,compact,readreverse,open,crc32c,readrandom,fillsync,fillbatch,readseq,fill100K,readseq",
        "write-delete-write:30,write-delete-read",
        "ycsb-load,ycsb-a,ycsb-b,ycsb-c,ycsb-f,ycsb-d,ycsb-e,readseq,readreverse,readrandom",
        "ycsb-load,ycsb-write:80,ycsb-write-uniform:60,readrandom,forestdb-load,forestdb-update:1,forestdb-update:100,\
         forestdb-read,readseq,mixgraph-load,mixgraph,readrandom,readreverse",
        "chainstate-load,chainstate,readseq",
    ];
    let small = spec("").settings;
    let settings = terrace_lab::target::Settings { write_buffer_size: 64 << 10, max_file_size: 64 << 10, ..small };
    for (workloads, threads, batch, ycsb_update) in [
        (lists[0], 1, 1, Update::Blind),
        (lists[0], 3, 7, Update::Blind),
        (lists[1], 1, 1, Update::Blind),
        (lists[1], 3, 1, Update::Blind),
        (lists[2], 2, 1, Update::Blind),
        (lists[3], 1, 1, Update::Merge),
        (lists[3], 4, 1, Update::Merge),
        (lists[3], 4, 1, Update::Blind),
        (lists[4], 1, 1, Update::Blind),
        (lists[4], 3, 1, Update::Blind),
        (lists[5], 1, 1, Update::Blind),
    ] {
        let settings = settings.clone();
        let dir = tempfile::tempdir().expect("a directory for the store");
        let dir = dir.path().into();
        let spec = CellSpec { dir, threads, batch, ycsb_update, settings, num: 3000, ..spec(workloads) };
        let engine = engines::engine("terrace:volatile").expect("it is listed");
        let mut store = Store::create(&*engine, &spec).expect("a store");
        for (index, name) in spec.workloads.iter().enumerate() {
            for stage in workload::stages(name).expect("it is listed") {
                let job = Job::new(&spec, &stage.name(), index);
                let run = stage.prepare(&mut store, &job).and_then(|()| stage.run(&mut store, &job, &mut |_| ()));
                let tally =
                    run.unwrap_or_else(|error| panic!("{} on {threads} threads: {error:#}", stage.name())).tally;
                assert!(tally.ops <= stage.total(&store, &job), "{}: {tally:?}", stage.name());
                assert!(tally.found > 0 || name != "readrandom", "{tally:?}");
            }
        }
        store.close().expect("it closes");
    }
}

/// Tests workloads that write without an engine. They must report exactly the bytes that they
/// write. If a stage of such a workload cannot run, an error must be reported.
#[test]
fn writes_without_an_engine_are_counted_as_written() {
    let _exclusive = exclusive();
    let fake = Fake::default();
    let spec = CellSpec {
        value_size: 8192,
        num: 100,
        engine: "null".into(),
        ..spec("bare:sequential,bare:random,files:sync")
    };
    let rows = whole(rows(&spec, &fake));
    assert!(rows.iter().all(|row| (row.ops, row.bytes.user) == (100, 819_200)), "{rows:?}");
    let process = rows[2].bytes.process.expect("/proc/self/io");
    // The file system may need one more block for extents.
    let space = rows[2].space_bytes.expect("a directory");
    assert!(process >= 819_200 && (2 * 819_200..=2 * 819_200 + 4096).contains(&space), "{process} {space}");
    if let Some(outside) = &rows[2].syncs_outside {
        assert_eq!(outside["tables"].count, 100, "each file is synced");
    }
    let refused = self::rows(&CellSpec { value_size: 100, ..spec }, &fake);
    assert!(refused[0].error.as_ref().unwrap().contains("a multiple of 4096"), "{:?}", refused[0].error);
}

/// Tests a workload that writes to a device without a file system. The device must receive only
/// the bytes that the workload writes.
#[test]
fn only_the_written_bytes_reach_a_bare_device() {
    let _exclusive = exclusive();
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the device");
    let place = DeviceSpec::Loop(64 << 20, FileSystem::Ext4);
    let Some(device) = require("loop", place.prepare(work.path(), StoreMedium::Device, false, None)) else { return };
    let on = |workloads, num| CellSpec {
        value_size: 8192,
        num,
        engine: "null:device".into(),
        dir: device.dir.clone(),
        device: device.node.clone(),
        ..spec(workloads)
    };
    for row in whole(rows_of(&on("bare:sequential,bare:random", 100), &Fake::default())) {
        assert_eq!((row.ops, row.bytes.user, row.bytes.device), (100, 819_200, Some(819_200)), "{row:?}");
    }
    for (workload, num, why) in
        [("bare:random", 8193, "has 67108864 bytes"), ("files:async", 1, "a device has no files")]
    {
        let refused = rows_of(&on(workload, num), &Fake::default());
        assert!(refused[0].error.as_ref().unwrap().contains(why), "{refused:?}");
    }
    device.remove().expect("it is not in use");
}

/// Tests a device to which another program writes during a workload. The cell must report an error
/// instead of a result.
#[test]
fn a_shared_device_is_an_error_instead_of_a_row() {
    let _exclusive = exclusive();
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the device");
    let Some(device) = require(
        "loop",
        DeviceSpec::Loop(64 << 20, FileSystem::Ext4).prepare(work.path(), StoreMedium::FileSystem, false, None),
    ) else {
        return;
    };
    let fake = Fake { write_time: Duration::from_millis(1), bytes_per_change: 4096, ..Fake::default() };
    let spec = CellSpec { dir: device.dir.clone(), device: device.node.clone(), ..spec("fillseq,fillseq") };
    let stranger = device.dir.parent().expect("the mount point").join("stranger");
    let rows = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The other program writes 1 MiB during the first of the two fill stages, which takes a
            // second.
            while !device.dir.join("store/fake.log").metadata().is_ok_and(|log| log.len() > 100 * 4096) {
                std::thread::yield_now();
            }
            std::fs::write(&stranger, vec![7; 1 << 20]).expect("it is written");
        });
        rows_of(&spec, &fake)
    });
    device.remove().expect("it is not in use");
    let traced = Err("no trace of the device here")
        .or_else(|why| rows[0].notes.iter().find(|note| note.starts_with("the causes")).map_or(Ok(()), |_| Err(why)));
    let Some(()) = require("tracefs", traced) else { return };
    let error = rows[0].error.as_ref().expect("others wrote a fifth of it");
    assert!(error.contains("not reported: others wrote") && error.contains("% of all"), "{error}");
}

/// Tests how bytes of the value log are counted. The `value_log` bytes must contain each value
/// once. The bytes of values that GC (garbage collection of the value log) moves must be counted
/// separately.
#[test]
fn value_log_bytes_are_counted_by_purpose() {
    let _exclusive = exclusive();
    let engine = "terrace:wisckey+value_log_gc=segments+value_log_segment_size=65536+value_log_gc_percent=1".into();
    let settings = Settings { write_buffer_size: 64 << 10, ..Settings::default() };
    let spec = CellSpec { engine, settings, num: 2000, ..spec("fillrandom,overwrite,overwrite") };
    let rows = whole(rows(&spec, &Fake::default()));
    let sum =
        |purpose: &str| rows.iter().map(|row| row.bytes.engine_by_purpose.as_ref().unwrap()[purpose]).sum::<u64>();
    let user: u64 = rows.iter().map(|row| row.bytes.user).sum();
    assert!(sum("value_log") >= user && sum("value_log") < user * 3 / 2, "{} of {user}", sum("value_log"));
    assert!(sum("gc") > 0, "nothing was collected");
    assert!(rows.iter().all(|row| !row.bytes.engine_by_purpose.as_ref().unwrap().contains_key("wal")));
}

/// Tests that obsolete files are deleted before the space of a stage is measured, even if their
/// deletion waits for a journal commit.
#[test]
fn a_stage_ends_when_all_of_it_is_durable() {
    let _exclusive = exclusive();
    let settings = Settings { write_buffer_size: 64 << 10, ..Settings::default() };
    let spec = CellSpec { engine: "terrace:noblsm".into(), settings, num: 10_000, ..spec("fillrandom,compact") };
    let Some(rows) = rows_on_loop(64 << 20, &spec, &Fake::default()) else { return };
    let (peak, space) = (rows[1].space_peak_bytes.unwrap(), rows[1].space_bytes.unwrap());
    assert!(rows[1].notes.iter().all(|note| !note.contains("not durable")), "{:?}", rows[1].notes);
    assert!(space * 3 / 2 < peak, "{space} bytes of {peak}: what was compacted is still there");
}

#[test]
fn compaction_bytes_are_reported_by_level() {
    let _exclusive = exclusive();
    let settings =
        Settings { write_buffer_size: 64 << 10, max_file_size: 64 << 10, level_base: 256 << 10, ..Settings::default() };
    let spec = CellSpec { engine: "terrace:leveldb".into(), settings, num: 20_000, ..spec("fillrandom,overwrite") };
    let rows = whole(rows(&spec, &Fake::default()));
    for Row { workload, bytes, .. } in &rows {
        let compaction = bytes.engine_by_purpose.as_ref().unwrap()["compaction"];
        let levels = bytes.engine_compaction_by_level.as_ref().unwrap();
        assert_eq!(levels.values().sum::<u64>(), compaction, "{workload}: {levels:?}");
        assert!(levels.len() >= 2 && !levels.contains_key("0"), "{workload}: {levels:?}");
    }
}

/// Tests that the causes of the bytes on the device are also known for a store that has one file
/// per entry.
#[test]
fn entry_files_count_as_tables() {
    let _exclusive = exclusive();
    let settings = Settings { write_buffer_size: 256 << 10, ..Settings::default() };
    let spec = CellSpec { engine: "terrace:delsm".into(), settings, num: 5000, value_size: 4096, ..spec("fillseq") };
    let Some(mut rows) = rows_on_loop(256 << 20, &spec, &Fake::default()) else { return };
    let row = rows.remove(0);
    let traced = row.bytes.device_by_cause.ok_or_else(|| format!("{:?}", row.notes));
    let Some(causes) = require("tracefs", traced) else { return };
    assert!(causes["tables"] >= 5000 * 4096 && causes["directory"] > 0, "{causes:?}");
    assert!(causes["tables"] < 5500 * 4096 && !causes.contains_key("unknown"), "{causes:?}");
}

/// Tests that a memory limit also limits the page cache. With a small limit, recently read data
/// must be read from the device again. Without a limit, it must be read from memory.
#[test]
fn a_memory_limit_limits_the_page_cache() {
    let _exclusive = exclusive();
    let settings = Settings { cache_size: 1 << 20, ..Settings::default() };
    let filled = CellSpec {
        engine: "terrace:bundled".into(),
        settings,
        num: 200_000,
        value_size: 1000,
        reads: Some(2000),
        ..spec("fillseq,readrandom,readrandom")
    };
    let read = |memory| {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the store");
        let spec = CellSpec { dir: dir.path().into(), memory, ..filled.clone() };
        let rows = try_rows_of(&spec, &Fake::default());
        rows.map(|rows| whole(rows)[2].bytes.process_read.expect("the kernel counts"))
    };
    let Some(little) = require("memcg", read(Some(96 << 20)).map_err(|error| format!("{error:#}"))) else { return };
    let any = read(None).expect("no limit");
    assert!(little > 2000 * 4096 / 2 && any < little / 10, "{little} bytes read, {any} without a limit");
}

#[test]
fn a_synced_write_is_one_wal_sync() {
    let _exclusive = exclusive();
    let rows = whole(rows(&spec("fillsync"), &Fake { counts: true, bytes_per_change: 1, ..Fake::default() }));
    let log = rows[0].syncs.kinds["log"].unwrap();
    assert_eq!(
        SyncRow { seconds: None, ..log },
        SyncRow { count: 1, blocking: Some(1), bytes: Some(1), seconds: None }
    );
}
