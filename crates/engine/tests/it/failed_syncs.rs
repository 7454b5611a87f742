//! Tests of failed syncs of WALs to whose values tables point. After a failed sync the page cache
//! still has data that the device never received. No other file may depend on this data.
//!
//! A Linux kernel reports a failed writeback once and then marks the pages clean. [`FaultFs`] does
//! the same.
use crate::common::kit;
use kit::{Model, TIGHT, batch, contents, names_operation_and_file, options, prefix, states, write};
use std::sync::Arc;
use terrace::{Db, Error, Options, WriteOptions};
use terrace_sim::{Fault, FaultFs, Plan, Recorder};
use terrace_storage::backends::files::fs::FileSystem;

const SEED: u64 = 0x5afe;
const BATCHES: usize = 60;

fn apart(durability_mode: &str, wal_write_mode: &str) -> Options {
    let changes: &[_] = &[
        ("values", "log"),
        ("value_log_threshold", "40"),
        ("value_log_gc_percent", "1"),
        ("durability", durability_mode),
        ("wal_write_mode", wal_write_mode),
        ("durability_interval_ms", "0"),
    ];
    options(&[TIGHT, changes].concat())
}

/// A simulated machine: a disk, and the page cache in front of it.
struct Machine {
    disk: Recorder,
    faults: FaultFs,
}

impl Machine {
    fn new() -> Machine {
        let disk = kit::medium().recorder();
        let faults = FaultFs::new(disk.file_system(), Plan::never());
        Machine { disk, faults }
    }

    fn open(&self, options: &Options) -> terrace::Result<Db> {
        let fs: Arc<dyn FileSystem> = Arc::new(self.faults.clone());
        kit::open(&fs, options, true)
    }

    /// Makes every later sync fail.
    fn break_syncs(&self, fault: Fault) {
        self.faults.arm(Plan::from_then_on(self.faults.calls(), fault));
    }

    /// Makes a store and writes the batches before number `until`. Returns the store and the count
    /// of batches that were promised as durable.
    fn written(&self, options: &Options, until: usize) -> (Db, usize) {
        let db = self.open(options).expect("open");
        let mut promised = 0;
        for number in 1..until {
            let sync = number.is_multiple_of(7);
            write(&db, &batch(SEED, number), sync).expect("write");
            promised = if sync { number } else { promised };
            match number % 11 {
                5 => db.flush().expect("flush"),
                8 => drop(db.step(number as u64)),
                _ => {}
            }
        }
        (db, promised)
    }

    /// Asserts that the store opens with at least `promised` batches, and that its contents then
    /// survive every power cut.
    fn assert_intact(&self, options: &Options, states: &[Model], promised: usize, what: &str) {
        let db = self.open(options).unwrap_or_else(|e| panic!("{what}: cannot open: {e}"));
        let found = prefix(contents(&db).unwrap_or_else(|e| panic!("{what}: {e}")), states);
        let count = found.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(count >= promised, "{what}: {count} batches of {promised} promised");
        assert_eq!(db.durable_sequence(), db.last_sequence(), "{what}: the recovered history is durable");
        db.put_with("after", "that", WriteOptions::synced()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let shown = contents(&db).expect("read");
        drop(db);
        for seed in 0..6 {
            let left = self.disk.power_loss(self.disk.steps(), seed).file_system();
            let found = kit::open(&left, options, true).and_then(|db| contents(&db));
            let found = found.unwrap_or_else(|e| panic!("{what}, cut {seed}: {e}"));
            assert!(found == shown, "{what}, cut {seed}: a durable write is lost");
        }
    }
}

/// Returns the durability modes that are possible in this place. Each is combined with each
/// possible way of writing a WAL.
fn variants() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [("sync", "write"), ("sync", "map"), ("group", "write"), ("background", "map"), ("journal", "write")];
    all.into_iter()
        .filter(|(durability_mode, wal_write_mode)| !kit::is_refused(&apart(durability_mode, wal_write_mode)))
}

/// Tests a sync of a WAL that fails while a caller waits for it, at different times in the life of
/// a store. No other file may then depend on the WAL's lost data.
#[test]
fn nothing_depends_on_a_wal_that_failed_to_sync() {
    let states = states(SEED, BATCHES);
    for (durability_mode, wal_write_mode) in variants() {
        let options = apart(durability_mode, wal_write_mode);
        for until in 1..BATCHES {
            let what = format!("{durability_mode}, {wal_write_mode}, batch {until}, seed {SEED:#x}");
            let machine = Machine::new();
            let (db, promised) = machine.written(&options, until);
            machine.break_syncs(Fault::EioAtSync);
            let refused = write(&db, &batch(SEED, until), true).expect_err("it cannot be saved");
            assert!(names_operation_and_file(&refused), "{what}: {refused}");
            drop(db);
            machine.faults.heal();
            machine.assert_intact(&options, &states, promised, &what);
        }
    }
}

/// Tests a store that is closed before any sync was requested. The next open syncs the WAL; this
/// sync fails, and the open must return the error. A further open gets no error from the kernel,
/// and must still not depend on the lost data.
#[test]
fn nothing_depends_on_a_wal_that_an_open_found_unsynced() {
    let states = states(SEED, BATCHES);
    for (durability_mode, wal_write_mode) in variants() {
        let options = apart(durability_mode, wal_write_mode);
        let machine = Machine::new();
        let (db, promised) = machine.written(&options, 20);
        drop(db);
        machine.break_syncs(Fault::EioAtSync);
        let reported = machine.open(&options).map(drop).expect_err("it cannot be saved");
        assert!(names_operation_and_file(&reported), "{reported}");
        machine.faults.heal();
        machine.assert_intact(&options, &states, promised, &format!("{durability_mode}, {wal_write_mode}"));
    }
}

/// Tests a sync of a WAL that reports a full disk. The page cache then has data that the device
/// does not have. If the WAL contains separated values, free space does not help: `resume` must
/// return an error that says so, and the store must be reopened. Otherwise `resume` must be
/// enough.
#[test]
fn a_full_disk_found_by_a_wal_sync_can_be_cured() {
    let states = states(SEED, BATCHES);
    let (mut resumed, mut reopened) = (0, 0);
    for (durability_mode, wal_write_mode) in variants() {
        let options = apart(durability_mode, wal_write_mode);
        for until in 1..BATCHES {
            let what = format!("{durability_mode}, {wal_write_mode}, batch {until}, seed {SEED:#x}");
            let machine = Machine::new();
            let (db, mut promised) = machine.written(&options, until);
            machine.break_syncs(Fault::EnospcAtSync);
            let refused = write(&db, &batch(SEED, until), true).expect_err("it cannot be saved");
            assert!(refused.is_no_space(), "{what}: {refused}");
            machine.faults.heal();
            match db.resume() {
                Ok(()) => {
                    (resumed, promised) = (resumed + 1, until - 1);
                    assert_eq!(prefix(contents(&db).expect("read"), &states), Ok(until - 1), "{what}");
                }
                Err(error) => {
                    reopened += 1;
                    assert!(
                        names_operation_and_file(&error) && !error.is_no_space(),
                        "{what}: there is space: {error}"
                    );
                    let again = db.resume().expect_err("nothing has changed");
                    assert!(!again.is_no_space(), "{what}: there is space: {again}");
                }
            }
            drop(db);
            machine.assert_intact(&options, &states, promised, &what);
        }
    }
    println!("{resumed} resumed, {reopened} reopened");
    assert!(resumed > 10 && reopened > 10, "{resumed} resumed, {reopened} reopened: the histories have shrunk");
}

/// Tests that the error of a failed sync names the file or directory that could not be synced.
#[test]
fn a_failed_sync_names_its_object() {
    let layout = options(&[("durability", "sync")]);
    let (mut files, mut directories) = (0, 0);
    for call in 0.. {
        let faults = FaultFs::new(kit::anywhere(), Plan::once(call, Fault::EioAtSync));
        let fs: Arc<dyn FileSystem> = Arc::new(faults.clone());
        let directory = fs.name();
        let work = || -> terrace::Result<()> {
            let db = kit::open(&fs, &layout, true)?;
            db.put_with("k", "v", WriteOptions::synced())?;
            db.flush()?;
            db.wait_durable(db.last_sequence())?;
            while db.step(call).is_some() {}
            db.close()
        };
        let error = work().err();
        if faults.failed() == 0 {
            break;
        }
        let mut error = error.unwrap_or_else(|| panic!("call {call} failed unheard"));
        while let Error::FailStopped(first) = &error {
            error = (**first).clone();
        }
        let Error::Io { op, object, .. } = error else { panic!("call {call}: {error}") };
        match op {
            "sync directory" => directories += usize::from(object == directory),
            "sync" => files += usize::from(object.starts_with(&format!("{directory}/"))),
            _ => {}
        }
        assert_eq!(op == "sync directory", object == directory && op.starts_with("sync"), "call {call}: {op} {object}");
    }
    assert!(files > 0 && directories > 0, "{files} files, {directories} directories");
}
