//! Tests of background work in special situations: at the close of a store, on a full disk, with a
//! listener. Most tests run the jobs of a manual executor one by one.
use super::Db;
use crate::{Event, Options, WriteOptions, state::DbInner, work::Lane};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};
use terrace_format::{LogId, SeqNo};
use terrace_sim::SmallFs;
use terrace_storage::{
    Location, Memory, open_files,
    placement::{LogWriter, OpenMode},
};

/// Returns options with small memtables and levels, so that little data causes background work.
fn tight() -> Options {
    let mut options = Options::leveldb_compatible();
    options.set("durability", "group").expect("an option");
    options.write_buffer_size = 64 << 10;
    options.target_file_size = 64 << 10;
    options.max_bytes_for_level_base = 1 << 20;
    options
}

/// Opens a store in memory without background threads.
fn open(options: &Options) -> Db {
    let location = Location::Memory(Memory::new());
    let storage = terrace_storage::open(&location, OpenMode::Create, options.durability, &options.setup());
    Db::open_manual(storage.expect("open"), options.clone()).expect("open")
}

/// Writes overlapping keys, memtable after memtable, until `done` returns true. Of the background
/// jobs only flushes run, so the flushed tables accumulate in level 0.
fn fill_until(db: &Db, done: impl Fn(&DbInner) -> bool) {
    for n in 0..100_000u32 {
        if done(db.shared()) {
            return;
        }
        db.put(n.wrapping_mul(0x9E37_79B1).to_be_bytes(), [n as u8; 100]).expect("put");
        while db.shared().work.step_in(Lane::Flush).is_some() {}
    }
    panic!("no work became due");
}

fn has_compactions(shared: &DbInner) -> bool {
    !shared.state.lock().compactions.is_empty()
}

/// Returns options with a listener that counts the compactions that begin.
fn counting_compactions(options: Options) -> (Options, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let options = options.listener(Arc::new(move |event: &Event| {
        if matches!(event, Event::CompactionBegin { .. }) {
            count.fetch_add(1, SeqCst);
        }
    }));
    (options, begun)
}

#[test]
fn close_starts_no_compaction() {
    let (mut options, begun) = counting_compactions(tight());
    options.durability_interval_ms = 60_000; // the first batch is committed at once, the next one is not
    let db = open(&options);
    db.put("the first batch", "").expect("put");
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    fill_until(&db, has_compactions);
    // This step queues the commit job again, so that it is younger than the compaction. The
    // compaction is then the oldest job when the close runs jobs.
    db.shared().work.step_in(Lane::Durability).expect("a commit is queued");
    assert!(db.statistics().pending_edits > 0, "the edits are committed already");
    db.close().expect("close");
    assert_eq!(begun.load(SeqCst), 0, "a compaction BEGAN in a close");
}

/// Tests that the engine calls event listeners while it has no lock. A listener may request the
/// store's statistics, which takes the state lock.
#[test]
fn a_listener_is_called_under_no_lock() {
    let store: Arc<OnceLock<Weak<DbInner>>> = Arc::default();
    let (seen, locked) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (inner, events, under_lock) = (store.clone(), seen.clone(), locked.clone());
    let db = open(&tight().listener(Arc::new(move |event: &Event| {
        let Some(shared) = inner.get().and_then(Weak::upgrade) else { return };
        let is_free = shared.state.try_lock().is_some() && shared.manifest.try_lock().is_some();
        let name = format!("{event:?}").split([' ', '{']).next().unwrap_or_default().to_string();
        if !is_free {
            under_lock.lock().push(name.clone());
        }
        events.lock().push(name);
    })));
    store.set(Arc::downgrade(db.shared())).expect("set once");
    for n in 0..5000u32 {
        db.put(n.wrapping_mul(0x9E37_79B1).to_be_bytes(), [n as u8; 100]).expect("put");
    }
    db.put_with("synced", "", WriteOptions::synced()).expect("put");
    db.wait_idle().expect("idle");
    db.close().expect("close");
    for event in ["StallBegin", "StallEnd", "SyncBegin", "SyncEnd", "FlushBegin", "CompactionEnd"] {
        assert!(seen.lock().iter().any(|seen| seen == event), "no {event}");
    }
    assert_eq!(*locked.lock(), Vec::<String>::new(), "events under a LOCK");
}

/// Tests a thread that waits because a pending edit waits for further edits to join its batch.
/// Meanwhile the thread must not search for compactions again and again under the state lock.
#[test]
fn a_pending_edit_does_not_plan_compactions() {
    let options = tight();
    let db = Db::open_in_memory(options).expect("open");
    let flush = |key: &str| {
        db.put(key, "").expect("put");
        db.flush().expect("flush");
    };
    let wait_committed = || {
        while db.statistics().pending_edits > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    };
    flush("the first commit is due at once");
    wait_committed();
    flush("the second waits for others");
    let before = db.shared().picks.load(SeqCst);
    wait_committed();
    let picks = db.shared().picks.load(SeqCst) - before;
    assert!(picks <= 12, "{picks} PLANS while an edit was pending");
    db.close().expect("close");
}

/// A closed WAL whose sync calls the function in this struct.
struct SyncedBy<F>(F);

impl<F: Fn() -> terrace_storage::Result<()> + Send + Sync> LogWriter for SyncedBy<F> {
    fn append(&mut self, _record: &[u8]) -> terrace_storage::Result<()> {
        Ok(())
    }

    fn sync(&self) -> terrace_storage::Result<()> {
        self.0()
    }

    fn mark_durable(&mut self, _next: SeqNo) -> terrace_storage::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

#[test]
fn other_writers_proceed_while_a_synced_put_syncs_closed_wals() {
    let db = Db::open_in_memory(tight()).expect("open");
    let (finish, finished) = mpsc::channel::<()>();
    let syncs = Arc::new(AtomicUsize::new(0));
    let newest = db.shared().state.lock().versions.next_number();
    let (count, finished) = (syncs.clone(), Mutex::new(finished));
    let slow = move || {
        count.fetch_add(1, SeqCst);
        let _ = finished.lock().recv(); // returns when the sender is dropped
        Ok(())
    };
    db.shared().closed_wals.add(LogId(newest), Box::new(SyncedBy(slow)));
    let synced = {
        let db = db.clone();
        thread::spawn(move || db.put_with("synced", "", WriteOptions::synced()))
    };
    while syncs.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let (report, reported) = mpsc::channel();
    let other = {
        let db = db.clone();
        thread::spawn(move || report.send(db.put("other", "")))
    };
    let put = reported.recv_timeout(Duration::from_secs(10));
    assert!(db.durable_sequence() == 0, "the synced put returned before its sync");
    let idle = db.writes().expect("open").are_idle();
    drop(finish);
    synced.join().expect("joined").expect("put");
    other.join().expect("joined").expect("sent");
    put.expect("a put WAITED for the syncs of closed WALs").expect("put");
    assert!(!idle, "a store is IDLE although a writer syncs");
    assert_eq!(syncs.load(SeqCst), 1, "synced twice");
    assert!(db.durable_sequence() > 0);
    db.close().expect("close");
}

/// Tests a sync of a closed WAL that fails after another thread has made this WAL obsolete. The
/// entries of the WAL are in durable tables, so the failure must not stop the store.
#[test]
fn the_sync_of_a_wal_that_became_obsolete_may_fail() {
    let db = Db::open_in_memory(tight()).expect("open");
    let newest = db.shared().state.lock().versions.next_number();
    let shared = Arc::downgrade(db.shared());
    let fails = move || {
        drop(shared.upgrade().expect("open").closed_wals.take_obsolete(LogId(u64::MAX)));
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Err(terrace_storage::Error::io("sync", "a closed WAL", full))
    };
    db.shared().closed_wals.add(LogId(newest), Box::new(SyncedBy(fails)));
    db.put_with("synced", "", WriteOptions::synced()).expect("the obsolete WAL STOPPED the store");
    db.close().expect("close");
}

/// Tests that no tombstone compaction starts on a nearly full disk. It is optional, but would take
/// the space that writers need, and a write without space would stop the store.
#[test]
fn tombstone_compactions_leave_space_to_writers() {
    let (mut options, begun) = counting_compactions(tight());
    options.tombstone_compaction_percent = 20;
    options.write_buffer_size = 1 << 20;
    options.reserve_bytes = 0;
    let disk = SmallFs::new(Arc::new(Memory::new()), u64::MAX);
    let tracker = options.durability.tracker(&disk, &options.setup()).expect("a tracker");
    let storage = open_files(Arc::new(disk.clone()), OpenMode::Create, tracker, &options.setup()).expect("open");
    let db = Db::open_manual(storage, options).expect("open");
    let key = |n: u32| n.to_be_bytes();
    (0..4000).for_each(|n| db.put(key(n), [n as u8; 100]).expect("put"));
    db.compact_range(None, None).expect("compact");
    db.wait_idle().expect("idle");
    (0..4000).for_each(|n| db.delete(key(n)).expect("delete"));
    let before = begun.load(SeqCst);
    disk.leave(256 << 10); // enough for the flush only
    db.flush().expect("flush");
    while db.step(0).is_some() {}
    assert_eq!(begun.load(SeqCst), before, "a tombstone compaction BEGAN without space");
    let freed = db.shared().space_freed.load(SeqCst);
    {
        let mut state = db.shared().state.lock();
        assert!(state.optional_suspended, "nothing was put off");
        state.optional_suspended = false;
        db.shared().schedule(&mut state);
    }
    while db.step(0).is_some() {}
    assert!(db.shared().state.lock().optional_suspended, "it was not tried again");
    // The space check of an optional compaction must free no space. If two such compactions ran
    // concurrently and freed space, each would start the other one again.
    assert_eq!(db.shared().space_freed.load(SeqCst), freed, "a check for space FREED some");
    disk.leave(64 << 20);
    db.put("more", "").expect("put");
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    assert!(begun.load(SeqCst) > before, "it never begins");
    db.close().expect("close");
}

/// Tests that the sorted runs of a column family that is being dropped do not stop writers. No
/// compaction of this family starts, so its runs would never become fewer. Of the remaining
/// families, the one with the most runs must be compacted first.
#[test]
fn a_family_that_is_dropped_stops_no_writer() {
    let mut options = tight();
    options.level0_slowdown_writes_trigger = 4;
    options.level0_stop_writes_trigger = 5;
    let db = open(&options);
    let families = ["first", "second"].map(|name| db.create_cf(name).expect("create"));
    db.shared().state.lock().closing = true; // no compaction starts by itself
    let shared = db.shared();
    for (family, wanted) in families.iter().zip([4, 5]) {
        let runs = || {
            let version = shared.view.load().version.clone();
            shared.policy.stall_runs(version.tree(family.id_in_store().0).expect("it exists"))
        };
        while runs() < wanted {
            family.put("a", [7; 1000]).and_then(|()| family.put("z", "")).expect("put");
            db.flush().expect("flush");
        }
    }
    let (first, second) = (families[0].id_in_store().0, families[1].id_in_store().0);
    let picked = shared.pick_compaction(&shared.state.lock()).expect("both families have a compaction").0;
    assert_eq!(picked.family, second);
    shared.state.lock().dropping = Some(second);
    let mut state = shared.state.lock();
    assert_eq!(shared.stall_runs(&state), 4);
    assert_eq!(shared.pick_compaction(&state).expect("the other family has one").0.family, first);
    state.dropping = None;
    assert_eq!(shared.stall_runs(&state), 5);
}
