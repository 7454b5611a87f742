//! Tests of replication with `updates_since`. A follower that applies every update must have the
//! contents of the store, even across closes, kills and power cuts of the store. If some updates
//! are not available any more, the follower must get an error. Updates must never be skipped.
use crate::common::kit;
use kit::{Model, Place, TIGHT, batch, contents, options, states, write};
use std::sync::Arc;
use terrace::{Db, Error, Op, Options, WriteBatch, WriteOptions};
use terrace_sim::{CrashFs, Rng, Rules};
use terrace_storage::backends::files::fs::FileSystem;

const SEED: u64 = 0x0bda7e;

fn keeping(bytes: &str) -> Options {
    options(&[TIGHT, &[("wal_size_limit", bytes)]].concat())
}

fn take_over(model: &mut Model, batch: &WriteBatch) {
    for operation in batch.ops() {
        match operation {
            Op::Put(key, value) => drop(model.insert(key.to_vec(), value.to_vec())),
            Op::Delete(key) => drop(model.remove(key)),
            _ => panic!("the test writes only puts and deletes"),
        }
    }
}

/// Applies all updates after the sequence number `since` to `model`. Returns the last sequence
/// number applied.
fn follow(db: &Db, model: &mut Model, since: u64) -> terrace::Result<u64> {
    let mut reached = since;
    for update in db.updates_since(since)? {
        let update = update?;
        assert!(update.sequence <= reached + 1 && update.last_sequence() > reached, "{update:?} after {reached}");
        take_over(model, &update.batch);
        reached = update.last_sequence();
    }
    assert_eq!(reached, db.last_sequence());
    Ok(reached)
}

#[test]
fn a_follower_equals_the_store() {
    for (seed, extra) in [(1, "write"), (2, "map"), (3, "write")] {
        let (place, mut rng) = (Place::any(), Rng::new(seed));
        let mut options = keeping("1GiB");
        options.set("wal_write_mode", extra).unwrap();
        options.pipelined_writes = seed == 3;
        let mut db = place.open(&options, true).unwrap();
        let (mut model, mut reached, mut logs_seen) = (Model::new(), 0, 0);
        for number in 1..=600 {
            write(&db, &batch(seed, number), rng.chance(1, 9)).unwrap();
            match rng.below(40) {
                0..8 => {
                    reached = follow(&db, &mut model, reached).unwrap();
                    assert!(contents(&db).unwrap().into_iter().eq(model.clone()), "seed {seed}, batch {number}");
                }
                8 => db.flush().unwrap(),
                9 => db.compact_range(None, None).unwrap(),
                10 => db.wait_idle().unwrap(),
                11 => {
                    logs_seen =
                        logs_seen.max(place.fs.list().unwrap().iter().filter(|f| f.name.ends_with(".log")).count());
                    if rng.chance(1, 2) {
                        db.close().unwrap()
                    } else {
                        drop(db)
                    }
                    db = place.open(&options, true).unwrap();
                }
                _ => drop(db.step(rng.next_u64())),
            }
        }
        let mut anew = Model::new();
        follow(&db, &mut anew, 0).unwrap();
        assert!(contents(&db).unwrap().into_iter().eq(anew), "seed {seed}: all of the history at once");
        assert!(logs_seen > 5, "only {logs_seen} logs: the history has shrunk");
    }
}

#[test]
fn unavailable_updates_are_reported_with_the_oldest_available() {
    let db = kit::store(options(TIGHT));
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    assert!(matches!(db.updates_since(3), Err(Error::Invalid(_))), "not written yet");
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for since in [0, 1] {
        match db.updates_since(since).map(drop) {
            Err(Error::SequenceGone { wanted, oldest: 3 }) if wanted == since + 1 => {}
            other => panic!("after {since}: {other:?}"),
        }
    }
    assert_eq!(db.updates_since(2).unwrap().count(), 0, "no write followed");
    db.put("c", "3").unwrap();
    assert_eq!(db.updates_since(2).unwrap().count(), 1);
    let mut two = WriteBatch::new();
    two.put("d", "4").put("e", "5");
    db.write(two.clone(), WriteOptions::default()).unwrap();
    let inside = db.updates_since(4).unwrap().next().unwrap().unwrap();
    assert_eq!((inside.sequence, inside.batch), (4, two), "a batch is never torn apart");
}

#[test]
fn wals_are_kept_up_to_the_size_limit() {
    let place = Place::any();
    let db = place.open(&keeping("256KiB"), false).unwrap();
    let log_bytes = || -> u64 {
        let logs = place.fs.list().unwrap().into_iter().filter(|file| file.name.ends_with(".log"));
        logs.map(|file| file.bytes).sum()
    };
    for number in 0..100u64 {
        db.put(number.to_be_bytes(), [7; 10_000]).unwrap();
    }
    db.wait_idle().unwrap();
    let kept = log_bytes();
    assert!((128 << 10..=(256 + 80) << 10).contains(&kept), "{kept} bytes of logs");
    let Err(Error::SequenceGone { oldest, .. }) = db.updates_since(0).map(drop) else { panic!("1 MB is not kept") };
    assert_eq!(db.updates_since(oldest - 1).unwrap().count() as u64, 101 - oldest);
    // Obsolete WALs that the iterator has not read yet must stay.
    let before = db.updates_since(oldest - 1).unwrap();
    for number in 0..100u64 {
        db.put(number.to_be_bytes(), [8; 10_000]).unwrap();
    }
    db.wait_idle().unwrap();
    assert!(log_bytes() > 2 * kept, "a reader pins them");
    assert_eq!(before.count() as u64, 101 - oldest);
    db.wait_idle().unwrap();
    assert!(log_bytes() <= (256 + 80) << 10, "no reader pins them now");
    drop(db);
    let db = place.open(&options(TIGHT), false).unwrap();
    db.wait_idle().unwrap();
    assert!(log_bytes() < 1000, "nothing was to be kept");
}

/// Tests the updates after a power cut, a reopen and a kill. From every starting point, the call
/// must return the right updates or report that they are unavailable.
#[test]
fn a_power_cut_leaves_no_wrong_updates() {
    const BATCHES: usize = 120;
    let (states, options) = (states(SEED, BATCHES), keeping("1GiB"));
    let disk = CrashFs::new(Rules::Ext4);
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let mut sequences = vec![0];
    let mut db = kit::open(&fs, &options, true).unwrap();
    for number in 1..=BATCHES {
        sequences.push(write(&db, &batch(SEED, number), number % 7 == 0).unwrap());
        db.step(number as u64);
        if number % 10 == 0 {
            db.flush().unwrap();
        }
        if number % 45 == 0 {
            drop(db);
            db = kit::open(&fs, &options, true).unwrap();
        }
    }
    drop(db);
    let (mut right, mut gone) = (0, 0);
    for step in (0..=disk.steps()).step_by(5) {
        for seed in 0..3 {
            let image = disk.power_loss(step, seed).file_system();
            let db = kit::open(&image, &options, true).unwrap();
            let survived = kit::prefix(contents(&db).unwrap(), &states).unwrap();
            db.put("second", "life").unwrap();
            db.flush().unwrap();
            db.delete("second").unwrap();
            drop(db);
            let db = kit::open(&image, &options, true).unwrap();
            let wanted: Model = contents(&db).unwrap().into_iter().collect();
            for from in 0..=survived {
                let mut model = states[from].clone();
                match follow(&db, &mut model, sequences[from]) {
                    Ok(_) => right += usize::from(model == wanted),
                    Err(Error::SequenceGone { wanted, oldest }) => {
                        assert!(wanted < oldest && oldest <= db.last_sequence() + 1);
                        gone += 1;
                        continue;
                    }
                    Err(error) => panic!("step {step} seed {seed} from batch {from}: {error}"),
                }
                assert!(model == wanted, "step {step} seed {seed}: wrong updates from batch {from} of {survived}");
            }
        }
    }
    println!("{right} right, {gone} unavailable");
    assert!(right > 1000 && gone > 10, "{right} right, {gone} unavailable: the campaign has shrunk");
}

/// Tests that a mapped WAL can be closed while a follower reads it. Until it is closed, such a WAL
/// is longer than its contents.
#[test]
fn a_wal_can_be_closed_while_it_is_followed() {
    let small = [("values", "log"), ("value_log_threshold", "100")];
    for more in [&[][..], &small] {
        let place = Place::directory();
        let db = place.open(&options(&[&[("wal_write_mode", "map")], more].concat()), true).expect("open");
        // The last block of the WAL is not full.
        (0..101u32).for_each(|n| db.put(n.to_be_bytes(), vec![7; if n % 2 == 0 { 1000 } else { 10 }]).expect("put"));
        let mut updates = db.updates_since(0).expect("the history");
        updates.next().expect("there is one").expect("it can be read");
        db.flush().expect("flush");
        let rest = updates.collect::<terrace::Result<Vec<_>>>().expect("it can be read").len();
        assert_eq!(rest, 100, "{more:?}");
    }
}
