//! Tests of writes with `disable_wal`. A power cut or a kill must still leave a prefix of the
//! history, with all writes that were promised as durable.
use crate::common::kit;
use kit::{Place, TIGHT, batch, contents, options, prefix, states};
use std::sync::Arc;
use terrace::{Db, Error, Options, TransactionOptions, WriteBatch, WriteOptions, check_on};
use terrace_sim::{CrashFs, Rng, Rules};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};

const BATCHES: usize = 80;

fn write(db: &Db, seed: u64, number: usize, logged: bool, sync: bool) -> terrace::Result<u64> {
    let mut ops = WriteBatch::new();
    for (key, value) in batch(seed, number) {
        match value {
            Some(value) => ops.put(key, value),
            None => ops.delete(key),
        };
    }
    if logged {
        db.write(ops, WriteOptions { sync, ..WriteOptions::default() })
    } else {
        db.write(ops, WriteOptions::without_wal())
    }
}

/// Runs a random history of writes with and without WAL, synced writes, flushes, waits for
/// durability, and reopens. Then simulates power cuts and kills, and checks the contents of the
/// store after each.
fn campaign(seed: u64, layout: &Options, rules: Rules) -> usize {
    let (states, disk, mut rng) = (states(seed, BATCHES), CrashFs::new(rules), Rng::new(seed));
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let mut db = kit::open(&fs, layout, true).unwrap();
    // Pairs of a disk step and a count of batches. From this step on, so many batches survive a
    // power cut (in `cut`) or a kill (in `killed`).
    let (mut cut, mut killed) = (vec![(0, 0)], vec![(0, 0)]);
    let (mut logged, mut gap) = (true, false);
    for number in 1..=BATCHES {
        logged ^= rng.chance(1, 4);
        let sync = logged && rng.chance(1, 5);
        let last = write(&db, seed, number, logged, sync).unwrap();
        gap |= !logged;
        if rng.chance(1, 12) {
            db.wait_durable(last).unwrap();
        }
        match rng.below(12) {
            0 => db.flush().unwrap(),
            1 => {
                db.close().unwrap();
                db = kit::open(&fs, layout, true).unwrap();
            }
            _ => drop(db.step(rng.next_u64()).map(str::len)),
        }
        if db.durable_sequence() >= last {
            cut.push((disk.steps(), number));
            gap = false;
        }
        if !gap {
            killed.push((disk.steps(), number));
        }
    }
    drop(db);
    let promised = |book: &[(usize, usize)], step: usize| {
        book.iter().take_while(|(at, _)| *at <= step).map(|(_, number)| *number).max().unwrap_or(0)
    };
    let mut states_seen = 0;
    for step in 0..=disk.steps() {
        let cuts = (0..2).map(|n| (disk.power_loss(step, n), promised(&cut, step), "power cut"));
        for (image, least, how) in cuts.chain([(disk.state_after(step), promised(&killed, step), "kill")]) {
            let what = format!("seed {seed} {rules:?}: {how} at step {step}");
            let fs = image.file_system();
            let db = kit::open(&fs, layout, true).unwrap_or_else(|e| panic!("{what}: cannot open: {e}"));
            let found = prefix(contents(&db).unwrap(), &states).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(found >= least, "{what}: LOST: {found} batches of {least} promised");
            states_seen += 1;
            if step % 16 == 0 {
                db.close().unwrap();
                let place = kit::storage(&fs, OpenMode::ReadOnly, layout).unwrap();
                assert_eq!(check_on(&*place, layout, true).unwrap().problems, Vec::<String>::new(), "{what}");
            }
        }
    }
    states_seen
}

#[test]
fn a_prefix_with_everything_promised_survives() {
    let mut states = 0;
    for (seed, durability_mode, rules) in [
        (1, "sync", Rules::Ext4),
        (2, "sync", Rules::Posix),
        (3, "group", Rules::Ext4),
        (4, "group", Rules::Ext4),
        (5, "background", Rules::Ext4),
    ] {
        let interval = [("durability", durability_mode), ("durability_interval_ms", "0"), ("pipelined_writes", "on")];
        states += campaign(seed, &options(&[TIGHT, &interval].concat()), rules);
    }
    println!("{states} states");
    assert!(states > 2000, "only {states} states: the campaign has shrunk");
}

#[test]
fn writes_without_wal_are_not_followed() {
    let db = kit::Place::any().open(&options(&[TIGHT, &[("wal_size_limit", "1GiB")]].concat()), false).unwrap();
    db.put("a", "1").unwrap();
    let log_bytes = || db.statistics().bytes_written.iter().find(|(purpose, _)| *purpose == "wal").unwrap().1;
    let before = log_bytes();
    let mut large = WriteBatch::new();
    large.put("b", vec![7; 30_000]);
    let last = db.write(large, WriteOptions::without_wal()).unwrap();
    assert!(log_bytes() < before + 200, "no more than the head of a log");
    assert!(db.durable_sequence() < last);
    db.wait_durable(last).unwrap(); // waits until all earlier writes are durable
    assert!(db.durable_sequence() >= last);
    db.put("c", "3").unwrap();
    let gap = db.updates_since(1).and_then(|mut updates| updates.next().transpose());
    assert!(matches!(gap, Err(Error::SequenceGone { wanted: 2, oldest: 3 })), "{gap:?}");
    assert_eq!(db.updates_since(2).unwrap().count(), 1);
    assert_eq!(db.write(WriteBatch::new(), WriteOptions::without_wal()).unwrap(), 3, "nothing to write");
}

/// Tests that single operations, operations on families and commits of transactions can skip the
/// WAL.
#[test]
fn every_kind_of_write_can_skip_the_wal() {
    let db = kit::Place::any().open(&options(TIGHT), false).unwrap();
    let how = WriteOptions::without_wal();
    let log_bytes = || db.statistics().bytes_written.iter().find(|(purpose, _)| *purpose == "wal").unwrap().1;
    let before = log_bytes();
    db.put_with("a", "1", how).unwrap();
    db.put_with("b", "2", how).unwrap();
    db.delete_with("a", how).unwrap();
    let (first, second) = (db.begin(TransactionOptions::default()), db.begin(TransactionOptions::default()));
    for transaction in [&first, &second] {
        assert_eq!(transaction.get("b").unwrap().as_deref(), Some(&b"2"[..]));
        transaction.put("b", "3").unwrap();
    }
    first.commit(how).unwrap();
    assert!(matches!(second.commit(how), Err(Error::Conflict { .. })));
    assert!(log_bytes() < before + 200, "no more than the head of a log");
    assert_eq!((db.get("a").unwrap(), db.get("b").unwrap().as_deref()), (None, Some(&b"3"[..])));
    let both = WriteOptions { sync: true, ..how };
    assert!(matches!(db.put_with("c", "4", both), Err(Error::Invalid(text)) if text.contains("wait_durable")));
}

/// Tests, in every durability mode, that each operation that promises durability keeps earlier
/// unlogged writes, at least across a kill of the process.
#[test]
fn a_barrier_keeps_unlogged_writes_across_a_kill() {
    type Barrier = fn(&Db) -> terrace::Result<()>;
    let barriers: [(&str, Barrier); 4] = [
        ("wait_durable", |db| db.wait_durable(db.last_sequence())),
        ("when_durable", |db| {
            let mut waiting = std::pin::pin!(db.when_durable(db.last_sequence())?);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            loop {
                match waiting.as_mut().poll(&mut context) {
                    std::task::Poll::Ready(outcome) => return outcome,
                    std::task::Poll::Pending => std::thread::yield_now(),
                }
            }
        }),
        ("a synced put", |db| db.put_with("c", "synced", WriteOptions::synced())),
        ("flush", Db::flush),
    ];
    for preset in ["volatile", "leveldb", "default", "bundled"] {
        for (name, barrier) in barriers {
            let place = Place::directory();
            let mut options = Options::preset(preset).unwrap();
            options.idle_durability_ms = 0;
            let db = place.open(&options, false).unwrap();
            db.put("a", "logged before").unwrap();
            let mut batch = WriteBatch::new();
            batch.put("b", "unlogged");
            db.write(batch, WriteOptions::without_wal()).unwrap();
            barrier(&db).unwrap_or_else(|e| panic!("{preset}, {name}: {e}"));
            db.put("d", "logged after").unwrap();
            drop(db); // like a kill
            let found = contents(&place.open(&options, false).unwrap()).unwrap();
            let keys: Vec<_> = found.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect();
            assert!(["a", "b", "d"].iter().all(|key| keys.contains(&key.to_string())), "{preset}, {name}: {keys:?}");
        }
    }
}
