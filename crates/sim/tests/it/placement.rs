//! The file backend under power cuts: what it promised before the cut is there after it.
//!
//! The engine's campaigns build on this; a failure here is the backend's, not theirs.
use std::sync::Arc;
use terrace_format::{Kind, LogId, SeqNo, TableId, key};
use terrace_sim::{CrashFs, Rules};
use terrace_storage::{
    Result, StorageConfig,
    durability::{DurabilityTracker, NoTracker, SyncTracker},
    open_files,
    placement::{EntryRef, Hint, Lifetime, LogEvent, LogKind, OpenMode, Origin, Storage, TableMeta},
};

/// What was promised, by the step at which it was.
#[derive(Default)]
struct Promises {
    roots: Vec<(usize, LogId)>,
    records: Vec<(usize, Vec<u8>)>,
    tables: Vec<(usize, TableMeta)>,
}

fn build(storage: &dyn Storage, id: u64) -> Result<TableMeta> {
    let mut build = storage.begin(Hint { level: 0, expected_bytes: 20_000, lifetime: Lifetime::Flush })?;
    build.begin_table(TableId(id))?;
    for entry in 0..20 {
        let key = key::encode(format!("{entry:04}").as_bytes(), SeqNo(entry + 1), Kind::Put);
        build.keep(EntryRef { key: &key, stored: &[id as u8; 900], origin: Origin::Memory })?;
    }
    build.end_table()?;
    let (mut metas, ticket) = build.finish()?;
    storage.commit()?;
    assert!(ticket.is_durable()?);
    Ok(metas.remove(0))
}

fn record(rules: Rules, tracker: Arc<dyn DurabilityTracker>) -> Result<(CrashFs, Promises)> {
    let (fs, mut promised) = (CrashFs::new(rules), Promises::default());
    let storage = open_files(Arc::new(fs.clone()), OpenMode::Create, tracker, &StorageConfig::default())?;
    let mut log = storage.create_log(LogId(2), LogKind::Wal, b"twelve bytes")?;
    for round in 3..9 {
        storage.create_log(LogId(round * 10), LogKind::Manifest, b"twelve bytes")?.sync()?;
        storage.publish_root(LogId(round * 10))?;
        promised.roots.push((fs.steps(), LogId(round * 10)));
        let table = build(&*storage, round * 10 + 1)?;
        promised.tables.push((fs.steps(), table));
        let record = vec![round as u8; 3000];
        log.append(&record)?;
        log.sync()?;
        promised.records.push((fs.steps(), record));
        log.append(&[0; 5000])?; // never synced by itself
    }
    Ok((fs, promised))
}

/// What is missing after one cut; panics where something is there but wrong.
fn broken(fs: &CrashFs, promised: &Promises, step: usize, seed: u64) -> Option<String> {
    let image = fs.power_loss(step, seed);
    let opened = open_files(image.file_system(), OpenMode::Write, Arc::new(SyncTracker), &StorageConfig::default());
    let known = promised.roots.iter().filter(|(when, _)| *when <= step).count();
    let Ok(storage) = opened else {
        return (known > 0).then(|| format!("no store at {step}/{seed}: {image:?}"));
    };
    let root = storage.load_root().map_err(|error| error.to_string());
    let possible = promised.roots.iter().map(|(_, root)| Ok(Some(*root))).skip(known.saturating_sub(1)).take(2);
    if known > 0 && !possible.collect::<Vec<_>>().contains(&root) {
        return Some(format!("root {root:?} at {step}/{seed}: {image:?}"));
    }
    for (_, meta) in promised.tables.iter().filter(|(when, _)| *when <= step) {
        let verified = storage.open_table(meta).and_then(|table| table.verify());
        if !verified.is_ok_and(|facts| facts.entries == 20) {
            return Some(format!("table {} at {step}/{seed}: {image:?}", meta.id));
        }
    }
    let mut wanted = promised.records.iter().filter(|(when, _)| *when <= step).map(|(_, record)| record).peekable();
    if wanted.peek().is_some() {
        let Ok(mut log) = storage.open_log(LogId(2), LogKind::Wal) else {
            return Some(format!("no log at {step}/{seed}: {image:?}"));
        };
        while let Ok(LogEvent::Record { bytes, .. }) = log.next() {
            wanted.next_if(|record| **record == bytes);
        }
    }
    wanted.next().map(|_| format!("a synced record at {step}/{seed}: {image:?}"))
}

#[test]
fn what_was_promised_survives_every_cut() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let (fs, promised) = record(rules, Arc::new(SyncTracker)).unwrap();
        for step in 0..=fs.steps() {
            for seed in 0..40 {
                assert_eq!(broken(&fs, &promised, step, seed), None, "{rules:?}");
            }
        }
    }
}

/// The control: without syncs the same history loses something, so the test above can fail.
#[test]
fn without_syncs_promises_break() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let (fs, promised) = record(rules, Arc::new(NoTracker)).unwrap();
        assert!((0..40).any(|seed| broken(&fs, &promised, fs.steps(), seed).is_some()), "{rules:?}");
    }
}
