//! Tests of transactions: their reads equal a model, each isolation level prevents its anomalies,
//! and locks work.
use crate::common::kit;
use kit::{TIGHT, plain};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};
use terrace::{
    Db, Error, Isolation, Locking, Options, ReadOptions, TableInfo, Transaction, TransactionOptions, WriteBatch,
    WriteOptions,
};
use terrace_sim::Rng;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(isolation: Isolation, locking: Locking) -> TransactionOptions {
    let mut options = TransactionOptions::default();
    (options.isolation, options.locking) = (isolation, locking);
    options
}

const KINDS: [(Isolation, Locking); 4] = [
    (Isolation::Snapshot, Locking::Optimistic),
    (Isolation::Snapshot, Locking::Pessimistic),
    (Isolation::Serializable, Locking::Optimistic),
    (Isolation::Serializable, Locking::Pessimistic),
];

fn now() -> WriteOptions {
    WriteOptions::default()
}

fn number(bytes: Option<Vec<u8>>) -> i64 {
    bytes.map_or(0, |bytes| i64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

fn tight(range_tombstones: bool) -> Options {
    let mut options = plain(TIGHT);
    options.range_tombstones = range_tombstones;
    options
}

/// Compares the reads of a transaction with a model.
fn assert_reads(transaction: &Transaction, model: &Model, rng: &mut Rng, seed: u64) {
    let [from, to] = [rng.below(60), rng.below(60)].map(|n| format!("key{n:02}").into_bytes());
    let range = || ReadOptions::new().from(from.clone()).to(to.clone());
    let in_range = model.iter().filter(|(key, _)| **key >= from && **key < to);
    let wanted: Vec<_> = in_range.map(|(key, value)| (key.clone(), value.clone())).collect();
    let found: Vec<_> = transaction.scan(range()).collect::<terrace::Result<_>>().expect("scan");
    assert_eq!(found, wanted, "seed {seed}: forward");
    let mut found: Vec<_> = transaction.scan_reverse(range()).collect::<terrace::Result<_>>().expect("scan");
    found.reverse();
    assert_eq!(found, wanted, "seed {seed}: backward");
    let key = format!("key{:02}", rng.below(60)).into_bytes();
    assert_eq!(transaction.get(&key).unwrap().as_ref(), model.get(&key), "seed {seed}: {}", key.escape_ascii());
}

/// Tests that a transaction reads its snapshot and its own writes, in both directions, with
/// deleted ranges and after a rollback to a savepoint. Other readers must see none of its writes
/// before the commit.
#[test]
fn a_transaction_reads_its_own_writes() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let db = Db::open_in_memory(tight(seed % 2 == 0)).unwrap();
        let (isolation, locking) = KINDS[seed as usize % 4];
        let mut committed = Model::new();
        for _ in 0..40 {
            let transaction = db.begin(options(isolation, locking));
            let (mut model, mut saved) = (committed.clone(), Vec::new());
            for _ in 0..rng.below(40) {
                let key = format!("key{:02}", rng.below(60)).into_bytes();
                match rng.below(12) {
                    0..=5 => {
                        let value = vec![rng.below(256) as u8; rng.below(300)];
                        transaction.put(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                    6 | 7 => {
                        transaction.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    8 => {
                        let to = format!("key{:02}", rng.below(60)).into_bytes();
                        transaction.delete_range(&key, &to).unwrap();
                        model.retain(|found, _| *found < key || *found >= to);
                    }
                    9 => {
                        transaction.set_savepoint();
                        saved.push(model.clone());
                    }
                    10 => match saved.pop() {
                        Some(state) => {
                            transaction.rollback_to_savepoint().unwrap();
                            model = state;
                        }
                        None => assert!(matches!(transaction.rollback_to_savepoint(), Err(Error::Invalid(_)))),
                    },
                    _ => assert_reads(&transaction, &model, &mut rng, seed),
                }
            }
            let seen: Model = db.scan(ReadOptions::new()).collect::<terrace::Result<_>>().unwrap();
            assert_eq!(seen, committed, "seed {seed}: a write is visible before the commit");
            if rng.chance(1, 4) {
                transaction.rollback();
            } else {
                transaction.commit(now()).unwrap();
                committed = model;
            }
            if rng.chance(1, 5) {
                db.compact_range(None, None).unwrap();
            }
        }
        let seen: Model = db.scan(ReadOptions::new()).collect::<terrace::Result<_>>().unwrap();
        assert_eq!(seen, committed, "seed {seed}");
    }
}

/// The changes that another writer makes between the snapshot and the commit of a transaction.
/// Each has two flags: whether the commit must then fail if the transaction is serializable, and
/// whether it must fail with snapshot isolation. The transaction has read `a`, scanned `m..p`, and
/// written `w`.
const MOVES: &[(&str, bool, bool)] = &[
    ("put w", true, true),
    ("delete w", true, true),
    ("put a", true, false),
    ("put n", true, false), // a phantom
    ("delete_range n o", true, false),
    ("delete_range 0 z", true, true),
    ("put x", false, false),
    ("put p", false, false), // the end of the range is excluded
    ("delete_range b c", false, false),
];

fn apply(db: &Db, step: &str) {
    let words: Vec<&str> = step.split(' ').collect();
    match words[..] {
        ["put", key] => db.put(key, "other").unwrap(),
        ["delete", key] => db.delete(key).unwrap(),
        ["delete_range", from, to] => db.delete_range(from, to, now()).unwrap(),
        _ => panic!("{step}"),
    }
}

/// Tests that a commit fails exactly if a conflicting change exists. The check at the commit must
/// find a change in memtables, in SSTables of level 0, and in SSTables that a compaction has
/// written.
#[test]
fn a_commit_fails_exactly_if_something_watched_has_changed() {
    for (place, moved) in
        ["memtable", "table", "compacted"].iter().flat_map(|place| MOVES.iter().map(move |m| (place, m)))
    {
        for (isolation, locking) in KINDS {
            let db = Db::open_in_memory(tight(true)).unwrap();
            for key in ["a", "c", "m", "n2", "w", "z"] {
                db.put(key, "old").unwrap();
            }
            db.flush().unwrap();
            let transaction = db.begin(options(isolation, locking));
            transaction.get("a").unwrap();
            assert_eq!(transaction.scan(ReadOptions::new().from("m").to("p")).count(), 2);
            transaction.put("w", "mine").unwrap();
            let (step, serializable, snapshot) = moved;
            apply(&db, step);
            match *place {
                "memtable" => {}
                "table" => db.flush().unwrap(),
                _ => db.compact_range(None, None).unwrap(),
            }
            db.put("later", "write").unwrap();
            let must_fail = if isolation == Isolation::Serializable { *serializable } else { *snapshot };
            let what = format!("{step} in a {place}, {isolation:?}, {locking:?}");
            let committed = transaction.commit(now());
            assert_eq!(matches!(&committed, Err(Error::Conflict { .. })), must_fail, "{what}: {committed:?}");
            assert_eq!(committed.is_ok(), !must_fail, "{what}");
            let mine = db.get("w").unwrap().as_deref() == Some(b"mine");
            assert_eq!(mine, !must_fail, "{what}: the write of the transaction");
        }
    }
}

/// Tests the check at the commit for keys at table boundaries. A compaction cuts a range tombstone
/// where one of its output tables ends and the next one begins. The check must find a write of the
/// key at that place.
#[test]
fn a_commit_finds_a_key_where_a_table_begins() {
    let mut tables = tight(true);
    tables.set("target_file_size", "64KiB").unwrap();
    tables.set("compression", "none").unwrap();
    let db = Db::open_in_memory(tables).unwrap();
    let keys: Vec<_> = (0..1000).map(|n| format!("key{n:04}")).collect();
    let put_all = || keys.iter().for_each(|key| db.put(key, [7; 1000]).unwrap());
    put_all();
    db.compact_range(None, None).unwrap(); // older entries, because of which the range tombstone stays
    let begin = |key: &String| {
        let transaction = db.begin(options(Isolation::Serializable, Locking::Optimistic));
        assert!(transaction.get(key).unwrap().is_some());
        transaction.put(format!("written after {key}"), "").unwrap();
        transaction
    };
    let transactions: Vec<_> = keys.iter().map(begin).collect();
    db.delete_range("key", "kez", now()).unwrap();
    put_all();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let is_cut = |pair: &[TableInfo]| pair[0].largest_excluded && pair[0].largest == pair[1].smallest;
    assert!(db.layout()[1..].iter().any(|level| level.tables.windows(2).any(is_cut)), "{:?}", db.layout());
    for (transaction, key) in transactions.into_iter().zip(&keys) {
        assert!(matches!(transaction.commit(now()), Err(Error::Conflict { .. })), "the write of {key} is not found");
    }
}

/// Tests that a scan which stops early watches for conflicts only the keys up to the last pair
/// that it returned.
#[test]
fn a_scan_watches_up_to_its_last_pair() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    ["a", "c", "e"].iter().for_each(|key| db.put(key, "").unwrap());
    for (reverse, moved, fails) in [(false, "b", true), (false, "d", false), (true, "d", true), (true, "b", false)] {
        let transaction = db.begin(TransactionOptions::default());
        let options = ReadOptions::new();
        let scan = if reverse { transaction.scan_reverse(options) } else { transaction.scan(options) };
        assert_eq!(scan.take(2).count(), 2);
        transaction.put("own", "").unwrap();
        db.put(moved, "").unwrap();
        assert_eq!(transaction.commit(now()).is_err(), fails, "{moved}, reverse {reverse}");
        db.delete(moved).unwrap();
        db.delete("own").unwrap();
    }
}

/// Tests transfers between accounts by concurrent transactions of every kind. The sum of the
/// accounts must stay equal, and every reader must see this sum.
#[test]
fn transfers_keep_the_sum_with_every_kind_of_transaction() {
    const ACCOUNTS: usize = 12;
    for (isolation, locking) in KINDS {
        let db = Db::open_in_memory(tight(false)).unwrap();
        let name = |n: usize| format!("account{n:02}");
        for n in 0..ACCOUNTS {
            db.put(name(n), 100_i64.to_le_bytes()).unwrap();
        }
        let sum = |db: &Db| -> i64 {
            let snapshot = db.snapshot();
            db.scan(ReadOptions::new().snapshot(&snapshot)).map(|pair| number(Some(pair.unwrap().1))).sum()
        };
        let retries = AtomicU64::new(0);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (db, retries) = (&db, &retries);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    for _ in 0..300 {
                        let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                        let amount = rng.below(10) as i64;
                        db.transact(options(isolation, locking), now(), |transaction| {
                            retries.fetch_add(1, Ordering::Relaxed);
                            let [a, b] = [from, to].map(|n| transaction.get_for_update(name(n)).map(number));
                            let (a, b) = (a?, b?);
                            if from != to {
                                transaction.put(name(from), (a - amount).to_le_bytes())?;
                                transaction.put(name(to), (b + amount).to_le_bytes())?;
                            }
                            Ok(())
                        })
                        .unwrap_or_else(|error| panic!("{isolation:?}, {locking:?}, seed {seed}: {error}"));
                    }
                });
            }
            for _ in 0..50 {
                assert_eq!(sum(&db), 100 * ACCOUNTS as i64, "{isolation:?}, {locking:?}");
                thread::yield_now();
            }
        });
        assert_eq!(sum(&db), 100 * ACCOUNTS as i64, "{isolation:?}, {locking:?}");
        println!("{isolation:?}, {locking:?}: {} attempts for 1200 transfers", retries.into_inner());
    }
}

/// A transaction of a random history (see `append_history`): its number, the keys that it read
/// with the list that each had, and the keys to whose lists it appended its own number.
struct Appending {
    number: u64,
    read: BTreeMap<u8, Vec<u64>>,
    appended: BTreeSet<u8>,
}

impl Appending {
    fn new(number: u64) -> Appending {
        Appending { number, read: BTreeMap::new(), appended: BTreeSet::new() }
    }

    /// Reads the list of a random key. In half of the cases, also appends the transaction's number
    /// to the list.
    fn step(&mut self, transaction: &Transaction, rng: &mut Rng) -> terrace::Result<()> {
        let key = rng.below(6) as u8;
        let found = list(transaction.get([key])?);
        if !self.appended.contains(&key) {
            self.read.insert(key, found.clone());
        }
        if rng.chance(1, 2) && self.appended.insert(key) {
            let all: Vec<u8> = found.iter().chain([&self.number]).flat_map(|n| n.to_le_bytes()).collect();
            transaction.put([key], all)?;
        }
        Ok(())
    }
}

fn list(bytes: Option<Vec<u8>>) -> Vec<u64> {
    let bytes = bytes.unwrap_or_default();
    bytes.chunks(8).map(|one| u64::from_le_bytes(one.try_into().expect("eight bytes"))).collect()
}

/// Runs transactions that read the lists of some keys and append to the lists of others. The seed
/// determines how they are interleaved. Returns the committed transactions and the final lists.
/// One thread runs all of them, so an attempt to take another transaction's lock fails
/// immediately.
fn append_history(isolation: Isolation, locking: Locking, seed: u64) -> (Vec<Appending>, BTreeMap<u8, Vec<u64>>) {
    const CONCURRENT: usize = 4;
    let db = Db::open_in_memory(tight(false)).unwrap();
    let mut options = options(isolation, locking);
    options.lock_timeout = Duration::ZERO;
    let (mut rng, mut history) = (Rng::new(seed), Vec::new());
    let mut open: Vec<(Transaction, Appending)> = Vec::new();
    for number in 1..=600 {
        open.push((db.begin(options), Appending::new(number)));
        while open.len() == CONCURRENT {
            let at = rng.below(CONCURRENT);
            let (transaction, mut appending) = open.swap_remove(at);
            let outcome = if rng.chance(3, 4) {
                appending.step(&transaction, &mut rng).map(|()| open.push((transaction, appending)))
            } else {
                transaction.commit(now()).map(|_| history.push(appending))
            };
            if let Err(error) = outcome {
                assert!(error.is_retryable(), "seed {seed}: {error}");
            }
        }
    }
    let lists = (0..6).map(|key| (key, list(db.get([key]).unwrap()))).collect();
    (history, lists)
}

/// Checks a history for serializability. The final list of a key shows the order of the key's
/// versions. A transaction comes after the transaction whose version it has read or replaced. It
/// comes before the transaction that wrote the next version of a key that it has read. The history
/// is serializable if this relation has no cycle. Source of the method: Adya's dependency graphs,
/// and Elle's list append.
fn cycle(history: &[Appending], lists: &BTreeMap<u8, Vec<u64>>) -> Option<Vec<u64>> {
    let mut after: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let mut order = |first: u64, second: u64| {
        if first != second {
            after.entry(first).or_default().insert(second);
        }
    };
    for list in lists.values() {
        list.windows(2).for_each(|pair| order(pair[0], pair[1]));
    }
    for one in history {
        for (key, read) in &one.read {
            assert!(lists[key].starts_with(read), "a transaction has read a list that never was committed");
            read.last().into_iter().for_each(|writer| order(*writer, one.number));
            lists[key].get(read.len()).into_iter().for_each(|next| order(one.number, *next));
        }
    }
    let (mut done, mut path) = (BTreeSet::new(), Vec::new());
    let numbers: Vec<u64> = after.keys().copied().collect();
    numbers.into_iter().find_map(|start| visit(start, &after, &mut done, &mut path))
}

fn visit(
    at: u64,
    after: &BTreeMap<u64, BTreeSet<u64>>,
    done: &mut BTreeSet<u64>,
    path: &mut Vec<u64>,
) -> Option<Vec<u64>> {
    if let Some(begin) = path.iter().position(|number| *number == at) {
        return Some(path[begin..].to_vec());
    }
    if !done.insert(at) {
        return None;
    }
    path.push(at);
    let found = after.get(&at).into_iter().flatten().find_map(|next| visit(*next, after, done, path));
    path.pop();
    found
}

/// Tests that random histories of serializable transactions have no cycle. With snapshot
/// isolation, the same check must find write skew in some history; this shows that the check can
/// fail.
#[test]
fn serializable_histories_have_no_cycle() {
    let seeds = if kit::is_full() { 200 } else { 12 };
    let (mut skewed, mut committed) = (0, 0);
    for seed in 0..seeds {
        for (isolation, locking) in KINDS {
            let (history, lists) = append_history(isolation, locking, seed);
            committed += history.len();
            let lost = history.iter().flat_map(|one| one.appended.iter().map(move |key| (one.number, key)));
            for (number, key) in lost {
                assert!(lists[key].contains(&number), "seed {seed}, {isolation:?}, {locking:?}: an append is lost");
            }
            let found = cycle(&history, &lists);
            match isolation {
                Isolation::Serializable => assert_eq!(found, None, "seed {seed}, {locking:?}"),
                Isolation::Snapshot => skewed += u64::from(found.is_some()),
            }
        }
    }
    println!("{committed} transactions committed; {skewed} histories with snapshot isolation have a cycle");
    assert!(skewed > 0, "the check finds no write skew, so it shows nothing");
}

#[test]
fn pessimistic_transactions_wait_and_find_deadlocks() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let pessimistic = options(Isolation::Serializable, Locking::Pessimistic);
    let mut impatient = pessimistic;
    impatient.lock_timeout = Duration::from_millis(5);
    let first = db.begin(pessimistic);
    first.put("a", "1").unwrap();
    let second = db.begin(impatient);
    assert!(matches!(second.get_for_update("a"), Err(Error::LockTimeout { key }) if key == b"a"));
    drop(first); // releases its locks
    assert_eq!(second.get_for_update("a").unwrap(), None);
    drop(second);

    let mut patient = pessimistic;
    patient.lock_timeout = Duration::from_secs(600);
    let (first, second) = (db.begin(patient), db.begin(patient));
    first.put("a", "1").unwrap();
    second.put("b", "2").unwrap();
    // Either transaction may close the cycle. It rolls back, so the other one gets its lock.
    let finish = |transaction: Transaction, key| match transaction.get_for_update(key) {
        Err(Error::Deadlock { cycle }) => Some(cycle),
        locked => {
            assert_eq!(locked.unwrap(), None);
            transaction.commit(now()).unwrap();
            None
        }
    };
    let cycles = thread::scope(|scope| {
        let other = scope.spawn(|| finish(second, "a"));
        [finish(first, "b"), other.join().unwrap()]
    });
    let deadlock = cycles.iter().flatten().next().expect("one of the two must find the deadlock");
    assert!(deadlock.contains("waits for 'b'") && deadlock.contains("waits for 'a'"), "{deadlock}");
    let committed = [("a", &b"1"[..]), ("b", b"2")].map(|(key, value)| db.get(key).unwrap().as_deref() == Some(value));
    assert_eq!(committed, [cycles[0].is_none(), cycles[1].is_none()]);
    assert_ne!(committed[0], committed[1], "one of the two rolls back");
}

/// Tests that a transaction over several column families is atomic, and that its commit is refused
/// if one of them was dropped.
#[test]
fn transactions_cover_column_families() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let (users, mails) = (db.create_cf("users").unwrap(), db.create_cf("mails").unwrap());
    let transaction = db.begin(TransactionOptions::default());
    transaction.put_cf(&users, "1", "ann").unwrap();
    transaction.put_cf(&mails, "ann@example.org", "1").unwrap();
    assert_eq!(transaction.scan_cf(&mails, ReadOptions::new()).unwrap().count(), 1);
    assert_eq!((transaction.get("1").unwrap(), users.get("1").unwrap()), (None, None));
    transaction.commit(now()).unwrap();
    assert_eq!(mails.get("ann@example.org").unwrap().as_deref(), Some(&b"1"[..]));

    let late = db.begin(TransactionOptions::default());
    late.put_cf(&mails, "bob@example.org", "2").unwrap();
    db.drop_cf("mails").unwrap();
    assert!(matches!(late.commit(now()), Err(Error::Invalid(text)) if text.contains("dropped")));
    let foreign = Db::open_in_memory(Options::default()).unwrap().create_cf("users").unwrap();
    assert!(matches!(db.begin(TransactionOptions::default()).get_cf(&foreign, "1"), Err(Error::Invalid(_))));
}

/// Tests commits in the same write group as other writes. Plain writes of the group count as
/// changes that can conflict, and synced transactions share the sync of their group.
#[test]
fn conflicts_within_one_write_group_are_found() {
    let place = tempfile::tempdir().unwrap();
    let db = Db::open(place.path(), plain(&[])).unwrap();
    let (won, writes) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..6_u64 {
            let (db, won, writes) = (&db, &won, &writes);
            scope.spawn(move || {
                for round in 0..40_u64 {
                    if writer == 0 {
                        let mut batch = WriteBatch::new();
                        batch.put(format!("plain{round}"), "");
                        db.write(batch, WriteOptions::synced()).unwrap();
                        continue;
                    }
                    let transaction = db.begin(TransactionOptions::default());
                    let count = number(transaction.get("count").unwrap());
                    transaction.put("count", (count + 1).to_le_bytes()).unwrap();
                    writes.fetch_add(1, Ordering::Relaxed);
                    match transaction.commit(WriteOptions::synced()) {
                        Ok(_) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
            });
        }
    });
    let (won, writes) = (won.into_inner(), writes.into_inner());
    println!("{won} of {writes} increments were committed");
    assert_eq!(number(db.get("count").unwrap()), won as i64, "an increment is lost or counted twice");
    assert!(won < writes, "no conflict occurred, so the test shows nothing");
}

/// Tests detached scans, which bindings of languages without lifetimes use. A scan must find the
/// right first key, and its transaction must not commit while the scan is open.
#[test]
fn detached_scans_are_watched_and_must_end_before_the_commit() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let users = db.create_cf("users").unwrap();
    ["b", "d", "f"].iter().try_for_each(|key| users.put(key, "1")).unwrap();
    let range = || ReadOptions::new().from("b").to("f");
    let first = |transaction: &Transaction, reverse, at: Option<&[u8]>| {
        let mut scan = transaction.scan_detached(Some(&users), range(), reverse, at).unwrap();
        scan.next().transpose().unwrap().map(|(key, _)| String::from_utf8(key).unwrap())
    };
    let begin = |isolation| db.begin(options(isolation, Locking::Optimistic));
    let reader = begin(Isolation::Snapshot);
    let cases = [(false, None, "b"), (false, Some("a"), "b"), (false, Some("c"), "d"), (true, None, "d")];
    for (reverse, at, wanted) in cases.into_iter().chain([(true, Some("z"), "d"), (true, Some("d"), "b")]) {
        let found = first(&reader, reverse, at.map(str::as_bytes));
        assert_eq!(found.as_deref(), Some(wanted), "reverse {reverse}, at {at:?}");
    }
    assert_eq!(first(&reader, false, Some(b"e")), None);
    drop(reader);

    let open = begin(Isolation::Serializable);
    open.put("x", "").unwrap();
    let scan = open.scan_detached(Some(&users), range(), false, None).unwrap();
    assert!(matches!(open.commit(now()), Err(Error::Invalid(text)) if text.contains("scan")));
    drop(scan);
    for (changed, conflicts) in [("b", true), ("e", false), ("c", true)] {
        let transaction = begin(Isolation::Serializable);
        assert_eq!(first(&transaction, false, Some(b"c")).as_deref(), Some("d"));
        assert_eq!(first(&transaction, false, None).as_deref(), Some("b"));
        transaction.put("x", "").unwrap();
        users.put(changed, "2").unwrap();
        assert_eq!(transaction.commit(now()).is_err(), conflicts, "{changed}");
    }
}

#[test]
fn a_transaction_deletes_a_range_of_a_family() {
    for range_tombstones in [false, true] {
        let db = Db::open_in_memory(tight(range_tombstones)).unwrap();
        let users = db.create_cf("users").unwrap();
        for key in ["a", "b", "c"] {
            db.put(key, "").unwrap();
            users.put(key, "").unwrap();
        }
        let transaction = db.begin(TransactionOptions::default());
        transaction.delete_range_cf(&users, "a", "c").unwrap();
        assert_eq!(transaction.get_cf(&users, "b").unwrap(), None);
        transaction.commit(now()).unwrap();
        let keys = |scan: terrace::Scan| scan.map(|pair| pair.unwrap().0).collect::<Vec<_>>();
        assert_eq!(keys(users.scan(ReadOptions::new())), [b"c"]);
        assert_eq!(keys(db.scan(ReadOptions::new())).len(), 3);
    }
}
