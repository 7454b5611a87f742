//! Tests of stores on a raw device that becomes full, or that is removed while the store is in
//! use. At the next open, all writes that were acknowledged as durable must be present, and the
//! device's file list must be intact.
use crate::common::kit;
use kit::{Model, TIGHT};
use std::sync::Arc;
use terrace::{Db, Options, WriteOptions};
use terrace_device::BlockDevice;
use terrace_sim::{CrashDevice, DeviceImage, DisconnectedDevice, Rng};
use terrace_storage::backends::{
    files::fs::FileSystem,
    raw::{self, RawFs, Sizes},
};

fn formatted(bytes: u64) -> DeviceImage {
    let device = CrashDevice::new(&DeviceImage::empty(bytes));
    raw::format(&device, Sizes { slot_bytes: 16 << 10, unit_slots: 4 }, 7).unwrap();
    device.now()
}

fn open(device: Arc<dyn BlockDevice>, options: &Options) -> (Arc<RawFs>, terrace::Result<Db>) {
    let raw = RawFs::new(device, "device");
    let fs: Arc<dyn FileSystem> = raw.clone();
    (raw, kit::open(&fs, options, true))
}

/// Returns change `n` of a fixed history: a key and its new value. The value `None` deletes the
/// key.
fn change(n: usize) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut rng = Rng::of(3, n as u64);
    let key = format!("key{:03}", rng.below(60)).into_bytes();
    let value = (0..60).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    (key, (!rng.chance(1, 5)).then_some(value))
}

/// Returns the expected contents of the store after each number of changes.
fn states() -> Vec<Model> {
    let mut all = vec![Model::new()];
    for (key, value) in (0..CHANGES).map(change) {
        let mut next = all[all.len() - 1].clone();
        match value {
            Some(value) => drop(next.insert(key, value)),
            None => drop(next.remove(&key)),
        }
        all.push(next);
    }
    all
}

const CHANGES: usize = 400;

/// Applies changes until one fails. Returns two counts: the applied changes and the synced
/// changes.
fn write(db: &Db) -> (usize, usize) {
    let mut synced = 0;
    for n in 0..CHANGES {
        let (key, value) = change(n);
        let how = WriteOptions { sync: n % 7 == 6, ..WriteOptions::default() };
        let outcome = match value {
            Some(value) => db.put_with(key, value, how),
            None => db.delete_with(key, how),
        };
        if outcome.is_err() {
            return (n, synced);
        }
        synced = if how.sync { n + 1 } else { synced };
        while n % 10 == 0 && db.step(0).is_some() {}
    }
    (CHANGES, synced)
}

/// Asserts that the store on `image` opens, has the contents of one of the states `may_be`, and
/// accepts writes.
fn judge(image: &DeviceImage, options: &Options, may_be: &[Model], what: &str) {
    let (fs, db) = open(Arc::new(CrashDevice::new(image)), options);
    let db = db.unwrap_or_else(|error| panic!("{what}: {error}"));
    let found: Model = kit::contents(&db).unwrap().into_iter().collect();
    assert!(may_be.contains(&found), "{what}: {} pairs, as in none of {} states", found.len(), may_be.len());
    db.put("more", "there").unwrap();
    db.close().unwrap();
    assert_eq!(fs.problems().unwrap(), Vec::<String>::new(), "{what}");
}

#[test]
fn a_removed_device_keeps_synced_writes() {
    let (image, states) = (formatted(4 << 20), states());
    for durability_mode in ["sync", "group"] {
        let options = kit::in_files(&[TIGHT, &[("durability", durability_mode), ("compression", "none")]].concat());
        let run = |requests: u64| {
            let device = CrashDevice::new(&image);
            let yanked = Arc::new(DisconnectedDevice::new(Arc::new(device.clone()), requests));
            let (_, db) = open(yanked.clone(), &options);
            let (made, synced) = db.map_or((0, 0), |db| {
                let (made, synced) = write(&db);
                let refused = made < CHANGES;
                assert!(
                    !refused || db.put_with("k", "v", WriteOptions::synced()).is_err(),
                    "{durability_mode} after {requests}: writes continue"
                );
                (made, synced)
            });
            (yanked.left(), made, synced, device)
        };
        let all = u64::MAX - run(u64::MAX).0;
        assert!(all > 500, "only {all} requests");
        for requests in (0..all).step_by(all as usize / kit::stride(12, 40)) {
            let (_, made, synced, device) = run(requests);
            // The last change was refused, but it may be present.
            let (what, may_be) = (
                format!("{durability_mode} after {requests} of {all} requests"),
                &states[synced..=(made + 1).min(CHANGES)],
            );
            judge(&device.now(), &options, may_be, &what);
            for seed in 0..2 {
                let cut = device.power_loss(device.steps(), seed);
                judge(&cut, &options, may_be, &format!("{what}, power cut {seed}"));
            }
        }
    }
}

#[test]
fn a_full_device_is_reported_and_loses_nothing() {
    for durability_mode in ["sync", "group"] {
        let options = kit::in_files(
            &[TIGHT, &[("durability", durability_mode), ("compression", "none"), ("reserve_bytes", "128KiB")]].concat(),
        );
        let device = CrashDevice::new(&formatted(4 << 20));
        let (fs, db) = open(Arc::new(device.clone()), &options);
        let db = db.unwrap();
        let value =
            |n: u32| -> Vec<u8> { (0..128).flat_map(|at| Rng::of(n.into(), at).next_u64().to_le_bytes()).collect() };
        let put = |db: &Db, n: u32| db.put(n.to_be_bytes(), value(n));
        let (full, error) =
            (0..).find_map(|n| put(&db, n).err().map(|error| (n, error))).expect("a device is full some day");
        assert!(error.is_no_space() && error.to_string().contains("device"), "{durability_mode}: {error}");
        assert!(full > 1500, "{durability_mode}: {full} KiB of 4 MiB");
        let whole = |db: &Db| (0..full).all(|n| db.get(n.to_be_bytes()).unwrap() == Some(value(n)));
        assert!(whole(&db), "{durability_mode}: data is missing");
        drop(db);
        assert_eq!(fs.problems().unwrap(), Vec::<String>::new(), "{durability_mode}");

        // Reads of a full store must succeed. When the device has more space, the store must accept
        // writes again.
        let image = device.now();
        let (small, larger) = (RawFs::new(Arc::new(CrashDevice::new(&image)), "device"), formatted(8 << 20));
        let copy: Arc<dyn FileSystem> = RawFs::new(Arc::new(CrashDevice::new(&larger)), "larger device");
        small.files().unwrap().iter().for_each(|file| copy.take(&*small, &file.name, &file.name).map(drop).unwrap());
        let db = kit::open(&copy, &options, true).unwrap();
        assert!(whole(&db), "{durability_mode}: data is missing on a larger device");
        put(&db, full).unwrap();
    }
}
