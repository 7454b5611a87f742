//! Tests the file backend under power cuts: everything that it has reported as durable must
//! survive.
//!
//! The engine's crash campaigns rely on this property. A failure here is a bug in the storage
//! backend, not in the engine.
use std::sync::Arc;
use terrace_format::{Kind, LogId, SeqNo, TableId, key};
use terrace_sim::{CrashFs, Rules};
use terrace_storage::{
    Result, StorageConfig,
    durability::{DurabilityTracker, NoTracker, SyncTracker},
    open_files,
    placement::{EntryRef, Hint, Lifetime, LogEvent, LogKind, OpenMode, Origin, Storage, TableMeta},
};

/// The roots, WAL records and tables that were reported as durable, each with the step at which
/// this happened.
#[derive(Default)]
struct Durable {
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
    let (mut metas, handle) = build.finish()?;
    storage.commit()?;
    assert!(handle.is_durable()?);
    Ok(metas.remove(0))
}

fn record(rules: Rules, tracker: Arc<dyn DurabilityTracker>) -> Result<(CrashFs, Durable)> {
    let (fs, mut durable) = (CrashFs::new(rules), Durable::default());
    let storage = open_files(Arc::new(fs.clone()), OpenMode::Create, tracker, &StorageConfig::default())?;
    let mut log = storage.create_log(LogId(2), LogKind::Wal, b"twelve bytes")?;
    for round in 3..9 {
        storage.create_log(LogId(round * 10), LogKind::Manifest, b"twelve bytes")?.sync()?;
        storage.publish_root(LogId(round * 10))?;
        durable.roots.push((fs.steps(), LogId(round * 10)));
        let table = build(&*storage, round * 10 + 1)?;
        durable.tables.push((fs.steps(), table));
        let record = vec![round as u8; 3000];
        log.append(&record)?;
        log.sync()?;
        durable.records.push((fs.steps(), record));
        // No sync follows this append. The log's next sync covers these bytes.
        log.append(&[0; 5000])?;
    }
    Ok((fs, durable))
}

/// Opens the store of a crash state. Returns the first durable object that is missing. Panics if a
/// durable object exists but has wrong contents.
fn missing(fs: &CrashFs, durable: &Durable, step: usize, seed: u64) -> Option<String> {
    let image = fs.power_loss(step, seed);
    let opened = open_files(image.file_system(), OpenMode::Write, Arc::new(SyncTracker), &StorageConfig::default());
    let known = durable.roots.iter().filter(|(when, _)| *when <= step).count();
    let Ok(storage) = opened else {
        return (known > 0).then(|| format!("no store at {step}/{seed}: {image:?}"));
    };
    let root = storage.load_root().map_err(|error| error.to_string());
    let possible = durable.roots.iter().map(|(_, root)| Ok(Some(*root))).skip(known.saturating_sub(1)).take(2);
    if known > 0 && !possible.collect::<Vec<_>>().contains(&root) {
        return Some(format!("root {root:?} at {step}/{seed}: {image:?}"));
    }
    for (_, meta) in durable.tables.iter().filter(|(when, _)| *when <= step) {
        let verified = storage.open_table(meta).and_then(|table| table.verify());
        if !verified.is_ok_and(|properties| properties.entries == 20) {
            return Some(format!("table {} at {step}/{seed}: {image:?}", meta.id));
        }
    }
    let mut wanted = durable.records.iter().filter(|(when, _)| *when <= step).map(|(_, record)| record).peekable();
    if wanted.peek().is_some() {
        let Ok(mut log) = storage.open_log(LogId(2), LogKind::Wal) else {
            return Some(format!("no WAL at {step}/{seed}: {image:?}"));
        };
        while let Ok(LogEvent::Record { bytes, .. }) = log.next() {
            wanted.next_if(|record| **record == bytes);
        }
    }
    wanted.next().map(|_| format!("a synced record at {step}/{seed}: {image:?}"))
}

#[test]
fn what_was_reported_durable_survives_every_power_cut() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let (fs, durable) = record(rules, Arc::new(SyncTracker)).unwrap();
        for step in 0..=fs.steps() {
            for seed in 0..40 {
                assert_eq!(missing(&fs, &durable, step, seed), None, "{rules:?}");
            }
        }
    }
}

/// Tests a negative control: without syncs, the same history must lose data. This shows that the
/// test above can fail.
#[test]
fn without_syncs_durable_objects_are_lost() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let (fs, durable) = record(rules, Arc::new(NoTracker)).unwrap();
        assert!((0..40).any(|seed| missing(&fs, &durable, fs.steps(), seed).is_some()), "{rules:?}");
    }
}
