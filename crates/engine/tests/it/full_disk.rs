//! Tests of a full disk: from some storage call on, every call that needs space fails, with or
//! without a short write before the failure. Writing must then stop with an error, no acknowledged
//! write may be lost, and reads must continue. When there is space again, `resume` must let the
//! store continue without a reopen. After a power cut at any step, the store must have a prefix of
//! the history with all writes that were promised as durable.
//!
//! The history is fixed (`SEED`). A failure message names the call from which on the disk was
//! full.
use crate::common::{kit, loop_fs};
use kit::{Model, TIGHT, batch, contents, names_operation_and_file, prefix, states, write};
use loop_fs::{LoopFs, is_root};
use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use terrace::{Db, Error, Event, Op, Options, WriteOptions, check_on};
use terrace_peers::require;
use terrace_sim::{CrashFs, Fault, FaultFs, Plan, Recorder, Rng, Rules, SmallFs};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};

const SEED: u64 = 0xf011;
const BATCHES: usize = 150;
const FULL: &[Fault] = &[Fault::Enospc, Fault::ShortWrite];

/// The variant of a run. If `manual` is set, the test runs the jobs step by step; otherwise
/// threads run them. If `batched` is set, the store has a mapped WAL and makes tables durable in
/// batches; otherwise it has LevelDB's durability.
#[derive(Clone, Copy, Debug)]
struct How {
    manual: bool,
    batched: bool,
    tables: &'static str,
    /// Whether the store has key-value separation.
    separated: bool,
}

impl How {
    fn options(self) -> Options {
        let kept: &[_] = &[("wal_size_limit", "1GiB")];
        let batched: &[_] = &[("durability", "group"), ("durability_interval_ms", "0"), ("pipelined_writes", "on")];
        let tables: &[_] = &[("tables", self.tables), ("min_value_file_size", "20")];
        let separated: &[_] = &[("values", "log"), ("value_log_threshold", "40"), ("value_log_gc_percent", "1")];
        let taken = [(self.batched, batched), (self.separated, separated)].into_iter().filter(|(taken, _)| *taken);
        let taken: Vec<_> = taken.flat_map(|(_, changes)| changes).copied().collect();
        kit::plain(&[TIGHT, kept, tables, &taken].concat())
    }
}

struct Run<'a> {
    disk: Recorder,
    faults: FaultFs,
    how: How,
    states: &'a [Model],
    db: Option<Db>,
    acknowledged: usize,
    sequences: Vec<u64>,
    /// For each batch, the disk step after which it was acknowledged.
    steps: Vec<usize>,
    /// For each call of `resume`, the range of disk steps of the call, and the count of batches
    /// that were acknowledged before it.
    resumed: Vec<(Range<usize>, usize)>,
}

impl Run<'_> {
    fn new(states: &[Model], plan: Plan, how: How) -> Run<'_> {
        let disk = kit::medium().recorder();
        let faults = FaultFs::new(disk.file_system(), plan);
        Run {
            disk,
            faults,
            how,
            states,
            db: None,
            acknowledged: 0,
            sequences: vec![0],
            steps: Vec::new(),
            resumed: Vec::new(),
        }
    }

    fn db(&mut self) -> Db {
        if self.db.is_none() {
            let fs: Arc<dyn FileSystem> = Arc::new(self.faults.clone());
            let opened = kit::open(&fs, &self.how.options(), self.how.manual).or_else(|error| {
                assert!(error.is_no_space() && names_operation_and_file(&error), "an open failed with {error}");
                self.faults.heal();
                kit::open(&fs, &self.how.options(), self.how.manual)
            });
            self.db = Some(opened.expect("with space, a store opens"));
        }
        self.db.clone().expect("just opened")
    }

    fn history(&mut self) {
        while self.acknowledged < BATCHES {
            let number = self.acknowledged + 1;
            let db = self.db();
            let outcome = write(&db, &batch(SEED, number), number.is_multiple_of(4)).and_then(|last| {
                self.acknowledged = number;
                self.sequences.push(last);
                self.steps.push(self.disk.steps());
                for pick in 0..number % 3 {
                    db.step(pick as u64);
                }
                match number % 20 {
                    4 | 7 | 11 | 13 | 17 => db.flush(),
                    15 => db.compact_range(None, None),
                    18 => db.wait_idle(),
                    _ => Ok(()),
                }
            });
            if let Err(error) = outcome {
                self.resume_with_space(&db, &error);
            }
        }
    }

    /// Called when the store has stopped because the disk is full. Checks that the store stays
    /// stopped as long as there is no space, and that `resume` succeeds when there is space again.
    fn resume_with_space(&mut self, db: &Db, error: &Error) {
        assert!(error.is_no_space() && names_operation_and_file(error), "stopped by {error}");
        if self.faults.failed() > 0 && self.faults.is_armed() {
            match db.resume() {
                Err(still) => assert!(still.is_no_space(), "resumed on a full disk: {still}"),
                Ok(()) => return self.faults.heal(), // the resume needed no space
            }
            let again = db.put_with("refused", "", WriteOptions::synced());
            assert!(matches!(&again, Err(Error::FailStopped(_))), "written on a full disk: {again:?}");
        }
        assert_eq!(prefix(contents(db).expect("reads go on"), self.states), Ok(self.acknowledged));
        self.faults.heal();
        let begun = self.disk.steps();
        db.resume().expect("there is space again");
        assert_eq!(db.durable_sequence(), db.last_sequence(), "the recovered history is durable");
        assert_eq!(db.last_sequence(), self.sequences[self.acknowledged], "refused batches left no sequence");
        self.resumed.push((begun..self.disk.steps(), self.acknowledged));
        assert_eq!(prefix(contents(db).expect("read"), self.states), Ok(self.acknowledged));
    }

    fn judge(mut self, rng: &mut Rng) -> usize {
        self.history();
        let db = self.db.take().expect("open");
        assert_eq!(prefix(contents(&db).expect("read"), self.states), Ok(BATCHES));
        let durable = self.sequences.partition_point(|last| *last <= db.durable_sequence()) - 1;
        let mut followed = Model::new();
        for update in db.updates_since(0).expect("every log is kept") {
            let update = update.expect("no gap");
            update.batch.ops().for_each(|operation| match operation {
                Op::Put(key, value) => drop(followed.insert(key.to_vec(), value.to_vec())),
                Op::Delete(key) => drop(followed.remove(key)),
                _ => panic!("the test writes only puts and deletes"),
            });
        }
        assert!(followed == self.states[BATCHES], "the WALs contain a refused batch");
        let killed = self.disk.steps(); // the close of the store may write
        drop(db);
        let end = self.disk.steps();
        self.survives(killed, killed, BATCHES, true, 0);
        self.survives(end, end, durable, false, rng.next_u64());
        for (steps, acknowledged) in self.resumed.clone() {
            // Checks a power cut during the resume, and a power cut right after it.
            let step = steps.start + rng.below(steps.len() + 1);
            self.survives(step, step, 0, false, rng.next_u64());
            self.survives(steps.end, steps.end, acknowledged, false, rng.next_u64());
            // Checks a kill within 60 disk steps after the resume.
            let step = (steps.end + rng.below(60)).min(end);
            self.survives(step, step, self.steps.partition_point(|acknowledged| *acknowledged <= step), true, 0);
        }
        self.resumed.len()
    }

    /// Simulates a kill or a power cut and opens the store. If `everything` is set, the process is
    /// killed after `step`, and no written byte is lost. Otherwise the power is cut after step
    /// `until`. Asserts that the store is intact and has at least `at_least` batches.
    fn survives(&self, step: usize, until: usize, at_least: usize, everything: bool, seed: u64) {
        let image = if everything { self.disk.state_after(step) } else { self.disk.power_loss(until, seed) };
        let (fs, options) = (image.file_system(), self.how.options());
        let db = kit::open(&fs, &options, true).unwrap_or_else(|e| panic!("step {step} seed {seed}: cannot open: {e}"));
        let found = prefix(contents(&db).expect("read"), self.states);
        let count = found.unwrap_or_else(|e| panic!("step {step} seed {seed}: {e}"));
        assert!(count >= at_least, "step {step} seed {seed}: {count} batches of {at_least} promised");
        db.close().expect("close");
        let storage = kit::storage(&fs, OpenMode::ReadOnly, &options).expect("open read-only");
        assert_eq!(check_on(&*storage, &options, true).expect("check").problems, Vec::<String>::new());
    }
}

/// Runs the history many times. In each run the disk is full from another file system call on:
/// from every `sample`-th call, or if all cases are run from every `full`-th call. Does nothing if
/// a store at this place cannot have the options of `how`.
fn campaign(how: How, faults: &[Fault], sample: usize, full: usize) {
    if kit::is_refused(&how.options()) {
        return;
    }
    let states = states(SEED, BATCHES);
    let mut dry = Run::new(&states, Plan::never(), how);
    dry.history();
    let calls = dry.faults.calls();
    assert!(calls > 400, "only {calls} calls: the history has shrunk");
    let plans: Vec<(u64, Fault)> = faults
        .iter()
        .flat_map(|&fault| (0..calls).step_by(kit::stride(sample, full)).map(move |call| (call, fault)))
        .collect();
    let (next, stops) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(&(call, fault)) = plans.get(next.fetch_add(1, Relaxed)) {
            let run = Run::new(&states, Plan::from_then_on(call, fault), how);
            let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.judge(&mut Rng::new(call))));
            let resumed =
                judged.unwrap_or_else(|_| panic!("{how:?}, {fault:?} from call {call} of {calls} on: see above"));
            stops.fetch_add(resumed, Relaxed);
        }
    };
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let stops = stops.into_inner();
    println!("{how:?}: {} plans, {stops} stops cured", plans.len());
    assert!(stops > plans.len() / 2, "only {stops} stops for {} plans", plans.len());
}

#[test]
fn a_full_disk_from_any_call_on_is_survived_and_resumed() {
    campaign(How { manual: true, batched: false, tables: "block", separated: false }, FULL, 11, 2);
}

/// Tests a full disk that only a sync reports. A refused batch may then be in the WAL as a whole.
/// This test does not use batches of tables: an unsynced table already serves reads, so such a
/// store cannot continue after a failed sync.
#[test]
fn a_full_disk_found_by_a_sync_is_survived_and_resumed() {
    campaign(How { manual: true, batched: false, tables: "block", separated: false }, &[Fault::EnospcAtSync], 11, 2);
}

#[test]
fn a_full_disk_is_resumed_with_batches_and_pipelines() {
    campaign(How { manual: true, batched: true, tables: "block", separated: false }, FULL, 19, 4);
    campaign(How { manual: true, batched: true, tables: "block", separated: true }, FULL, 19, 4);
}

#[test]
fn a_full_disk_is_resumed_with_bundles() {
    campaign(How { manual: true, batched: false, tables: "bundled", separated: false }, FULL, 19, 4);
}

#[test]
fn a_full_disk_is_resumed_under_threads() {
    campaign(How { manual: false, batched: false, tables: "block", separated: false }, FULL, 97, 11);
    campaign(How { manual: false, batched: true, tables: "block", separated: false }, FULL, 97, 11);
    campaign(How { manual: false, batched: true, tables: "bundled", separated: true }, FULL, 97, 11);
}

#[test]
fn a_full_disk_is_resumed_with_directory_tables() {
    campaign(How { manual: true, batched: true, tables: "directory", separated: false }, FULL, 53, 12);
}

/// Tests a compaction of which one subcompaction runs out of space or fails. The outputs of the
/// other subcompactions must be removed immediately, not only at the next open.
#[test]
fn outputs_of_a_failed_compaction_are_removed() {
    let by_hand: &[_] = &[
        ("level0_file_num_compaction_trigger", "98"),
        ("level0_slowdown_writes_trigger", "99"),
        ("level0_stop_writes_trigger", "100"),
    ];
    let parts: &[_] = &[("max_subcompactions", "4"), ("min_subcompaction_size", "32KiB"), ("compression", "none")];
    let separated: &[_] = &[("values", "log"), ("value_log_threshold", "40"), ("value_log_gc_percent", "1")];
    // Each value is a separate file.
    let values: &[_] = &[("tables", "directory"), ("min_value_file_size", "20")];
    for (options, fault, stride) in [
        (kit::plain(&[TIGHT, parts].concat()), Fault::Enospc, 5),
        (kit::plain(&[TIGHT, parts, &[("tables", "bundled")]].concat()), Fault::Enospc, 5),
        (kit::plain(&[TIGHT, parts, values].concat()), Fault::Enospc, 200),
        (kit::plain(&[TIGHT, parts, separated].concat()), Fault::Enospc, 5),
        (kit::plain(&[TIGHT, by_hand, parts].concat()), Fault::Eio, 5),
    ] {
        if kit::is_refused(&options) {
            continue;
        }
        let mut hits = 0;
        for call in 0.. {
            let disk = FaultFs::new(kit::anywhere(), Plan::never());
            let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
            let db = kit::open(&fs, &options, true).unwrap();
            for number in 0..4000u32 {
                db.put((number * 7919 % 2000).to_be_bytes(), [number as u8; 100]).unwrap();
            }
            db.flush().unwrap();
            if fault == Fault::Eio {
                db.wait_idle().unwrap(); // a stopped store does not run its due jobs
            }
            disk.arm(Plan::once(disk.calls() + stride * call, fault));
            let merged = db.compact_range(None, None);
            if disk.failed() == 0 {
                break;
            }
            disk.heal();
            match (merged, fault) {
                (merged, Fault::Enospc) => {
                    merged.expect("the compaction was restarted with the reserve");
                    db.wait_idle().unwrap();
                }
                (merged, _) => assert!(!merged.unwrap_err().is_no_space()),
            }
            if fault == Fault::Eio && db.layout()[0].tables.is_empty() {
                break; // its edit may be durable or not
            }
            hits += 1;
            let made = || {
                let names = fs.list().unwrap().into_iter().map(|entry| entry.name);
                let is_log = |name: &str| name.ends_with("log") || name.starts_with("MANIFEST");
                names.filter(|name| !is_log(name)).collect::<BTreeSet<_>>()
            };
            let before = made();
            drop(db);
            kit::open(&fs, &options, true).unwrap();
            let left: Vec<_> = before.difference(&made()).cloned().collect();
            assert!(
                left.is_empty(),
                "{fault:?} at call {}: {left:?} stayed until the store was opened again",
                stride * call
            );
        }
        assert!(hits > 20, "only {hits} calls failed");
    }
}

/// Tests that a resume waits for all jobs except a job that the rate limiter delays.
#[test]
fn a_resume_does_not_wait_for_a_rate_limited_compaction() {
    let due = |runs| {
        [
            ("level0_file_num_compaction_trigger", runs),
            ("level0_slowdown_writes_trigger", "98"),
            ("level0_stop_writes_trigger", "99"),
        ]
    };
    let held: &[_] = &[("rate_bytes_per_sec", "512"), ("compression", "none"), ("max_bytes_for_level_base", "1GiB")];
    let disk = FaultFs::new(kit::anywhere(), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let db = kit::open(&fs, &kit::plain(&[TIGHT, &due("4"), held].concat()), false).unwrap();
    for run in 0..5u32 {
        (0..400u32).for_each(|n| db.put((n * 5 + run).to_be_bytes(), [7; 1000]).unwrap());
        db.flush().unwrap();
    }
    let begun = Instant::now(); // compactions now run that take minutes
    while db.statistics().levels[0].tables < 4 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(200));
    disk.arm(Plan::from_then_on(disk.calls(), Fault::Enospc));
    let mut n = 0;
    while db.put("more", [7; 1000]).and_then(|()| db.flush()).is_ok() {
        n += 1;
        assert!(n < 1000, "the disk is not full");
    }
    disk.heal();
    db.resume().unwrap();
    db.put("more", "").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "writes go on after {:?}", begun.elapsed());
}

/// Tests a batch that was refused because a sync failed, but that is in the WAL. It must not
/// become part of the history when a later batch gets the same sequence number.
#[test]
fn a_refused_batch_stays_refused() {
    let disk = FaultFs::new(kit::anywhere(), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    for flushed in [true, false] {
        let options = kit::plain(&[TIGHT, &[("wal_size_limit", "1GiB")]].concat());
        let db = kit::open(&fs, &options, true).unwrap();
        let before = db.last_sequence();
        db.put("kept", "1").unwrap();
        if flushed {
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
        disk.arm(Plan::from_then_on(disk.calls(), Fault::EnospcAtSync));
        assert!(db.put_with("refused", "", WriteOptions::synced()).unwrap_err().is_no_space());
        disk.heal();
        db.resume().unwrap();
        db.put("accepted", "2").unwrap();
        let sequences = |db: &Db| {
            let updates = db.updates_since(before).unwrap().map(|update| update.unwrap());
            updates.map(|update| (update.sequence, update.batch.len())).collect::<Vec<_>>()
        };
        assert_eq!(sequences(&db), [(before + 1, 1), (before + 2, 1)]);
        for since in [before, before + 1] {
            // The batch is in both the old WAL and the next one.
            let last = db.updates_since(since).unwrap().last().unwrap().unwrap().batch;
            assert_eq!(last.ops().next(), Some(Op::Put(b"accepted", b"2")), "a refused batch is followed");
        }
        drop(db);
        let db = kit::open(&fs, &options, true).unwrap();
        let values = ["kept", "refused", "accepted"].map(|key| db.get(key).unwrap().is_some());
        assert_eq!(values, [true, false, true], "flushed: {flushed}");
        db.delete("accepted").unwrap();
        db.close().unwrap();
    }
}

/// Tests a store that stops while its memtable is empty. The resume starts a new WAL, and must
/// record it in the manifest itself, because no flush follows that would do so.
#[test]
fn the_wal_after_a_resume_survives_a_power_cut() {
    for (rules, durability_mode) in [(Rules::Ext4, "sync"), (Rules::Posix, "sync"), (Rules::Posix, "background")] {
        let disk = CrashFs::new(rules);
        let faults = FaultFs::new(Arc::new(disk.clone()), Plan::never());
        let fs: Arc<dyn FileSystem> = Arc::new(faults.clone());
        let options =
            kit::plain(&[TIGHT, &[("durability", durability_mode), ("durability_interval_ms", "0")]].concat());
        let db = kit::open(&fs, &options, true).unwrap();
        db.put("kept", "1").unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        faults.arm(Plan::from_then_on(faults.calls(), Fault::Enospc));
        assert!(db.put("refused", "2").unwrap_err().is_no_space());
        faults.heal();
        db.resume().unwrap();
        for seed in 0..50 {
            let left = disk.power_loss(disk.steps(), seed).file_system();
            let found = kit::open(&left, &options, true).and_then(|db| db.get("kept"));
            assert!(
                matches!(&found, Ok(Some(value)) if value == b"1"),
                "{rules:?}, {durability_mode}, seed {seed}: {found:?}"
            );
        }
    }
}

/// Tests an open on a full disk, which removes files that the manifest does not name. The open
/// must use the manifest as it is on the device, because the page cache may contain edits that the
/// device does not have.
#[test]
fn an_open_on_a_full_disk_keeps_files_of_the_durable_manifest() {
    let (mut removed, options) = (0, kit::plain(&[TIGHT, &[("compression", "none")]].concat()));
    let value = |n: u32| (0..200).flat_map(|at| Rng::of(n.into(), at).next_u64().to_le_bytes()).collect::<Vec<u8>>();
    for call in 300..700 {
        let disk = CrashFs::new(Rules::Posix);
        let faults = FaultFs::new(Arc::new(disk.clone()), Plan::from_then_on(call, Fault::Eio));
        let fs: Arc<dyn FileSystem> = Arc::new(faults.clone());
        let db = kit::open(&fs, &options, true).unwrap();
        let put = |n: u32| db.put((n % 100).to_le_bytes(), value(n));
        let last = (0..2000).take_while(|n| put(*n).is_ok() && (n % 5 != 4 || db.step(0).is_none_or(|_| true))).count();
        drop(db);
        let small = SmallFs::new(Arc::new(disk.clone()), 1 << 30);
        small.leave(3000);
        let before = disk.steps();
        let fs: Arc<dyn FileSystem> = Arc::new(small);
        let names = |fs: &dyn FileSystem| fs.list().unwrap().iter().filter(|file| file.name.ends_with(".ldb")).count();
        let tables = names(&*fs);
        let opened = kit::open(&fs, &options, true);
        removed += usize::from(names(&*fs) < tables);
        drop(opened);
        for (step, seed) in (before..=disk.steps()).flat_map(|step| (0..4).map(move |seed| (step, seed))) {
            let left = disk.power_loss(step, seed).file_system();
            let found = kit::open(&left, &options, true).and_then(|db| contents(&db));
            assert!(found.is_ok(), "call {call}, {last} puts, step {step}, seed {seed}: GONE: {}", found.unwrap_err());
        }
    }
    assert!(removed > 5, "only {removed} openings removed tables");
}

/// Tests the open after a process was killed during value relocation and left a full disk and a
/// segment that no table names. Fixed bug: this segment occupied the space that an open for
/// writing needs, so no such open succeeded.
#[test]
fn segments_of_a_killed_gc_do_not_prevent_the_open() {
    let options = kit::plain(&[TIGHT, &[("values", "log"), ("value_log_threshold", "40")]].concat());
    let small = SmallFs::new(kit::anywhere(), 1 << 30);
    let fs: Arc<dyn FileSystem> = Arc::new(small.clone());
    let db = kit::open(&fs, &options, true).unwrap();
    (0..50u32).for_each(|n| db.put(n.to_le_bytes(), [7; 100]).unwrap());
    drop(db);
    let held = fs.lock(true).unwrap();
    fs.create("000999.vals").and_then(|mut segment| segment.append(&[0; 1 << 20])).unwrap();
    drop(held);
    small.leave(100);
    let db = kit::open(&fs, &options, true).unwrap_or_else(|error| panic!("STAYS FULL: {error}"));
    assert!(!fs.list().unwrap().iter().any(|file| file.name == "000999.vals"));
    assert_eq!(contents(&db).unwrap().len(), 50);
}

/// Tests a disk that is full at the first append to a new WAL while the previous memtable is being
/// flushed. The put continues in another WAL. Only the flush can then record in the manifest that
/// the empty WAL is obsolete.
#[test]
fn an_empty_wal_is_replaced_during_a_flush() {
    let files = kit::anywhere();
    let disk = FaultFs::new(files.clone(), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let logs = move || files.list().unwrap().iter().filter(|file| file.name.ends_with(".log")).count();
    let (begun, flush_begins) = mpsc::channel();
    let listener = move |event: &Event| {
        if let Event::FlushBegin { .. } = event {
            let _ = begun.send(());
            let end = Instant::now() + Duration::from_secs(30);
            while logs() < 3 && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let db = kit::open(&fs, &kit::plain(TIGHT).listener(Arc::new(listener)), false).unwrap();
    db.put("before", "1").unwrap();
    let (done, puts) = mpsc::channel();
    thread::spawn({
        let db = db.clone();
        move || db.flush().unwrap()
    });
    flush_begins.recv().unwrap();
    disk.arm(Plan::once(disk.calls(), Fault::Enospc));
    thread::spawn({
        let db = db.clone();
        move || done.send(db.put("after", "2"))
    });
    puts.recv_timeout(Duration::from_secs(60)).expect("the put never ends").unwrap();
    assert_eq!(disk.failed(), 1, "the disk was never full");
    assert_eq!(contents(&db).unwrap().len(), 2);
}

#[test]
fn other_errors_are_not_resumed_by_space() {
    let disk = FaultFs::new(kit::anywhere(), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let db = kit::open(&fs, &kit::plain(TIGHT), true).unwrap();
    db.put("a", "1").unwrap();
    db.resume().expect("nothing has stopped");
    disk.arm(Plan::once(disk.calls(), Fault::Enospc));
    assert!(db.put("b", "2").unwrap_err().is_no_space());
    disk.arm(Plan::once(disk.calls(), Fault::Eio));
    assert!(!db.resume().unwrap_err().is_no_space(), "another failure comes to light");
    disk.heal();
    let refused = db.resume().unwrap_err();
    assert!(matches!(refused, Error::FailStopped(_)) && !refused.is_no_space(), "{refused}");
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// Tests a real ext4 file system of 24 MiB which the store and other files fill repeatedly.
#[test]
fn a_full_small_ext4_can_be_resumed() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(disk) = require("loop", LoopFs::of_bytes(24 << 20)) else { return };
    for (name, preset) in [("plain", "leveldb"), ("block", "default"), ("pairs", "delsm")] {
        let path = disk.mount.join(name);
        let mut options = Options::preset(preset).unwrap();
        for (name, value) in TIGHT.iter().chain(&[("compression", "none"), ("reserve_bytes", "1MiB")]) {
            options.set(name, value).unwrap();
        }
        let db = Db::open(&path, options.clone()).unwrap();
        let ballast = disk.mount.join("ballast");
        fs::write(&ballast, vec![1; 4 << 20]).unwrap();
        let (mut model, mut number, mut stops) = (Model::new(), 0u64, 0);
        let wanted = if kit::is_full() { 3 } else { 2 };
        while stops < wanted {
            number += 1;
            let (key, value) = (number.to_be_bytes().to_vec(), vec![number as u8; 4000]);
            match db.put_with(
                &key,
                &value,
                WriteOptions { sync: number.is_multiple_of(100), ..WriteOptions::default() },
            ) {
                Ok(()) => drop(model.insert(key, value)),
                Err(error) => {
                    assert!(error.is_no_space(), "{error}");
                    stops += 1;
                    fs::remove_file(&ballast).unwrap();
                    db.resume().unwrap_or_else(|e| panic!("{preset}, stop {stops}: {e}"));
                    for key in model.keys().step_by(2).cloned().collect::<Vec<_>>() {
                        db.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    db.compact_range(None, None).unwrap();
                    db.wait_idle().unwrap();
                    fs::write(&ballast, vec![1; 4 << 20]).unwrap();
                }
            }
        }
        assert!(contents(&db).unwrap().into_iter().eq(model.clone()), "{preset}: the open store");
        drop(db);
        let db = Db::open(&path, options).unwrap();
        assert!(contents(&db).unwrap().into_iter().eq(model), "{preset}: opened again");
        db.close().unwrap();
        assert!(path.join("RESERVE").metadata().unwrap().len() == 1 << 20);
        Db::destroy(&path).unwrap();
        assert!(!path.exists(), "a reserve file remained");
        fs::remove_file(&ballast).unwrap();
    }
}
