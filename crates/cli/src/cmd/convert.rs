//! `convert`: a store of another make with the same pairs.
use crate::{args::Settings, directory::refuse_foreign, progress::Pass, table::size};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};
use terrace::{Copied, Db, Options, ReadOptions};
use terrace_storage::Location;

/// In a directory that is being filled: of what. Its removal and the directory's last name come when all is there.
const RECORD: &str = "CONVERTING";

/// Copies a store into a new one of another make, such as another preset's, and back.
///
/// SRC is only read, and nobody may write it meanwhile. The new store grows in DST.converting and becomes DST when it is complete and
/// compared with SRC, pair by pair. Cut short, the same command goes on where it was. On a device, or in a directory
/// that goes with one, which `terrace raw format` has prepared, it grows in its place.
#[derive(clap::Args)]
pub struct Convert {
    /// The store to read.
    #[arg(value_name = "SRC")]
    from: PathBuf,
    /// Where the new store is made: an absent or empty directory, or a device.
    #[arg(value_name = "DST")]
    to: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Convert {
    /// Prints what was copied.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut options = self.settings.resolve()?;
        refuse_foreign(&self.from)?;
        let from = Db::open_read_only(&self.from, Options::default())?;
        let building = match Location::at(&self.to) {
            Location::Device(_) | Location::Split(_) => None,
            _ => Some(Building::of(&self.to, &self.from, from.last_sequence())?),
        };
        options.create_if_missing = true;
        let to = Db::open(building.as_ref().map_or(&self.to, |building| &building.folder), options)?;
        let copied = {
            let pass = Pass::begin("copying", &from);
            from.copy_into(&to, |copied| copied.last.iter().for_each(|key| pass.at(key)))?
        };
        compare(&from, &to)?;
        to.wait_idle()?;
        to.close()?;
        building.map_or(Ok(()), |building| building.finish())?;
        let Copied { pairs, bytes, resumed_behind, .. } = copied;
        if self.json {
            writeln!(out, "{}", json!({ "pairs": pairs, "bytes": bytes, "resumed": resumed_behind.is_some() }))?;
            return Ok(());
        }
        if resumed_behind.is_some() {
            writeln!(out, "went on where it was cut short")?;
        }
        writeln!(out, "copied {pairs} pairs, {}, to {}", size(bytes), self.to.display())?;
        Ok(())
    }
}

fn refuse_full(folder: &Path) -> Result<()> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        entries => {
            let empty = entries.with_context(|| folder.display().to_string())?.next().is_none();
            ensure!(empty, "{} is not empty; a conversion makes a new store", folder.display());
            Ok(())
        }
    }
}

/// Every pair of the one is a pair of the other.
fn compare(from: &Db, to: &Db) -> Result<()> {
    let pass = Pass::begin("comparing", from);
    let all = || ReadOptions::new().verify_checksums(true).fill_cache(false);
    let (mut source, mut copy) = (from.cursor(all()), to.cursor(all()));
    source.seek_to_first()?;
    copy.seek_to_first()?;
    for number in 0u64.. {
        let same = match (source.valid(), copy.valid()) {
            (false, false) => break,
            (true, true) => (source.key(), source.value()) == (copy.key(), copy.value()),
            _ => false,
        };
        if !same {
            let key = if source.valid() { source.key() } else { copy.key() };
            bail!("the copy differs from the source at key '{}'; remove it and begin anew", key.escape_ascii());
        }
        if number % 4096 == 0 {
            pass.at(source.key());
        }
        source.next()?;
        copy.next()?;
    }
    Ok(())
}

/// The directory in which the new store grows.
struct Building {
    folder: PathBuf,
    to: PathBuf,
}

impl Building {
    /// Begins one beside `to`, or takes up the one that is there, if it is of the same source and that has not changed.
    fn of(to: &Path, from: &Path, sequence: u64) -> Result<Building> {
        refuse_full(to)?;
        let name = to.file_name().with_context(|| format!("{} is no name for a directory", to.display()))?;
        let mut name = name.to_os_string();
        name.push(".converting");
        let folder = to.with_file_name(name);
        let shown = || folder.display().to_string();
        let source = from.canonicalize().with_context(|| from.display().to_string())?;
        let record = json!({ "source": source.display().to_string(), "last_sequence": sequence });
        match fs::read(folder.join(RECORD)) {
            Ok(text) => {
                let found: Value = serde_json::from_slice(&text).unwrap_or_default();
                ensure!(
                    found == record,
                    "{} is a conversion of another store, or its source has changed since; remove it to begin anew",
                    shown()
                );
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                refuse_full(&folder)?;
                fs::create_dir_all(&folder).with_context(shown)?;
                let mut file = File::create(folder.join(RECORD)).with_context(shown)?;
                file.write_all(record.to_string().as_bytes()).and_then(|()| file.sync_all()).with_context(shown)?;
            }
            Err(error) => return Err(error).with_context(shown),
        }
        Ok(Building { folder, to: to.to_owned() })
    }

    /// All is there and durable.
    fn finish(&self) -> Result<()> {
        let shown = || self.to.display().to_string();
        fs::remove_file(self.folder.join(RECORD)).with_context(shown)?;
        fs::rename(&self.folder, &self.to).with_context(shown)?;
        let parent = self.to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent).and_then(|parent| parent.sync_all()).with_context(shown)
    }
}
