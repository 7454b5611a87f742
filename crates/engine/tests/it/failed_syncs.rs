//! A sync that failed where tables point into logs: what memory goes on showing was never saved, and nothing is built on it.
//!
//! A kernel tells of a failed writeback once and takes the pages for clean; [`FaultFs`] does the same.
use crate::common::kit;
use kit::{Model, TIGHT, batch, contents, is_told, options, prefix, states, write};
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

/// A machine that stays up: a disk, and what its memory shows of it.
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

    /// From now on nothing can be saved.
    fn break_syncs(&self, fault: Fault) {
        self.faults.arm(Plan::from_then_on(self.faults.calls(), fault));
    }

    /// A store with the batches before `until`, and how many of them are promised.
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

    /// The store opens where it is, with at least so many batches; and what it shows then survives every power cut.
    fn is_sound(&self, options: &Options, states: &[Model], promised: usize, what: &str) {
        let db = self.open(options).unwrap_or_else(|e| panic!("{what}: cannot open: {e}"));
        let found = prefix(contents(&db).unwrap_or_else(|e| panic!("{what}: {e}")), states);
        let count = found.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(count >= promised, "{what}: {count} batches of {promised} promised");
        assert_eq!(db.durable_sequence(), db.last_sequence(), "{what}: what was recovered is durable");
        db.put_with("after", "that", WriteOptions::synced()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let shown = contents(&db).expect("read");
        drop(db);
        for seed in 0..6 {
            let left = self.disk.power_loss(self.disk.steps(), seed).file_system();
            let found = kit::open(&left, options, true).and_then(|db| contents(&db));
            let found = found.unwrap_or_else(|e| panic!("{what}, cut {seed}: {e}"));
            assert!(found == shown, "{what}, cut {seed}: what was durable is gone");
        }
    }
}

/// Tiers that there can be, and how logs are written.
fn makes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [("sync", "write"), ("sync", "map"), ("group", "write"), ("background", "map"), ("journal", "write")];
    all.into_iter()
        .filter(|(durability_mode, wal_write_mode)| !kit::is_refused(&apart(durability_mode, wal_write_mode)))
}

/// The sync of a log fails while somebody waits for it, at any time of the store's life.
#[test]
fn nothing_is_built_on_a_log_that_was_not_saved() {
    let states = states(SEED, BATCHES);
    for (durability_mode, wal_write_mode) in makes() {
        let options = apart(durability_mode, wal_write_mode);
        for until in 1..BATCHES {
            let what = format!("{durability_mode}, {wal_write_mode}, batch {until}, seed {SEED:#x}");
            let machine = Machine::new();
            let (db, promised) = machine.written(&options, until);
            machine.break_syncs(Fault::EioAtSync);
            let refused = write(&db, &batch(SEED, until), true).expect_err("it cannot be saved");
            assert!(is_told(&refused), "{what}: {refused}");
            drop(db);
            machine.faults.heal();
            machine.is_sound(&options, &states, promised, &what);
        }
    }
}

/// Nobody has asked for a sync when the session ends; it fails at the next opening, which tells. The one behind it is not
/// told any more.
#[test]
fn nor_on_one_whose_loss_an_opening_was_told_of() {
    let states = states(SEED, BATCHES);
    for (durability_mode, wal_write_mode) in makes() {
        let options = apart(durability_mode, wal_write_mode);
        let machine = Machine::new();
        let (db, promised) = machine.written(&options, 20);
        drop(db);
        machine.break_syncs(Fault::EioAtSync);
        let told = machine.open(&options).map(drop).expect_err("it cannot be saved");
        assert!(is_told(&told), "{told}");
        machine.faults.heal();
        machine.is_sound(&options, &states, promised, &format!("{durability_mode}, {wal_write_mode}"));
    }
}

/// The disk is full, and a sync finds out. Memory has keys but no values: where the log that was not saved has some, space cures
/// nothing, and resuming says so; opening anew does. Where it has none, resuming is all it takes.
#[test]
fn a_disk_that_a_sync_of_the_log_found_full_is_not_full_for_ever() {
    let states = states(SEED, BATCHES);
    let (mut resumed, mut reopened) = (0, 0);
    for (durability_mode, wal_write_mode) in makes() {
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
                    assert!(is_told(&error) && !error.is_no_space(), "{what}: there is space: {error}");
                    let again = db.resume().expect_err("nothing has changed");
                    assert!(!again.is_no_space(), "{what}: there is space: {again}");
                }
            }
            drop(db);
            machine.is_sound(&options, &states, promised, &what);
        }
    }
    println!("{resumed} resumed, {reopened} opened anew");
    assert!(resumed > 10 && reopened > 10, "{resumed} resumed, {reopened} opened anew: the histories have shrunk");
}

/// A sync that fails is named by what was synced: a file by its path, a directory as one.
#[test]
fn a_failed_sync_names_what_was_synced() {
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
