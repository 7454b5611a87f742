//! Tests that every installed peer (another engine that runs the same workloads) fulfils the
//! contract of a benchmark target.
use std::{collections::BTreeMap, path::Path};
use terrace_lab::target::{Change, Engine, Settings, Target};
use terrace_peers::{lab, require};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the entries of a scan that starts at `from`, at most `limit` of them.
fn scan(target: &dyn Target, from: Option<&[u8]>, reverse: bool, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        pairs.len() < limit
    };
    target.scan(from, reverse, &mut visit).expect("scan");
    pairs
}

/// Writes a history that is always the same, in batches and in single writes. Returns the expected
/// contents of the store.
fn fill(target: &dyn Target) -> Model {
    let mut model = Model::new();
    for round in 0..300u32 {
        let key = |n: u32| format!("key{:04}", (round * 7919 + n * 104_729) % 500).into_bytes();
        let value = vec![round as u8; (round as usize * 37) % 900];
        let (first, second, gone) = (key(0), key(1), key(2));
        let changes = [Change::Put(&first, &value), Change::Put(&second, b""), Change::Delete(&gone)];
        target.write(&changes, round % 50 == 0).expect("write");
        model.insert(first.clone(), value.clone());
        model.insert(second.clone(), Vec::new());
        model.remove(&gone);

        let (alone, gone) = (key(3), key(4));
        target.write(&[Change::Put(&alone, &value)], round % 40 == 0).expect("put");
        target.write(&[Change::Delete(&gone)], round % 40 == 0).expect("delete");
        model.insert(alone.clone(), value);
        model.remove(&gone);
    }
    model
}

fn holds(target: &dyn Target, model: &Model) {
    let forward: Vec<_> = model.clone().into_iter().collect();
    let mut backward = forward.clone();
    backward.reverse();
    assert_eq!(scan(target, None, false, usize::MAX), forward);
    assert_eq!(scan(target, None, true, usize::MAX), backward);
    let mut value = b"left over".to_vec();
    for n in 0..500 {
        let key = format!("key{n:04}").into_bytes();
        let there = target.get(&key, &mut value).expect("get");
        assert_eq!(there.then(|| value.clone()), model.get(&key).cloned(), "{n}");
    }
    for from in [&b"key0100"[..], b"key01005", b"", b"zzz"] {
        let after: Vec<_> = forward.iter().filter(|(key, _)| key[..] >= *from).take(5).cloned().collect();
        let before: Vec<_> = backward.iter().filter(|(key, _)| key[..] <= *from).take(5).cloned().collect();
        assert_eq!(scan(target, Some(from), false, 5), after, "from {}", from.escape_ascii());
        assert_eq!(scan(target, Some(from), true, 5), before, "back from {}", from.escape_ascii());
    }
}

fn contract(engine: &dyn Engine, directory: &Path) {
    let settings = Settings { write_buffer_size: 64 << 10, ..Settings::default() };
    let target = engine.open(directory, &settings).expect("open");
    holds(&*target, &Model::new());
    let model = fill(&*target);
    holds(&*target, &model);
    target.compact().expect("compact");
    holds(&*target, &model);
    target.close().expect("close");
    let again = engine.open(directory, &settings).expect("open again");
    holds(&*again, &model);
    again.close().expect("close again");
}

#[test]
fn every_installed_peer_keeps_the_contract() {
    for name in lab::NAMES {
        let engine = lab::engine(name).expect("it is in the list of names");
        assert_eq!(engine.name(), name);
        // A peer that is not compiled in is unavailable on every machine. The test therefore skips
        // it even if peers are required.
        if (name == "fjall" && !cfg!(feature = "fjall")) || (name == "redb" && !cfg!(feature = "redb")) {
            continue;
        }
        // CI installs a package only for Debian's LevelDB, so only this peer has a requirement of
        // its own. The libraries of the other peers are built by `make peers` or are Rust crates.
        let needed = if name == "leveldb:debian" { "leveldb" } else { "peers" };
        if let Some(build) = require(needed, engine.build()) {
            let directory = tempfile::tempdir().expect("a temporary directory");
            contract(&*engine, &directory.path().join("store"));
            println!("{name}: {}, {}", build.version, build.source);
        }
    }
}

#[test]
fn an_unknown_name_returns_none() {
    assert!(lab::engine("mysql").is_none());
}
