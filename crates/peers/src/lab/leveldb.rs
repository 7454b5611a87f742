//! LevelDB as a benchmark target: the lab's interface to an engine, implemented with LevelDB's C
//! API.
use super::{Batched, build, bytes};
use crate::{
    leveldb::{Compression, Library, OpenOptions},
    library::{self, LibraryInfo},
};
use anyhow::{Context, bail};
use std::{ops::RangeInclusive, path::Path};
use terrace_lab::target::{Change, Engine, EngineBuild, Result, Settings, Target};

/// File name of the library in the directory into which `make peers` installs libraries.
const LIBRARY_FILE: &str = "libleveldb.so";

/// The size limit of level 1 in bytes, and the counts of level 0 files at which LevelDB compacts,
/// slows writes down and stops them. No option changes these values.
const LEVEL_BASE: u64 = 10 << 20;
const L0_TRIGGERS: (u32, u32, u32) = (4, 8, 12);
/// The ranges of values that LevelDB's options accept. LevelDB replaces a value outside of a range
/// by the nearest one in the range.
const WRITE_BUFFER: RangeInclusive<u64> = 64 << 10..=1 << 30;
const MAX_FILE: RangeInclusive<u64> = 1 << 20..=1 << 30;
const BLOCK: RangeInclusive<u64> = 1 << 10..=4 << 20;
const OPEN_FILES: RangeInclusive<u64> = 74..=50_000;

/// LevelDB, in one of two builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelDb {
    /// The build of `make peers`, which uses the processor's CRC-32C instruction. If that build is
    /// missing, the system's package is used.
    Optimized,
    /// The library of the system's package.
    System,
}

impl LevelDb {
    fn load(self) -> crate::Result<(Library, LibraryInfo)> {
        let own = library::directory().join(LIBRARY_FILE);
        if self == LevelDb::Optimized && own.exists() {
            return Ok((Library::load_file(&own)?, LibraryInfo::of(&own)));
        }
        let library = Library::load()?;
        let file = library::of_system("libleveldb.so").unwrap_or_else(|| LIBRARY_FILE.into());
        Ok((library, LibraryInfo::of(&file)))
    }
}

impl Engine for LevelDb {
    fn name(&self) -> String {
        match self {
            LevelDb::Optimized => "leveldb".into(),
            LevelDb::System => "leveldb:debian".into(),
        }
    }

    fn build(&self) -> std::result::Result<EngineBuild, String> {
        let (library, info) = self.load().map_err(|e| e.to_string())?;
        let (major, minor) = library.version();
        Ok(build(format!("{major}.{minor}"), info))
    }

    fn departures(&self, settings: &Settings) -> Vec<String> {
        let mut all = Vec::new();
        if settings.level_base != LEVEL_BASE {
            let requested = bytes(settings.level_base);
            all.push(format!("level base {requested}: LevelDB has {} compiled in", bytes(LEVEL_BASE)));
        }
        if settings.l0_triggers != L0_TRIGGERS {
            let (requested, fixed) = (settings.l0_triggers, L0_TRIGGERS);
            all.push(format!("level 0 triggers {requested:?}: LevelDB has {fixed:?} compiled in"));
        }
        let clipped = [
            ("write buffer", settings.write_buffer_size, WRITE_BUFFER),
            ("file size", settings.max_file_size, MAX_FILE),
            ("block size", settings.block_size, BLOCK),
            ("open files", settings.max_open_files.into(), OPEN_FILES),
        ];
        for (what, requested, range) in clipped.into_iter().filter(|(_, requested, range)| !range.contains(requested)) {
            all.push(format!("{what} {requested}: LevelDB clips it to {} ..= {}", range.start(), range.end()));
        }
        all
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>> {
        let (library, _) = self.load()?;
        let store = library.open(dir, &options(settings)?)?;
        Ok(Box::new(LevelDbTarget(Batched::new(store))))
    }
}

fn options(settings: &Settings) -> Result<OpenOptions> {
    let size = |bytes: u64| usize::try_from(bytes).context("exceeds the address space");
    Ok(OpenOptions {
        create_if_missing: true,
        error_if_exists: false,
        paranoid_checks: false,
        verify_checksums: settings.verify_checksums,
        compression: match settings.compression.as_str() {
            "none" => Compression::None,
            "snappy" => Compression::Snappy,
            other => bail!("LevelDB {other}: the supported compressions are none and snappy"),
        },
        write_buffer_size: size(settings.write_buffer_size)?,
        max_file_size: size(settings.max_file_size)?,
        block_size: size(settings.block_size)?,
        cache_bytes: size(settings.cache_size)?,
        bloom_bits: Some(settings.bloom_bits).filter(|&bits| bits > 0),
        max_open_files: settings.max_open_files,
    })
}

struct LevelDbTarget(Batched<crate::leveldb::LevelDb>);

impl Target for LevelDbTarget {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        self.0.write(changes, sync)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.0.store.get_into(key, value)?)
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut cursor = self.0.store.cursor();
        match (from, reverse) {
            (None, false) => cursor.seek_to_first()?,
            (None, true) => cursor.seek_to_last()?,
            (Some(from), false) => cursor.seek(from)?,
            (Some(from), true) => {
                cursor.seek(from)?;
                match cursor.entry() {
                    None => cursor.seek_to_last()?,
                    Some((key, _)) if key > from => cursor.step_back()?,
                    Some(_) => {}
                }
            }
        }
        Ok(cursor.visit(reverse, visit)?)
    }

    fn compact(&self) -> Result<()> {
        self.0.store.compact_range(None, None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_need_no_departure_and_other_values_are_reported() {
        assert_eq!(LevelDb::System.departures(&Settings::default()), [""; 0]);
        let settings =
            Settings { level_base: 256 << 20, l0_triggers: (4, 20, 36), max_file_size: 4 << 10, ..Settings::default() };
        let text = LevelDb::System.departures(&settings);
        assert_eq!(text.len(), 3, "{text:?}");
        assert!(text[0].contains("256 MiB") && text[0].contains("10 MiB"), "{text:?}");
    }

    #[test]
    fn an_unsupported_compression_is_refused() {
        let settings = Settings { compression: "zstd".into(), ..Settings::default() };
        assert!(options(&settings).unwrap_err().to_string().contains("zstd"));
    }
}
