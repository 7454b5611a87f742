//! A fixed store whose files can be damaged, and an oracle that judges the damaged store.
use super::{
    files::{Files, directory, files},
    kit::{self, Model, Pairs, options, prefix},
};
use std::sync::Arc;
use terrace::{Db, Options, ReadOptions, check_on};
use terrace_storage::{Memory, backends::files::fs::FileSystem, placement::OpenMode};

const SEED: u64 = 0xbad;
pub const BATCHES: usize = 120;
/// The count of batches, from the first one on, whose entries are in SSTables.
pub const FLUSHED: usize = 80;
/// The batch, by its number in the history, that fills a memtable, so that a second WAL begins.
pub const PADDED: usize = 100;

/// Returns the options with which the store is written. If `with_format_file` is set, they select
/// features that LevelDB lacks.
pub fn layout(with_format_file: bool) -> Options {
    let codec = if with_format_file { "lz4" } else { "snappy" };
    let form = if with_format_file { "table" } else { "block" };
    let own = [("compression", codec), ("bloom_bits", "10"), ("filter_form", form), ("block_size", "1KiB")];
    let tables = [("tables", if with_format_file { "bundled" } else { "block" })];
    options(&[&own, kit::TIGHT, &tables].concat())
}

/// Makes the store of [`store_on`] in memory. Returns its files and the expected contents after
/// each batch.
pub fn store(with_format_file: bool) -> (Files, Vec<Model>) {
    store_on(Arc::new(Memory::new()), with_format_file)
}

/// Makes a store with tables in several levels and two WALs. The last third of the history is in
/// the WALs. Returns the files of the store and the expected contents after each batch.
pub fn store_on(fs: Arc<dyn FileSystem>, with_format_file: bool) -> (Files, Vec<Model>) {
    let (mut states, padding) = (kit::states(SEED, BATCHES), (b"padding".to_vec(), vec![b'p'; 70 << 10]));
    states[PADDED..].iter_mut().for_each(|state| drop(state.insert(padding.0.clone(), padding.1.clone())));
    let db = kit::open(&fs, &layout(with_format_file), true).unwrap();
    for number in 1..=BATCHES {
        let mut batch = kit::batch(SEED, number);
        if number == PADDED {
            // The next write begins a new WAL.
            batch.push((padding.0.clone(), Some(padding.1.clone())));
        }
        kit::write(&db, &batch, false).unwrap();
        if number % 10 == 0 && number <= FLUSHED {
            db.flush().unwrap();
        }
        while number == FLUSHED && db.step(0).is_some() {}
    }
    let layout = db.layout();
    drop(db);
    let levels = layout.iter().filter(|level| !level.tables.is_empty()).count();
    let tables: Vec<_> =
        layout.iter().flat_map(|level| &level.tables).map(|t| format!("{:06}.ldb", t.number)).collect();
    let mut files = files(&*fs);
    // The result has no obsolete tables.
    files.retain(|name, _| !name.ends_with(".ldb") || tables.contains(name));
    let logs = files.keys().filter(|name| name.ends_with(".log")).count();
    assert!(levels > 1 && logs == 2, "the store has tables in {levels} levels, and {logs} logs");
    (files, states)
}

/// The verdict on a damaged store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The store cannot be opened, and the error states why.
    Refused,
    /// The store opens. Some reads return errors, and all others are right.
    PartlyReadable,
    /// The store opens and has the contents after this number of batches.
    Holds(usize),
}

/// Judges a damaged store: opens it, first read-only and then for writing, and reads it in every
/// way.
pub fn judge(files: &Files, options: &Options, states: &[Model]) -> Result<Verdict, String> {
    let fs = directory(files);
    let checked = kit::storage(&fs, OpenMode::ReadOnly, options).and_then(|place| check_on(&*place, options, true));
    let db = match kit::open(&fs, options, true) {
        Ok(db) => db,
        Err(error) => {
            return if error.to_string().len() > 10 {
                Ok(Verdict::Refused)
            } else {
                Err(format!("it says only {error}"))
            };
        }
    };
    // Without checksum verification any result is allowed, but the read must not panic.
    let _ = kit::scan(&db, ReadOptions::new().fill_cache(false));
    let verified = || ReadOptions::new().verify_checksums(true).fill_cache(false);
    let forward = kit::scan(&db, verified());
    let backward: terrace::Result<Pairs> = db.scan_reverse(verified()).collect();
    let (Ok(forward), Ok(mut backward)) = (forward, backward) else {
        judge_partly_readable(&db, states)?;
        let report = checked.map_err(|e| format!("check cannot open what an open can: {e}"))?;
        return if report.problems.is_empty() {
            Err("reads fail, check finds nothing".into())
        } else {
            Ok(Verdict::PartlyReadable)
        };
    };
    backward.reverse();
    if forward != backward {
        return Err("forward and backward differ".into());
    }
    judge_gets(&db, &forward.iter().cloned().collect())?;
    Ok(Verdict::Holds(prefix(forward, states)?))
}

/// Judges a store in which some reads fail. The other reads must all be right for one state of the
/// history.
fn judge_partly_readable(db: &Db, states: &[Model]) -> Result<(), String> {
    let verified = ReadOptions::new().verify_checksums(true);
    let keys: Vec<&Vec<u8>> = states.last().expect("a state").keys().collect();
    let answers: Vec<_> =
        keys.iter().filter_map(|key| db.get_with(key, &verified).ok().map(|value| (*key, value))).collect();
    let scanned: Pairs = db.scan(verified).map_while(|pair| pair.ok()).collect();
    let fits = |state: &Model| {
        answers.iter().all(|(key, value)| state.get(*key) == value.as_ref())
            && state.iter().take(scanned.len()).eq(scanned.iter().map(|(key, value)| (key, value)))
    };
    if states.iter().any(fits) { Ok(()) } else { Err("a read that succeeds is wrong".into()) }
}

fn judge_gets(db: &Db, state: &Model) -> Result<(), String> {
    for (key, value) in state {
        match db.get_with(key, &ReadOptions::new().verify_checksums(true)) {
            Ok(found) if found.as_ref() == Some(value) => {}
            other => return Err(format!("get {} differs from the scan: {:?}", key.escape_ascii(), other.err())),
        }
    }
    Ok(())
}
