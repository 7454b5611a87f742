//! RocksDB as a benchmark target: the lab's interface to an engine, implemented with RocksDB's C
//! API.
use super::{Batched, build, bytes};
use crate::{
    library::LibraryInfo,
    rocksdb::{Compression, Layout, Library, OpenOptions},
};
use anyhow::bail;
use std::path::Path;
use terrace_lab::target::{Change, Engine, EngineBuild, EngineCounts, Result, Settings, Target};

/// RocksDB in one layout. A layout is a compaction style, with or without blob files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RocksDb {
    layout: Layout,
}

impl RocksDb {
    /// Returns the engine for one layout. Options that the settings of a run do not determine have
    /// RocksDB's defaults.
    pub fn new(layout: Layout) -> RocksDb {
        RocksDb { layout }
    }
}

impl Engine for RocksDb {
    fn name(&self) -> String {
        match self.layout {
            Layout::Leveled => "rocksdb".into(),
            Layout::Universal => "rocksdb:universal".into(),
            Layout::Blob => "rocksdb:blob".into(),
        }
    }

    fn build(&self) -> std::result::Result<EngineBuild, String> {
        let library = Library::load().map_err(|e| e.to_string())?;
        let mut info = LibraryInfo::of(library.file());
        let version = info.version.take().unwrap_or_else(|| "unknown: the C API does not expose it".into());
        Ok(build(version, info))
    }

    fn departures(&self, settings: &Settings) -> Vec<String> {
        let mut all = vec![
            "RocksDB runs two background jobs at once, its default".to_owned(),
            "RocksDB compactions always verify checksums".to_owned(),
        ];
        match self.layout {
            Layout::Leveled => all.push(dynamic_levels(settings)),
            Layout::Universal => {
                let base = bytes(settings.level_base);
                all.push(format!("level base {base}: not used by universal compaction"));
                all.push("level 0 triggers count sorted runs of any size".to_owned());
            }
            Layout::Blob => {
                all.push(dynamic_levels(settings));
                let (file, cache) = (bytes(256 << 20), bytes(settings.cache_size));
                all.push(format!("every value is in a blob file of {file}; compactions do the garbage collection, with RocksDB's defaults"));
                all.push(format!("cache {cache}: for blocks only, not for blobs"));
            }
        }
        all
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>> {
        let store = Library::load()?.open(dir, &options(self.layout, settings)?)?;
        Ok(Box::new(RocksDbTarget(Batched::new(store))))
    }
}

fn dynamic_levels(settings: &Settings) -> String {
    let base = bytes(settings.level_base);
    format!("level base {base}: RocksDB reduces it so that the last level is full, its default (dynamic level bytes)")
}

fn options(layout: Layout, settings: &Settings) -> Result<OpenOptions> {
    Ok(OpenOptions {
        create_if_missing: true,
        layout,
        compression: match settings.compression.as_str() {
            "none" => Compression::None,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            other => bail!("RocksDB {other}: the supported compressions are none, snappy, zstd and lz4"),
        },
        write_buffer_size: settings.write_buffer_size,
        target_file_size_base: settings.max_file_size,
        max_bytes_for_level_base: settings.level_base,
        level0_triggers: settings.l0_triggers,
        block_size: settings.block_size,
        cache_bytes: settings.cache_size,
        bloom_bits: Some(settings.bloom_bits).filter(|&bits| bits > 0),
        max_open_files: settings.max_open_files,
        verify_checksums: settings.verify_checksums,
    })
}

struct RocksDbTarget(Batched<crate::rocksdb::RocksDb>);

impl Target for RocksDbTarget {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        self.0.write(changes, sync)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.0.store.get_into(key, value)?)
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        Ok(self.0.store.scan(from, reverse, visit)?)
    }

    fn compact(&self) -> Result<()> {
        self.0.store.compact_range(None, None);
        Ok(())
    }

    fn counters(&self) -> EngineCounts {
        EngineCounts { stall: self.0.store.stalled(), ..EngineCounts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_reports_its_departures() {
        for (layout, word) in
            [(Layout::Leveled, "dynamic"), (Layout::Universal, "universal"), (Layout::Blob, "not for blobs")]
        {
            let text = RocksDb::new(layout).departures(&Settings::default()).join("\n");
            assert!(text.contains(word) && text.contains("two background jobs"), "{text}");
        }
    }

    #[test]
    fn an_unknown_compression_is_refused() {
        let settings = Settings { compression: "brotli".into(), ..Settings::default() };
        assert!(options(Layout::Leveled, &settings).unwrap_err().to_string().contains("brotli"));
    }
}
