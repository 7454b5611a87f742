//! `lost`: lists, shows, restores or discards the WAL files that an open of the store has moved to
//! `lost/`.
use crate::{args::Store, cmd::inspect, log_file::LogFile, table::size};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};
use terrace::{ColumnFamily, Db, FamilyId, WriteBatch, WriteOptions};
use terrace_format::{Batch, Op, log_record::Event};

/// Size of the batches that `restore` writes, in bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Lists, shows, restores or discards WAL files that opens set aside under lost/.
///
/// A WAL may have bytes that are not part of the store's history: a torn tail after a power cut,
/// or corruption. The open then keeps a copy of the WAL under lost/. `check`, `stats` and `doctor`
/// mention the copies until they are restored or discarded.
#[derive(clap::Args)]
pub struct Lost {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Lists the files with their sizes and the number of readable writes.
    List {
        #[command(flatten)]
        store: Store,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints the writes in a file.
    Show {
        #[command(flatten)]
        store: Store,
        /// File name, as `list` prints it.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Restores the pairs of a file whose keys the store does not have. This includes keys that
    /// were deleted later.
    Restore {
        #[command(flatten)]
        store: Store,
        /// File name, as `list` prints it.
        name: String,
        /// Also replace values that differ, and repeat deletes. Use this only for a file that is
        /// newer than the store.
        #[arg(long)]
        overwrite: bool,
    },
    /// Removes files permanently.
    Discard {
        #[command(flatten)]
        store: Store,
        /// File names, as `list` prints them.
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// All files.
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
}

impl Lost {
    /// Runs the subcommand.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.what {
            What::List { store, json } => list(&store.path, *json, out),
            What::Show { store, name, json } => inspect::show_log(&file(&store.path, name)?, *json, true, out),
            What::Restore { store, name, overwrite } => restore(store, name, *overwrite, out),
            What::Discard { store, names, all } => {
                let names = if *all { names_in(&store.path)? } else { names.clone() };
                discard(store, &names, out)
            }
        }
    }
}

/// Returns the sorted names of the files set aside in the store at `path`.
pub fn names_in(path: &Path) -> Result<Vec<String>> {
    let folder = path.join("lost");
    if !path.is_dir() {
        bail!("{}: not a directory; `terrace raw export` copies a device into one", path.display());
    }
    // A symbolic link is not followed, because its target does not belong to the store and
    // `discard` would remove files there.
    if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
        bail!("{}: not a directory of this store; move it away", folder.display());
    }
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = entries.map(name).collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Returns the path of file `name`.
fn file(path: &Path, name: &str) -> Result<PathBuf> {
    if !names_in(path)?.iter().any(|known| known == name) {
        bail!("{}/lost has no file {name}; `terrace lost list` prints the names", path.display());
    }
    Ok(path.join("lost").join(name))
}

/// The readable contents of a WAL.
#[derive(Default)]
struct Found {
    writes: u64,
    first: Option<u64>,
    last: u64,
    bad_bytes: u64,
}

fn survey(path: &Path) -> Result<Found> {
    let mut found = Found::default();
    each_batch(path, |event| {
        match event {
            Ok(batch) => {
                found.writes += u64::from(batch.len());
                found.first = found.first.or(Some(batch.sequence().0));
                found.last = batch.sequence().0 + u64::from(batch.len()).max(1) - 1;
            }
            Err(bytes) => found.bad_bytes += bytes,
        }
        Ok(())
    })?;
    Ok(found)
}

/// Calls `pass` with every non-empty batch of a WAL. For an unreadable range, calls it with the
/// length of the range.
fn each_batch(path: &Path, mut pass: impl FnMut(std::result::Result<Batch, u64>) -> Result<()>) -> Result<()> {
    let mut log = LogFile::open(path)?;
    loop {
        match log.next()? {
            Event::End { .. } => return Ok(()),
            Event::Bad { bytes, .. } => pass(Err(bytes))?,
            Event::Record { bytes, .. } => {
                let length = bytes.len() as u64;
                match Batch::decode(bytes) {
                    Ok(batch) if batch.is_empty() => {}
                    batch => pass(batch.map_err(|_| length))?,
                }
            }
        }
    }
}

fn list(path: &Path, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let names = names_in(path)?;
    let mut objects = Vec::new();
    for name in &names {
        let file = path.join("lost").join(name);
        let bytes = fs::metadata(&file).with_context(|| file.display().to_string())?.len();
        let Found { writes, first, last, bad_bytes } = survey(&file)?;
        if as_json {
            objects.push(json!({ "name": name, "bytes": bytes, "writes": writes, "first_sequence": first,
                "last_sequence": first.map(|_| last), "bad_bytes": bad_bytes }));
            continue;
        }
        let range = first.map_or(String::new(), |first| format!(" (sequences {first} to {last})"));
        writeln!(out, "{name}  {}, {writes} writes{range}, {bad_bytes} bytes cannot be read", size(bytes))?;
    }
    match (as_json, names.len()) {
        (true, _) => writeln!(out, "{}", json!({ "lost": objects }))?,
        (false, 0) => writeln!(out, "nothing was set aside")?,
        (false, _) => {}
    }
    Ok(())
}

/// The operations of a set-aside WAL that the store may lack, by column family.
#[derive(Default)]
struct Tail(BTreeMap<FamilyId, FamilyTail>);

/// The operations on one column family: the last operation on each key, and the key ranges that
/// were deleted before these operations.
#[derive(Default)]
struct FamilyTail {
    keys: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Tail {
    /// Reads the operations after the first damage in the file. The operations before the damage
    /// are already in the store, because the open that set the file aside has applied them. In an
    /// undamaged file, reads all operations.
    fn of(path: &Path) -> Result<Tail> {
        let (mut tail, mut damaged) = (Tail::default(), false);
        each_batch(path, |read| {
            match read {
                Ok(batch) => batch.ops().for_each(|op| tail.add(op)),
                Err(_) if !std::mem::replace(&mut damaged, true) => tail = Tail::default(),
                Err(_) => {}
            }
            Ok(())
        })?;
        Ok(tail)
    }

    fn add(&mut self, op: Op<'_>) {
        let (family, op) = op.split();
        let tail = self.0.entry(family).or_default();
        match op {
            Op::Put(key, value) => drop(tail.keys.insert(key.to_vec(), Some(value.to_vec()))),
            Op::Delete(key) => drop(tail.keys.insert(key.to_vec(), None)),
            Op::DeleteRange(from, to) => {
                tail.keys.retain(|key, _| key.as_slice() < from || key.as_slice() >= to);
                tail.ranges.push((from.to_vec(), to.to_vec()));
            }
            Op::FamilyPut(..) | Op::FamilyDelete(..) | Op::FamilyDeleteRange(..) => {
                unreachable!("`split` returns the operation without its family")
            }
        }
    }
}

/// Counts of the operations of a WAL that a restore has handled.
#[derive(Default)]
struct Restored {
    written: u64,
    /// Keys for which the store has another value, which it keeps.
    kept: u64,
    /// Operations on families that were dropped.
    dropped: u64,
}

impl FamilyTail {
    /// Writes the operations that `family` lacks. With `overwrite`, they also replace values that
    /// the family has.
    fn restore(&self, db: &Db, family: &ColumnFamily, overwrite: bool, restored: &mut Restored) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (from, to) in self.ranges.iter().filter(|_| overwrite) {
            batch.delete_range_cf(family, from, to);
            restored.written += 1;
        }
        // The range deletes are written first. The operations on single keys are then compared with
        // a store in which these ranges are already deleted.
        db.write(std::mem::take(&mut batch), WriteOptions::default())?;
        for (key, value) in &self.keys {
            let there = family.get(key)?;
            match value {
                value if *value == there => continue,
                Some(value) if overwrite || there.is_none() => drop(batch.put_cf(family, key, value)),
                None if overwrite => drop(batch.delete_cf(family, key)),
                _ => {
                    restored.kept += 1;
                    continue;
                }
            }
            restored.written += 1;
            if batch.byte_len() >= BATCH_BYTES {
                db.write(std::mem::take(&mut batch), WriteOptions::default())?;
            }
        }
        db.write(batch, WriteOptions::default())?;
        Ok(())
    }
}

/// Returns a number with its noun, in the plural unless the number is 1.
fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn restore(store: &Store, name: &str, overwrite: bool, out: &mut dyn Write) -> Result<()> {
    let tail = Tail::of(&file(&store.path, name)?)?;
    let db = store.open()?;
    let families = db.cf_names().iter().map(|name| db.cf(name)).collect::<terrace::Result<Vec<_>>>()?;
    let mut restored = Restored::default();
    for (id, operations) in &tail.0 {
        match families.iter().find(|family| family.id() == *id) {
            Some(family) => operations.restore(&db, family, overwrite, &mut restored)?,
            None => restored.dropped += (operations.keys.len() + operations.ranges.len()) as u64,
        }
    }
    drop(families);
    db.write(WriteBatch::new(), WriteOptions::synced())?;
    db.close()?;
    writeln!(out, "restored {} of {name}", counted(restored.written, "write"))?;
    if restored.kept > 0 {
        writeln!(out, "kept the store's value of {}; --overwrite replaces it", counted(restored.kept, "key"))?;
    }
    if restored.dropped > 0 {
        writeln!(out, "skipped {} to column families that were dropped", counted(restored.dropped, "write"))?;
    }
    writeln!(out, "the file stays until `terrace lost discard` removes it")?;
    Ok(())
}

fn discard(store: &Store, names: &[String], out: &mut dyn Write) -> Result<()> {
    let files = names.iter().map(|name| file(&store.path, name)).collect::<Result<Vec<_>>>()?;
    let held = store.open()?; // keep the store locked, so that no other open sets a file aside meanwhile
    for path in &files {
        let named = || path.display().to_string();
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.with_context(named)?;
    }
    held.close()?;
    writeln!(out, "discarded {}", counted(files.len() as u64, "file"))?;
    Ok(())
}
