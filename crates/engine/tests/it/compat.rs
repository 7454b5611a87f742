//! Tests that the present version of Terrace can read and change the stores that earlier versions
//! wrote, and that a check finds them intact. These stores are kept in `tests/stores`.
//! `examples/golden.rs` creates the stores of the present version; stores of earlier versions are
//! never created again.
use crate::common::golden;
use golden::{Golden, STORES};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use terrace::{Db, ReadOptions, check};

/// Returns the directories with the stores, one for each version.
fn versions() -> Vec<PathBuf> {
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores");
    let versions = fs::read_dir(stores).expect("the stores are there").map(|entry| entry.expect("list").path());
    versions.collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("make");
    for entry in fs::read_dir(from).expect("list") {
        let path = entry.expect("list").path();
        fs::copy(&path, to.join(path.file_name().expect("it has a name"))).expect("copy");
    }
}

fn contents(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    db.scan(ReadOptions::new().verify_checksums(true)).collect::<terrace::Result<_>>().expect("it is whole")
}

fn judge(version: &Path, store: &Golden) {
    let (kept, options, wanted) = (version.join(store.name), store.options(), store.contents());
    let what = kept.display();
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let path = scratch.path().join("store");
    copy(&kept, &path);
    let reader = Db::open_read_only(&path, options.clone()).unwrap_or_else(|e| panic!("{what}, to read: {e}"));
    assert!(contents(&reader) == wanted, "{what}: other contents, read only");
    drop(reader);
    let db = Db::open(&path, options.clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(contents(&db) == wanted, "{what}: other contents");
    assert!(db.get("key057").expect("read") == wanted.get(&b"key057"[..]).cloned(), "{what}");
    db.put("new", "1").expect("write");
    db.compact_range(None, None).expect("compact");
    db.close().expect("close");
    assert_eq!(check(&path, &options, true).expect("check").problems, Vec::<String>::new(), "{what}");
    let mut wanted = wanted;
    wanted.insert(b"new".to_vec(), b"1".to_vec());
    assert!(contents(&Db::open(&path, options).expect("open")) == wanted, "{what}: other contents, compacted");
}

#[test]
fn stores_of_every_version_are_read() {
    let versions = versions();
    assert!(!versions.is_empty());
    for version in &versions {
        let made: Vec<_> = STORES.iter().filter(|store| version.join(store.name).is_dir()).collect();
        let there = fs::read_dir(version).expect("list").count();
        assert!(made.len() == there && there >= 5, "{}: {there} stores, {} known", version.display(), made.len());
        made.into_iter().for_each(|store| judge(version, store));
    }
}
