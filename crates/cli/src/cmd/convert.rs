//! `convert`: copies a store into a new store with another layout.
use crate::{
    args::{DEFAULT_FAMILY, Settings},
    directory::refuse_foreign,
    progress::Pass,
    table::size,
};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};
use terrace::{Codec, ColumnFamily, Copied, Db, Options, ReadOptions};
use terrace_storage::{Location, lies_in};

/// Name of the record file in a directory that a conversion fills. The record names the
/// conversion's source and target. When the directory is complete, it is renamed, and then the
/// record is removed.
const RECORD: &str = "CONVERTING";

/// Copies a store into a new one with another preset or other options.
///
/// SRC is only read; no program may write to it meanwhile. The new store is built in
/// DST.converting. It is renamed to DST after it is complete and its pairs were compared with
/// those of SRC. If the command is interrupted, the same command continues. On a device, or in a
/// directory prepared with a device by `terrace raw format`, the store is built in place.
#[derive(clap::Args)]
pub struct Convert {
    /// The store to read.
    #[arg(value_name = "SRC")]
    from: PathBuf,
    /// The new store: an absent or empty directory, or a device.
    #[arg(value_name = "DST")]
    to: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Convert {
    /// Converts the store and prints the numbers of copied pairs and bytes.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut options = self.settings.resolve()?;
        refuse_foreign(&self.from)?;
        let from = Db::open_read_only(&self.from, Options::default())?;
        if lies_in(&self.to, &self.from)? {
            let (to, from) = (self.to.display(), self.from.display());
            ensure!(
                !lies_in(&self.from, &self.to)?,
                "{to} is the source store itself; name another directory for the new store"
            );
            bail!("{to} lies within {from}; name a directory outside the store");
        }
        let building = match Location::at(&self.to) {
            Location::Device(_) | Location::Split(_) => None,
            _ => Some(Building::of(&self.to, &record(&self.from, &from, &options)?)?),
        };
        options.create_if_missing = true;
        let to = Db::open(building.as_ref().map_or(&self.to, |building| &building.folder), options)?;
        if building.is_none() {
            compare(&from, &to, Extent::Begin)?; // a device has no record that names the pairs' source
        }
        let copied = {
            let pass = Pass::begin("copying", from.cf(DEFAULT_FAMILY)?);
            from.copy_into(&to, |copied| copied.last.iter().for_each(|key| pass.at(key)))?
        };
        compare(&from, &to, Extent::All)?;
        to.wait_idle()?;
        to.close()?;
        building.map_or(Ok(()), |building| building.finish())?;
        let Copied { pairs, bytes, resumed_after, .. } = copied;
        if self.json {
            writeln!(out, "{}", json!({ "pairs": pairs, "bytes": bytes, "resumed": resumed_after.is_some() }))?;
            return Ok(());
        }
        if resumed_after.is_some() {
            writeln!(out, "continued an interrupted conversion")?;
        }
        writeln!(out, "copied {pairs} pairs, {}, to {}", size(bytes), self.to.display())?;
        Ok(())
    }
}

fn check_empty(folder: &Path) -> Result<()> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        entries => {
            let empty = entries.with_context(|| folder.display().to_string())?.next().is_none();
            ensure!(empty, "{} is not empty; a conversion creates a new store", folder.display());
            Ok(())
        }
    }
}

/// How much of the source a copy must contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// The first pairs of the source in key order: none, all, or those up to some key.
    Begin,
    All,
}

/// Checks that the copy's pairs equal the source's, in every column family. With
/// [`Extent::Begin`], the copy may end earlier and lack families.
fn compare(from: &Db, to: &Db, extent: Extent) -> Result<()> {
    for name in from.cf_names() {
        match to.cf(&name) {
            Err(terrace::Error::Missing { .. }) if extent == Extent::Begin => {}
            copy => compare_family(&from.cf(&name)?, &copy?, extent)?,
        }
    }
    Ok(())
}

fn compare_family(from: &ColumnFamily, to: &ColumnFamily, extent: Extent) -> Result<()> {
    let pass = Pass::begin("comparing", from.clone());
    let all = || ReadOptions::new().verify_checksums(true).fill_cache(false);
    let (mut source, mut copy) = (from.cursor(all()), to.cursor(all()));
    source.seek_to_first()?;
    copy.seek_to_first()?;
    for number in 0u64.. {
        let same = match (source.valid(), copy.valid()) {
            (false, false) => break,
            (true, false) if extent == Extent::Begin => break,
            (true, true) => (source.key(), source.value()) == (copy.key(), copy.value()),
            _ => false,
        };
        if !same {
            let key = if source.valid() { source.key() } else { copy.key() };
            let key = key.escape_ascii();
            match extent {
                Extent::All => bail!("the copy differs from the source at key '{key}'; remove it and start again"),
                Extent::Begin => {
                    bail!("the device holds another store, which differs at key '{key}'; nothing was changed")
                }
            }
        }
        if number % 4096 == 0 {
            pass.at(source.key());
        }
        source.next()?;
        copy.next()?;
    }
    Ok(())
}

/// Returns the record of a conversion, which names its source and target. When a command continues
/// an interrupted conversion, its record must equal the one on disk.
fn record(path: &Path, from: &Db, options: &Options) -> Result<Value> {
    let source = path.canonicalize().with_context(|| path.display().to_string())?;
    let layout = options.layout();
    Ok(json!({
        "source": source.display().to_string(),
        "last_sequence": from.last_sequence(),
        "tables": layout.tables.name(),
        "values": layout.values.name(),
        "range_tombstones": options.range_tombstones,
        "lz4": options.compression == Codec::Lz4,
    }))
}

/// Returns whether `folder` has a record of a conversion. It is an error if that record differs
/// from `record`.
fn is_taken_up(folder: &Path, record: &Value) -> Result<bool> {
    let shown = || folder.display().to_string();
    let found = match fs::read(folder.join(RECORD)) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(false),
        text => serde_json::from_slice::<Value>(&text.with_context(shown)?).unwrap_or_default(),
    };
    let differs = |key: &&str| found[*key] != record[*key];
    if let Some(key) = ["source", "last_sequence"].into_iter().find(differs) {
        let what =
            if key == "source" { "is a conversion of another store" } else { "has a source that has changed since" };
        bail!("{} {what}; remove it to start again", shown());
    }
    if let Some(key) = ["tables", "values", "range_tombstones", "lz4"].into_iter().find(differs) {
        bail!(
            "{} was begun with {key}={}, not {key}={}; continue with the original options, or remove it to start again",
            shown(),
            text(&found[key]),
            text(&record[key])
        );
    }
    Ok(true)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The directory in which the new store is built.
struct Building {
    folder: PathBuf,
    to: PathBuf,
}

impl Building {
    /// Creates the directory in which the new store is built, `TO.converting` next to `to`, with
    /// its file `CONVERTING`. If the directory already exists and its `CONVERTING` equals `record`,
    /// continues in it.
    ///
    /// If `to` itself contains this file, an earlier run stopped after the rename. Only the last
    /// step of `finish` is missing then: the removal of the file.
    fn of(to: &Path, record: &Value) -> Result<Building> {
        if is_taken_up(to, record)? {
            return Ok(Building { folder: to.to_owned(), to: to.to_owned() });
        }
        check_empty(to)?;
        let name = to.file_name().with_context(|| format!("{} is not a valid directory name", to.display()))?;
        let mut name = name.to_os_string();
        name.push(".converting");
        let folder = to.with_file_name(name);
        if !is_taken_up(&folder, record)? {
            let shown = || folder.display().to_string();
            check_empty(&folder)?;
            fs::create_dir_all(&folder).with_context(shown)?;
            let mut file = File::create(folder.join(RECORD)).with_context(shown)?;
            file.write_all(record.to_string().as_bytes()).and_then(|()| file.sync_all()).with_context(shown)?;
        }
        Ok(Building { folder, to: to.to_owned() })
    }

    /// Completes the conversion: renames the directory and removes the record. The caller has made
    /// all pairs durable. The record is removed last, because an interrupted command can be
    /// repeated as long as the record exists.
    fn finish(&self) -> Result<()> {
        let shown = || self.to.display().to_string();
        let sync = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all()).with_context(shown);
        if self.folder != self.to {
            fs::rename(&self.folder, &self.to).with_context(shown)?;
            sync(self.to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        }
        fs::remove_file(self.to.join(RECORD)).with_context(shown)?;
        sync(&self.to)
    }
}
