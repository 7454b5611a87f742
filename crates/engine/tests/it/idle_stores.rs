//! Tests of many open stores in one process. While they are idle, each store may take only a few
//! descriptors, little memory and no thread.
use crate::common::{alone::in_own_process, kit};
use std::{
    fs, thread,
    time::{Duration, Instant},
};
use terrace::{Db, Options};

const PATIENCE: Duration = Duration::from_secs(60);

fn threads() -> u64 {
    fs::read_dir("/proc/self/task").unwrap().count() as u64
}

fn descriptors() -> u64 {
    fs::read_dir("/proc/self/fd").unwrap().count() as u64
}

/// Returns the resident anonymous memory of this process in bytes.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line of the kernel's");
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}: STILL not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn idle_stores_take_few_descriptors_little_memory_and_no_thread() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let count = if kit::is_full() { 500 } else { 100 };
        for preset in ["default", "leveldb"] {
            let mut options = Options::preset(preset).unwrap();
            options.idle_durability_ms = 200;
            let before = (threads(), descriptors(), memory());
            let open = |number| {
                let db = Db::open(folder.path().join(format!("{preset}-{number}")), options.clone()).unwrap();
                db.put("key", "value").unwrap();
                db
            };
            let stores: Vec<Db> = (0..count).map(open).collect();
            wait_until(&format!("{preset}: no thread is left"), || threads() <= before.0);
            let each = ((descriptors() - before.1) as f64 / count as f64, (memory() - before.2) / count);
            println!("{preset}: {} descriptors and {} bytes for each store", each.0, each.1);
            assert!(each.0 <= 4.1 && each.1 <= 256 << 10, "{preset}: {each:?} for each store");

            // A write wakes an idle store. The store must make the write durable and must compact
            // level 0.
            let db = &stores[7];
            db.put("another", "write").unwrap();
            let last = db.last_sequence();
            wait_until(&format!("{preset}: the write is durable"), || db.durable_sequence() >= last);
            wait_until(&format!("{preset}: the store is idle again"), || threads() <= before.0);
            db.put("and", "another").unwrap();
            db.flush().unwrap();
            db.wait_idle().unwrap();
            assert_eq!(kit::contents(db).unwrap().len(), 3);
            stores.into_iter().for_each(|db| db.close().unwrap());
            fs::read_dir(folder.path()).unwrap().for_each(|dir| fs::remove_dir_all(dir.unwrap().path()).unwrap());
        }
    });
}
