//! Fault injection: in each run, one storage call returns an error, reports a full disk, or writes
//! only a part. In some runs all later calls fail too. The runs try every storage call of a fixed
//! history. The tests require the following:
//! - There is no panic and no hang, and errors name the operation and the file.
//! - Acknowledged writes can be read.
//! - Writing stops if the contents of the WAL are in doubt.
//! - When the store is opened again, even after an additional power cut, its contents are a prefix
//!   of the history. The prefix has all writes that the store promised as durable.
//!
//! By default the suite tries a sample of the calls. With `TERRACE_FULL`, which `make full` sets,
//! it tries all of them. The history is fixed (`SEED`). A failure names the plan and the number of
//! the call.
use crate::common::kit;
use kit::{Model, TIGHT, batch, contents, names_operation_and_file, prefix, states, stride, write};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};
use terrace::{Db, Error, Options, ReadOptions, check_on};
use terrace_sim::{Fault, FaultFs, Medium, Plan, Recorder, Rules};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};

const SEED: u64 = 0xfa017;
const BATCHES: usize = 150;
/// The number of simulated power cuts after each run.
const CUTS: u64 = 8;

/// The variant of a run: how jobs are executed, and the options of the store.
#[derive(Clone, Copy)]
struct How {
    /// Whether the test runs the background jobs step by step. If not, threads run them.
    manual: bool,
    /// The durability mode. In every mode other than LevelDB's the WAL is memory-mapped.
    durability_mode: &'static str,
    /// The table form.
    tables: &'static str,
    /// The GC mode of a store with key-value separation; `None` for a store without key-value
    /// separation.
    collection: Option<&'static str>,
}

impl How {
    const DURABILITY_MODES: [&str; 5] = ["sync", "group", "journal", "background", "journal-bpf"];
    const BUNDLED: How = How { manual: true, durability_mode: "sync", tables: "bundled", collection: None };

    /// Returns variants with the first `count` durability modes, which differ most from each other,
    /// and then variants with bundles and with key-value separation.
    fn by_durability_mode(count: usize, manual: bool) -> impl Iterator<Item = How> {
        let modes = How::DURABILITY_MODES.into_iter().take(count);
        let block =
            modes.map(move |durability_mode| How { manual, durability_mode, tables: "block", collection: None });
        let moved = How { manual, durability_mode: "group", tables: "bundled", collection: Some("segments") };
        block.chain([How { manual, ..How::BUNDLED }, moved]).filter(|how| !kit::is_refused(&how.options()))
    }

    fn options(self) -> Options {
        let wal_write_mode = if self.durability_mode == "sync" { "write" } else { "map" };
        let changes: &[_] = &[
            ("durability", self.durability_mode),
            ("durability_interval_ms", "0"),
            ("wal_write_mode", wal_write_mode),
            ("tables", self.tables),
            ("min_value_file_size", "20"),
            ("values", self.values()),
            ("value_log_threshold", "40"),
            ("value_log_gc_percent", "1"),
            ("value_log_gc", self.collection.unwrap_or("off")),
        ];
        kit::plain(&[TIGHT, changes].concat())
    }

    /// Returns the option value that decides where values are stored.
    fn values(self) -> &'static str {
        if self.collection.is_some() { "log" } else { "table" }
    }
}

/// One run of the history with one plan of failures.
struct Run<'a> {
    disk: Recorder,
    faults: FaultFs,
    states: &'a [Model],
    how: How,
    /// The number of acknowledged batches, and the number of batches that were promised as durable.
    acknowledged: usize,
    promised: usize,
    /// The sequence number of the last operation of each acknowledged batch.
    sequences: Vec<u64>,
    /// The count of failures that the store has reported.
    reported: usize,
    /// The count of compactions. The history must have some; otherwise the test would show little.
    compactions: u64,
    /// The number of bytes of values that GC relocated or re-appended. The history must have some.
    collected: u64,
}

/// The history cannot continue, because the store has stopped or cannot be opened.
struct Stopped;

impl Run<'_> {
    fn new(states: &[Model], plan: Plan, how: How) -> Run<'_> {
        let disk = kit::medium().recorder();
        let faults = FaultFs::new(disk.file_system(), plan);
        let (acknowledged, promised, sequences, reported, compactions, collected) = Default::default();
        Run { disk, faults, states, how, acknowledged, promised, sequences, reported, compactions, collected }
    }

    /// Asserts that `error` is the planned failure, and that its text states the operation and the
    /// file.
    fn note(&mut self, error: &Error) {
        assert!(self.faults.failed() > 0, "nothing was to fail: {error}");
        assert!(names_operation_and_file(error), "operation or file is missing: {error:?}");
        self.reported += 1;
    }

    fn open(&mut self) -> Result<Db, Stopped> {
        let fs: Arc<dyn FileSystem> = Arc::new(self.faults.clone());
        for _ in 0..2 {
            match kit::open(&fs, &self.how.options(), self.how.manual) {
                Ok(db) if self.how.collection.is_none() || self.is_all_there(&db) => {
                    self.promise(&db);
                    return Ok(db);
                }
                Ok(_) => return Err(Stopped),
                Err(error) => self.note(&error),
            }
        }
        Err(Stopped)
    }

    /// Returns whether the store has all acknowledged batches. After a failed sync of a WAL,
    /// batches that were not promised as durable may be lost; the history then ends.
    fn is_all_there(&mut self, db: &Db) -> bool {
        let found = self.faults.without_faults(|| prefix(contents(db).expect("scan"), self.states)).expect("a prefix");
        assert!(found >= self.promised, "{found} batches of {} promised", self.promised);
        assert!(found >= self.acknowledged || self.faults.failed() > 0, "a kill lost something");
        let is_all = found >= self.acknowledged;
        self.acknowledged = self.acknowledged.min(found);
        self.sequences.truncate(self.acknowledged);
        is_all
    }

    fn promise(&mut self, db: &Db) {
        let durable = db.durable_sequence();
        self.promised = self.promised.max(self.sequences.partition_point(|last| *last <= durable));
    }

    /// Runs the whole history. Returns the store if it is open at the end, and whether a failure
    /// has stopped it.
    fn history(&mut self) -> (Option<Db>, bool) {
        let mut open = None;
        for number in 1..=BATCHES {
            match open.take_if(|_| number % 30 == 0) {
                Some(db) if number % 60 == 0 => match Db::close(db) {
                    Ok(()) => self.promised = self.acknowledged,
                    Err(error) => self.note(&error),
                },
                killed => drop(killed),
            }
            let db = match open.take() {
                Some(db) => db,
                None => match self.open() {
                    Ok(db) => db,
                    Err(Stopped) => return (None, true),
                },
            };
            let outcome = self.act(&db, number);
            self.promise(&db);
            if number % 30 == 29 {
                let did = db.statistics();
                self.compactions += did.levels.iter().map(|level| level.compactions.count).sum::<u64>();
                let moved = did.bytes_written.iter().filter(|(purpose, _)| *purpose == "collection");
                self.collected += moved.map(|(_, bytes)| bytes).sum::<u64>() + did.value_log.relocated_bytes;
            }
            if outcome.is_err() {
                return (Some(db), true);
            }
            open = Some(db);
        }
        (open, false)
    }

    /// Writes batch `number`, then does the further actions that are due after this batch, such as
    /// a flush.
    fn act(&mut self, db: &Db, number: usize) -> Result<(), Stopped> {
        let sync = number.is_multiple_of(5);
        match write(db, &batch(SEED, number), sync) {
            Ok(last) => {
                (self.acknowledged, _) = (number, self.sequences.push(last));
                self.promised = if sync { number } else { self.promised };
            }
            Err(error) => {
                self.note(&error);
                return Err(Stopped);
            }
        }
        for pick in 0..number % 3 {
            db.step(pick as u64);
        }
        let outcome = match number % 30 {
            4 | 9 | 14 | 19 => db.flush(),
            23 => db.compact_range(None, None),
            26 => db.wait_durable(db.last_sequence()),
            28 => db.wait_idle(),
            7 | 17 | 25 => contents(db).map(drop),
            _ => db.get(format!("key{:02}", number % 60)).map(drop),
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => {
                self.note(&error);
                // Every other error concerns only the failed call, and the store continues.
                if matches!(error, Error::FailStopped(_)) { Err(Stopped) } else { Ok(()) }
            }
        }
    }

    /// Runs the history and then checks the contents of the store: first of the open store, then
    /// after a kill of the process, and then after power cuts.
    fn judge(mut self) {
        let (db, stopped) = self.history();
        self.faults.heal();
        assert!(stopped || db.is_some() && self.acknowledged == BATCHES);
        let killed = self.disk.steps(); // the close of the store may write
        if let Some(db) = db {
            assert_eq!(prefix(contents(&db).expect("reads go on"), self.states), Ok(self.acknowledged));
            if stopped {
                let again = db.put("a healed disk", "proves nothing");
                assert!(matches!(again, Err(Error::FailStopped(_))), "writes continued: {again:?}");
                assert!(Db::close(db).is_err(), "closing cannot promise anything any more");
            }
        }
        let step = self.disk.steps();
        let survived = self.reopened(self.disk.state_after(killed).file_system(), "kill");
        assert!(survived >= self.acknowledged, "a kill lost {survived} of {}", self.acknowledged);
        for seed in 0..CUTS {
            let survived = self.reopened(self.disk.power_loss(step, seed).file_system(), "power cut");
            assert!(survived >= self.promised, "cut {seed}: {survived} batches of {} promised", self.promised);
        }
    }

    /// Opens the store in `fs` after a kill or a power cut. The store must be intact and accept all
    /// operations. Returns the number of batches in it.
    fn reopened(&self, fs: Arc<dyn FileSystem>, what: &str) -> usize {
        let options = kit::plain(&[TIGHT, &[("values", self.how.values())]].concat());
        let db = kit::open(&fs, &options, true).unwrap_or_else(|e| panic!("cannot reopen after a {what}: {e}"));
        let found = prefix(contents(&db).expect("scan"), self.states);
        let count = found.unwrap_or_else(|e| panic!("after a {what}: {e}; {} acknowledged", self.acknowledged));
        // The batch that was refused may have reached the WAL, but no later batch may have.
        assert!(count <= self.acknowledged + 1, "{count} batches after {} acknowledged", self.acknowledged);
        db.put("after", "that").expect("a reopened store takes writes");
        db.compact_range(None, None).expect("compact");
        db.close().expect("close");
        let db = kit::open(&fs, &options, true).expect("open once more, which removes obsolete files");
        db.close().expect("close");
        let storage = kit::storage(&fs, OpenMode::ReadOnly, &options).expect("open read-only");
        let report = check_on(&*storage, &options, true).expect("check");
        assert_eq!((report.problems, report.leftovers), (vec![], vec![]), "after a {what}");
        count
    }
}

/// Runs the history with each of `plans`, on all processors. On a raw device or a split store
/// (directory and device), where it takes longer to check a state, runs only every thirteenth
/// plan. Each run must end within ten minutes on any machine.
fn campaign(mut plans: Vec<(String, Plan)>, how: How) {
    if kit::medium() != Medium::Directory(Rules::Ext4) {
        // Plans may be listed in pairs. With an odd distance, both kinds of plans are run.
        plans = plans.into_iter().step_by(13).collect();
    }
    let states: Arc<Vec<Model>> = Arc::new(states(SEED, BATCHES));
    let (next, plans) = (Arc::new(AtomicUsize::new(0)), Arc::new(plans));
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let (done, progress) = mpsc::channel();
    let current = Arc::new(Mutex::new(vec![String::new(); workers]));
    for worker in 0..workers {
        let (states, next, plans, done, current) =
            (states.clone(), next.clone(), plans.clone(), done.clone(), current.clone());
        thread::spawn(move || {
            while let Some((name, plan)) = plans.get(next.fetch_add(1, Relaxed)) {
                current.lock().unwrap()[worker].clone_from(name);
                let run = std::panic::AssertUnwindSafe(|| Run::new(&states, *plan, how).judge());
                let outcome = std::panic::catch_unwind(run).map_err(|_| name.clone());
                if done.send(outcome).is_err() {
                    return;
                }
            }
        });
    }
    for _ in 0..plans.len() {
        match progress.recv_timeout(Duration::from_secs(600)) {
            Ok(outcome) => outcome.unwrap_or_else(|name| panic!("{name}, seed {SEED:#x}: see above")),
            Err(_) => panic!("a hang, seed {SEED:#x}, among {:?}", current.lock().unwrap()),
        }
    }
}

/// Returns the count of storage calls that the history makes if no call fails.
fn calls(how: How) -> u64 {
    let states = states(SEED, BATCHES);
    let mut run = Run::new(&states, Plan::never(), how);
    let (_db, stopped) = run.history();
    assert!(!stopped && run.reported == 0);
    assert!(run.compactions > 3, "only {} compactions: the history has shrunk", run.compactions);
    assert_eq!(run.collected > 0, how.collection.is_some(), "bytes collected with {:?}", how.collection);
    run.faults.calls()
}

const FAULTS: [Fault; 3] = [Fault::Eio, Fault::Enospc, Fault::ShortWrite];

/// Returns the calls to fail: every `sample`-th index below `calls`, or every `full`-th in a full
/// run. The distances are prime numbers. The history repeats the same operations in the same
/// order, and with a prime distance the sample includes each of these operations.
fn every(calls: u64, sample: usize, full: usize) -> impl Iterator<Item = u64> {
    (0..calls).step_by(stride(sample, full))
}

#[test]
fn any_call_may_fail_once() {
    for how in How::by_durability_mode(3, true) {
        let calls = calls(how);
        assert!(calls > 500, "only {calls} calls: the history has shrunk");
        let plan = |call, fault| (format!("{fault:?} at call {call} of {calls}"), Plan::once(call, fault));
        let sampled = FAULTS.into_iter().flat_map(|fault| every(calls, 7, 1).map(move |call| plan(call, fault)));
        campaign(sampled.collect(), how);
    }
}

#[test]
fn any_call_may_be_the_last_that_works() {
    for how in How::by_durability_mode(5, true) {
        let calls = calls(how);
        let plan = |call, fault| (format!("{fault:?} from call {call} of {calls} on"), Plan::from_then_on(call, fault));
        let sampled = FAULTS.into_iter().flat_map(|fault| every(calls, 31, 7).map(move |call| plan(call, fault)));
        campaign(sampled.collect(), how);
    }
}

/// Tests runs whose jobs are executed by threads, so that the sequence of storage calls varies
/// from run to run. The sample searches for hangs and panics as well as for wrong results.
#[test]
fn a_sample_of_calls_may_fail_under_threads() {
    for how in How::by_durability_mode(3, false) {
        a_sample_may_fail(how, 97, 9);
    }
}

#[test]
fn a_sample_of_calls_may_fail_with_directory_tables() {
    let how = How { manual: true, durability_mode: "background", tables: "directory", collection: None };
    if kit::is_refused(&how.options()) {
        return;
    }
    for manual in [true, false] {
        a_sample_may_fail(How { manual, ..how }, 167, 83);
    }
}

#[test]
fn a_sample_of_calls_may_fail_during_tail_gc() {
    for (manual, sample, full) in [(true, 59, 11), (false, 191, 61)] {
        let how = How { manual, durability_mode: "sync", tables: "block", collection: Some("tail") };
        a_sample_may_fail(how, sample, full);
    }
}

/// Tests failures while a compaction relocates values. The tables are separate files here, so that
/// their sync may be cancelled.
#[test]
fn a_sample_of_calls_may_fail_during_value_relocation() {
    for (manual, sample, full) in [(true, 59, 11), (false, 191, 61)] {
        let how = How { manual, durability_mode: "group", tables: "block", collection: Some("segments") };
        a_sample_may_fail(how, sample, full);
    }
}

fn a_sample_may_fail(how: How, sample: usize, full: usize) {
    let calls = calls(how);
    let once = |call, fault| (format!("{fault:?} near call {call}, threads"), Plan::once(call, fault));
    let on = |call, fault| (format!("{fault:?} from near call {call} on, threads"), Plan::from_then_on(call, fault));
    let sampled = FAULTS
        .into_iter()
        .flat_map(|fault| every(calls, sample, full).flat_map(move |call| [once(call, fault), on(call + 4, fault)]));
    campaign(sampled.collect(), how);
}

/// Returns the table forms that are possible in the place of this test run.
fn forms() -> impl Iterator<Item = &'static str> {
    ["block", "bundled", "directory"].into_iter().filter(|tables| !kit::is_refused(&of_form(tables)))
}

fn of_form(tables: &str) -> Options {
    kit::plain(&[TIGHT, &[("tables", tables), ("min_value_file_size", "20")]].concat())
}

/// Makes a store with tables and WALs. Returns its file system.
fn finished(tables: &str) -> Arc<dyn FileSystem> {
    let fs: Arc<dyn FileSystem> = kit::anywhere();
    let db = kit::open(&fs, &of_form(tables), true).unwrap();
    for number in 1..=BATCHES {
        write(&db, &batch(SEED, number), false).unwrap();
        if number % 20 == 0 {
            db.flush().unwrap();
        }
    }
    fs
}

#[test]
fn every_call_of_a_read_only_open_may_fail() {
    for tables in forms() {
        let faults = FaultFs::new(finished(tables), Plan::never());
        let fs: Arc<dyn FileSystem> = Arc::new(faults.clone());
        let own = of_form(tables);
        let check = || check_on(&*kit::storage(&fs, OpenMode::ReadOnly, &own)?, &own, true);
        assert_eq!(check().unwrap().problems, Vec::<String>::new());
        for call in 0..faults.calls() {
            faults.arm(Plan::once(faults.calls() + call, Fault::Eio));
            match check() {
                Err(error) => assert!(names_operation_and_file(&error), "{tables}, call {call}: {error:?}"),
                Ok(report) => {
                    let reported = report.problems.iter().any(|text| text.contains("injected"));
                    assert!(reported, "{tables}, call {call}: {report:?}");
                }
            }
            faults.heal();
            assert_eq!(check().unwrap().problems, Vec::<String>::new(), "{tables}, call {call}, healed");
        }
    }
}

/// Tests that each failed read returns an error, affects no other read, and succeeds when it is
/// repeated.
#[test]
fn every_read_may_fail_and_be_retried() {
    forms().for_each(reads_may_fail);
}

fn reads_may_fail(tables: &str) {
    let faults = FaultFs::new(finished(tables), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(faults.clone());
    let mut cold = of_form(tables);
    cold.block_cache_size = 1;
    cold.seek_compaction = false;
    let db = kit::open(&fs, &cold, true).unwrap();
    let wanted = contents(&db).unwrap();
    let before = faults.calls();
    kit::scan(&db, ReadOptions::new()).unwrap();
    let reads = faults.calls() - before;
    assert!(reads > 4, "{tables}: only {reads} reads: everything is cached");
    for read in 0..reads {
        faults.arm(Plan::once(faults.calls() + read, Fault::Eio));
        let error = kit::scan(&db, ReadOptions::new()).expect_err("the planned error");
        assert!(names_operation_and_file(&error), "{tables}, read {read}: {error:?}");
        assert!(kit::scan(&db, ReadOptions::new()).unwrap() == wanted, "{tables}, read {read}, tried again");
        let mut cursor = db.cursor(ReadOptions::new());
        faults.arm(Plan::once(faults.calls(), Fault::Eio));
        assert!(cursor.seek_to_last().is_err() && !cursor.valid(), "a failed cursor stands nowhere");
        cursor.seek_to_last().expect("a cursor can be placed again");
        assert_eq!(cursor.key(), wanted.last().expect("not empty").0);
        db.put("reading", "stops no writing").unwrap();
        db.delete("reading").unwrap();
    }
}
