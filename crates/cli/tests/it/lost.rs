//! Tests of `terrace lost`, which restores the writes of a WAL that an open has copied to `lost/`.
use crate::common;
use common::{fresh, terrace};
use std::{fs, path::Path};
use terrace::{Db, Options};

/// Flips a byte in the middle of the newest WAL.
fn damage_wal(store: &Path) {
    let files = fs::read_dir(store).unwrap().map(|file| file.unwrap().path());
    let wal = files.filter(|file| file.extension().is_some_and(|kind| kind == "log")).max().unwrap();
    let mut bytes = fs::read(&wal).unwrap();
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    bytes[middle] ^= 1;
    fs::write(wal, bytes).unwrap();
}

/// Tests the restore of writes of the default family and of another one. The WAL was damaged, and
/// the writes after the damage are in `lost/`. A restore writes those that the store lacks. It
/// keeps newer values unless `--overwrite` is given.
#[test]
fn writes_to_all_families_are_restored() {
    let (_directory, store) = fresh();
    let options = Options::leveldb_compatible();
    let (db, families) = Db::open_cf(&store, options, &["users", "gone"]).unwrap();
    for n in 0..100 {
        db.put(format!("key{n:03}"), "default").unwrap();
        families[0].put(format!("key{n:03}"), "a user").unwrap();
    }
    families[1].put("key", "in a family that is dropped later").unwrap();
    families[0].put("last", "old").unwrap();
    drop((families, db)); // like a kill
    damage_wal(&store);
    let path = store.to_str().unwrap();
    let run = |arguments: &[&str]| String::from_utf8(terrace(arguments).ok()).unwrap();
    run(&["put", path, "--cf", "users", "last", "new"]);
    let count = |family: &str| run(&["scan", path, "--cf", family, "--keys-only"]).lines().count();
    assert!(count("default") < 100 && count("users") < 100, "{} {}", count("default"), count("users"));
    let db = Db::open(&store, Options::leveldb_compatible()).unwrap();
    db.drop_cf("gone").unwrap();
    drop(db);
    let list = run(&["lost", "list", path]);
    let name = list.split_whitespace().find(|word| word.contains(".log")).unwrap_or_else(|| panic!("{list}"));
    let said = run(&["lost", "restore", path, name]);
    assert!(said.contains("kept the store's value of 1 key;"), "{said}");
    assert!(said.contains("skipped 1 write to column families that were dropped"), "{said}");
    assert_eq!(count("users"), 101, "one damaged block at most is lost");
    assert!(count("default") >= 99);
    assert_eq!(run(&["get", path, "--cf", "users", "last"]), "new\n");
    run(&["lost", "restore", path, name, "--overwrite"]);
    assert_eq!(run(&["get", path, "--cf", "users", "last"]), "old\n");
    run(&["lost", "discard", path, "--all"]);
    assert!(!run(&["stats", path]).contains("lost"));
}
