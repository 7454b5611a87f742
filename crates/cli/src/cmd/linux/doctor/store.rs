//! Reports the kind of store in a directory, and how an open would treat it.
use super::Finding;
use crate::{
    cmd::lost,
    directory::{Holds, look},
    sorted_table::SortedTable,
};
use std::{fs, path::Path};
use terrace::{DurabilityMode, Options};
use terrace_format::{Codec, FileName, FormatFile};

/// Reports the store, its durability mode, and whether LevelDB can read its compression.
pub fn findings(path: &Path, options: &Options) -> Vec<Finding> {
    let holds = match look(path) {
        Ok(holds) => holds,
        Err(error) => return vec![Finding::new("store", format!("unknown: {error:#}"))],
    };
    let is_leveldbs = match &holds {
        Holds::LevelDbStore => true,
        Holds::MarkedStore(text) => FormatFile::decode(text).is_ok_and(|marker| marker.is_leveldbs()),
        _ => false,
    };
    let codecs = if is_leveldbs { zstd_warning(path, options) } else { None };
    let about = [describe(holds), durability(path, options)].into_iter().chain(lost(path));
    about.chain(tiers(path)).chain(codecs).collect()
}

fn describe(holds: Holds) -> Finding {
    match holds {
        Holds::Nothing => Finding::new("store", "none yet: `terrace put` or `terrace load` creates one"),
        Holds::LevelDbStore => {
            Finding::new("store", "LevelDB's format, no format file: opens in place and stays readable for LevelDB")
        }
        Holds::RocksDbStore => Finding::new("store", "a RocksDB store: cannot be opened")
            .advise("export it with RocksDB's `ldb dump --hex` and load that into a new directory"),
        Holds::Others(name) => Finding::new("store", format!("none, but other files, such as {name}"))
            .advise("choose an empty or a new directory for a store"),
        Holds::MarkedStore(text) => match FormatFile::decode(&text) {
            Ok(marker) if marker.is_leveldbs() => Finding::new(
                "store",
                "LevelDB's format, with a format file that records the durability mode: LevelDB can open it",
            ),
            Ok(marker) => Finding::new("store", format!("Terrace's, with a marker: {}", one_line(&marker.encode()))),
            Err(error) => {
                Finding::new("store", format!("Terrace's, with a marker that this version cannot follow: {error}"))
                    .advise("open it with the version that wrote it, or a newer one")
            }
        },
    }
}

/// Reports WAL files that opens set aside under `lost/`, if there are any.
fn lost(path: &Path) -> Option<Finding> {
    let names = lost::names_in(path).ok().filter(|names| !names.is_empty())?;
    let value = format!(
        "{} under lost/: {}",
        if names.len() == 1 { "1 file".into() } else { format!("{} files", names.len()) },
        names.join(", ")
    );
    Some(
        Finding::new("lost", value)
            .advise("`terrace lost` shows, restores or discards data that opens set aside from damaged WALs"),
    )
}

/// Returns the format file without its comments, on one line.
fn one_line(marker: &str) -> String {
    let lines = marker.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.collect::<Vec<_>>().join(", ")
}

fn durability(path: &Path, options: &Options) -> Finding {
    let durability_mode = match options.durability.at(path) {
        Ok(durability_mode) => durability_mode,
        Err(error) => return Finding::new("durability", format!("unknown: {error}")),
    };
    let refusal = durability_mode.refusal(path);
    let value = match (durability_mode, &refusal) {
        (DurabilityMode::Auto, None) => "auto, which is group here".to_owned(),
        (DurabilityMode::Auto, Some(why)) => format!("auto, which is background here: {why}"),
        _ => durability_mode.name().to_owned(),
    };
    let finding = match (options.durability, durability_mode) {
        (DurabilityMode::Inherit, DurabilityMode::Sync) => Finding::new("durability", "inherit, which is sync here")
            .advise(
                "this store was created with inline syncs; `--option durability=auto` batches them while it is open",
            ),
        (DurabilityMode::Inherit, _) => Finding::new("durability", format!("inherit, which is {value}")),
        _ => Finding::new("durability", value),
    };
    let unsynced = path.join(FileName::Unsynced.to_string()).exists();
    match (durability_mode, refusal) {
        (DurabilityMode::None, _) => finding.advise("promises nothing at a power cut"),
        (DurabilityMode::Group | DurabilityMode::Journal | DurabilityMode::JournalBpf, Some(why)) => {
            finding.advise(format!("not supported here: {why}; use background or auto"))
        }
        _ if unsynced => {
            finding.advise("last written with durability=none: the next open for writing syncs every SSTable first")
        }
        _ => finding,
    }
}

/// Reports, for each durability mode that not every file system supports, whether it is supported
/// here, and if not, why. The modes `sync`, `background` and `none` work everywhere.
fn tiers(path: &Path) -> [Finding; 3] {
    let tiers = [
        (DurabilityMode::Group, "tier_group"),
        (DurabilityMode::Journal, "tier_journal"),
        (DurabilityMode::JournalBpf, "tier_journal_bpf"),
    ];
    tiers.map(|(durability_mode, name)| match durability_mode.refusal(path) {
        None => Finding::new(name, "supported"),
        Some(why) => Finding::new(name, format!("not supported: {why}")),
    })
}

/// Warns if a store without a format file (a store that LevelDB may open) has Zstd blocks or will
/// get them. LevelDB 1.23 cannot read Zstd.
fn zstd_warning(path: &Path, options: &Options) -> Option<Finding> {
    let tables = fs::read_dir(path).ok()?.flatten().filter(|entry| holds_zstd(&entry.path())).count();
    let value = match (tables, options.compression) {
        (0, Codec::Zstd) => "compression=zstd is set".to_owned(),
        (0, _) => return None,
        (tables, _) => format!("{tables} tables hold zstd blocks"),
    };
    Some(Finding::new("codecs", value).advise("LevelDB 1.23 cannot read zstd blocks; only newer ones can"))
}

fn holds_zstd(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let codecs = || SortedTable::open(path)?.codecs();
    matches!(FileName::parse(&name), Some(FileName::Table(_)))
        && codecs().is_ok_and(|codecs| codecs.contains_key(&(Codec::Zstd as u8)))
}
