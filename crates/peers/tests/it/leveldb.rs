//! Tests that the safe Rust interface to LevelDB behaves as its documentation says. The tests use
//! the real LevelDB.
//!
//! Each test creates and removes its own directory, because this crate does not depend on a crate
//! for temporary directories.
use std::{env, fs, path::PathBuf, process, thread};
use terrace_peers::{
    PeerError,
    leveldb::{Compression, Library, OpenOptions, Store},
    require,
};

/// The directory of one test. Dropping it removes the directory with all its contents.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let path = env::temp_dir().join(format!("terrace-peers-{test}-{}", process::id()));
        let _ = fs::remove_dir_all(&path); // left by an earlier process with the same id
        fs::create_dir(&path).expect("the temporary directory is writable");
        Scratch(path)
    }

    fn create(&self, library: Library) -> Store {
        library.open(&self.0, &OpenOptions { create_if_missing: true, ..Default::default() }).expect("a new store")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn library() -> Option<Library> {
    require("leveldb", Library::load())
}

#[test]
fn the_version_is_the_one_our_formats_follow() {
    let Some(library) = library() else { return };
    assert_eq!(library.version(), (1, 23));
}

#[test]
fn entries_are_put_replaced_deleted_and_survive_reopening() {
    let Some(library) = library() else { return };
    let scratch = Scratch::new("entries");
    let store = scratch.create(library);
    store.put(b"", b"empty key", false).unwrap();
    store.put(b"a\0b", b"old", false).unwrap();
    store.put(b"a\0b", b"", true).unwrap();
    store.put(b"gone", b"x", false).unwrap();
    store.delete(b"gone", true).unwrap();
    store.delete(b"never there", false).unwrap();
    drop(store);

    let store = library.open(&scratch.0, &OpenOptions::default()).unwrap();
    assert_eq!(store.get(b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(store.get(b"a\0b").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(store.get(b"gone").unwrap(), None);
}

#[test]
fn batches_apply_in_order_and_can_be_reused() {
    let Some(library) = library() else { return };
    let scratch = Scratch::new("batches");
    let store = scratch.create(library);
    let mut batch = store.batch();
    batch.put(b"k", b"1");
    batch.delete(b"k");
    batch.put(b"l", b"2");
    store.write(&mut batch, false).unwrap();
    batch.clear();
    batch.put(b"m", b"3");
    store.write(&mut batch, true).unwrap();
    assert_eq!(store.forward().unwrap(), [(b"l".to_vec(), b"2".to_vec()), (b"m".to_vec(), b"3".to_vec())]);
}

#[test]
fn cursors_move_both_ways_and_stay_invalid_past_the_ends() {
    let Some(library) = library() else { return };
    let scratch = Scratch::new("cursors");
    let store = scratch.create(library);
    for n in 0..1000u32 {
        store.put(format!("{n:04}").as_bytes(), &n.to_le_bytes(), false).unwrap();
    }
    let (forward, mut backward) = (store.forward().unwrap(), store.backward().unwrap());
    backward.reverse();
    assert_eq!(forward.len(), 1000);
    assert_eq!(forward, backward);

    let mut cursor = store.cursor();
    assert_eq!(cursor.entry(), None);
    cursor.step_forward().unwrap();
    cursor.seek(b"0500x").unwrap();
    assert_eq!(cursor.entry(), Some((&b"0501"[..], &501u32.to_le_bytes()[..])));
    cursor.step_back().unwrap();
    assert_eq!(cursor.entry().unwrap().0, b"0500");
    cursor.seek(b"9").unwrap();
    cursor.step_forward().unwrap();
    assert_eq!(cursor.entry(), None);
}

#[test]
fn options_reach_leveldb() {
    let Some(library) = library() else { return };
    let scratch = Scratch::new("options");
    let options = OpenOptions {
        create_if_missing: true,
        error_if_exists: true,
        paranoid_checks: true,
        compression: Compression::None,
        write_buffer_size: 64 << 10,
        bloom_bits: Some(10),
        ..Default::default()
    };
    let store = library.open(&scratch.0, &options).unwrap();
    for n in 0..2000u32 {
        store.put(&n.to_be_bytes(), &[0; 1000], false).unwrap();
    }
    store.compact_range(None, None);
    assert_eq!(store.property("leveldb.num-files-at-level0").as_deref(), Some("0"));
    assert_eq!(store.property("leveldb.no-such-thing"), None);
    let all = store.approximate_size(b"", &u32::MAX.to_be_bytes());
    assert!(all > 2_000_000, "zeros stay as large as they are without compression: {all} B");
    assert!(store.approximate_size(&0u32.to_be_bytes(), &1000u32.to_be_bytes()) < all);
    drop(store);
    let error = library.open(&scratch.0, &options).err().expect("a store that exists is refused");
    assert!(error.to_string().contains("exists"), "{error}");
}

#[test]
fn errors_carry_leveldbs_text() {
    let Some(library) = library() else { return };
    let scratch = Scratch::new("errors");
    let missing = library.open(&scratch.0.join("no-store"), &OpenOptions::default()).err().expect("nothing is there");
    assert!(matches!(missing, PeerError::Refused { op: "open", .. }), "{missing}");
    assert!(missing.to_string().contains("does not exist"), "{missing}");
    let store = scratch.create(library);
    let locked = library.open(&scratch.0, &OpenOptions::default()).err().expect("the store is open already");
    assert!(locked.to_string().contains("lock"), "{locked}");
    drop(store);
    let zero = library.open("a\0b".as_ref(), &OpenOptions::default()).err().expect("C cannot name it");
    assert!(matches!(zero, PeerError::ZeroByte(_)), "{zero}");
}

#[test]
fn one_store_serves_many_threads() {
    let Some(library) = library() else { return };
    let scratch = Scratch::new("threads");
    let store = scratch.create(library);
    thread::scope(|scope| {
        for thread in 0..4u8 {
            let store = &store;
            scope.spawn(move || (0..500u16).for_each(|n| store.put(&[thread, n as u8], b"v", false).unwrap()));
        }
    });
    assert_eq!(store.forward().unwrap().len(), 4 * 256);
}

#[test]
fn repair_rebuilds_a_store_without_manifest_and_destroy_removes_it() {
    let Some(library) = library() else { return };
    let scratch = Scratch::new("repair");
    let store = scratch.create(library);
    store.put(b"kept", b"in the log", true).unwrap();
    drop(store);
    fs::remove_file(scratch.0.join("CURRENT")).unwrap();
    library.repair(&scratch.0, &OpenOptions::default()).unwrap();
    let store = library.open(&scratch.0, &OpenOptions::default()).unwrap();
    assert_eq!(store.get(b"kept").unwrap().as_deref(), Some(&b"in the log"[..]));
    drop(store);
    library.destroy(&scratch.0).unwrap();
    assert!(!scratch.0.join("CURRENT").exists());
}
