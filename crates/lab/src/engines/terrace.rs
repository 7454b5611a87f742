//! Terrace as an engine of the lab. The preset determines the design of the store, and the
//! settings of the run determine all sizes.
use crate::target::{
    Change, Engine, EngineBuild, EngineCounts, Result, Settings, StoreMedium, SyncCount, Target, Watermarks,
    bare_device_link, remove_store,
};
use anyhow::{Context, ensure};
use std::{
    fs,
    hash::{BuildHasher, RandomState},
    os::unix::fs::symlink,
    path::Path,
    sync::Arc,
    time::Duration,
};
use terrace::{
    Codec, Db, DurabilityMode, FilterForm, Options, ReadOptions, Syncs, Values, WalWriteMode, WriteBatch, WriteOptions,
};
use terrace_device::{Deaf, File};
use terrace_sim::LyingTracker;
use terrace_storage::{
    backends::{
        files::real::RealFs,
        raw::{self, Sizes},
    },
    open_files,
    placement::OpenMode,
};

/// Formats the device `bare` without discarding its contents. If the whole device were discarded,
/// a used drive would be as fast as a new one.
fn format(bare: &Path, sizes: Sizes) -> Result<()> {
    let device = Deaf::new(Arc::new(File::open(bare)?));
    raw::format(&device, sizes, RandomState::new().hash_one(bare))?;
    Ok(())
}

/// Terrace with one preset, and with further options if the user requested them.
#[derive(Debug)]
pub struct Terrace {
    name: String,
    base: Options,
    /// Options that the user requested in addition to the preset and the settings of the run, as
    /// `(name, value)`.
    own: Vec<(String, String)>,
    claims_early_durability: bool,
}

impl Terrace {
    /// Creates the engine for `preset`, or for the default preset. The form `preset+option=value+…`
    /// adds options by name. These options override the settings of the run. For an unknown name,
    /// the error lists the presets or the options.
    pub fn new(preset: Option<&str>) -> Result<Terrace> {
        let mut words = preset.unwrap_or_default().split('+');
        let mut base = match words.next() {
            None | Some("") => Options::default(),
            Some(preset) => Options::preset(preset)?,
        };
        let (mut name, mut own) = (format!("terrace:{}", base.preset_name()), Vec::new());
        for word in words {
            let (option, value) = word.split_once('=').with_context(|| format!("{word:?} is not OPTION=VALUE"))?;
            base.set(option, value)?;
            name = format!("{name}+{word}");
            own.push((option.to_string(), value.to_string()));
        }
        Ok(Terrace { name, base, own, claims_early_durability: false })
    }

    /// Returns the options of the preset and the additional options, before the settings of a run
    /// are applied.
    pub fn base(&self) -> &Options {
        &self.base
    }

    /// Returns whether the preset limits its levels by the number of entries. In such a design,
    /// this limit, the limits of level 0 and the number of memtables depend on each other. The
    /// settings of a run therefore do not change the limits of level 0 and the number of memtables.
    fn counts_entries(&self) -> bool {
        self.base.max_entries_for_level_base > 0
    }

    /// Returns the options for a store: the preset's options with the sizes of `settings`, and then
    /// the additional options.
    fn options(&self, settings: &Settings) -> Result<Options> {
        let mut options = self.base.clone();
        options.write_buffer_size = settings.write_buffer_size;
        options.target_file_size = settings.max_file_size;
        // The segment size of the value log is proportional to the size of the memtable, so that
        // segments shrink when all other sizes shrink.
        let usual = self.base.resolved().write_buffer_size;
        let value_log_segment_size = self.base.value_log_segment_size / usual.max(1) * settings.write_buffer_size;
        options.value_log_segment_size =
            value_log_segment_size.clamp(64 << 10, self.base.value_log_segment_size.max(64 << 10));
        options.block_size = settings.block_size;
        options.block_cache_size = settings.cache_size.max(1); // 0 would mean: by the memory budget
        options.bloom_bits = settings.bloom_bits.into();
        let known = "the supported compressions are none, snappy, zstd and lz4";
        options.compression =
            Codec::from_name(&settings.compression).with_context(|| format!("{}: {known}", settings.compression))?;
        options.max_bytes_for_level_base = settings.level_base;
        // The preset may limit a level by its number of entries. This limit shrinks in proportion
        // to the limit in bytes.
        let usual = Settings::default().level_base;
        let entries = u128::from(self.base.max_entries_for_level_base) * u128::from(settings.level_base.min(usual));
        // The cast loses nothing, because the result is at most the limit of the preset.
        options.max_entries_for_level_base = entries.div_ceil(u128::from(usual)) as u64;
        if !self.counts_entries() {
            options.max_write_buffer_number = 2;
            let (compact, slow, stop) = settings.l0_triggers;
            (
                options.level0_file_num_compaction_trigger,
                options.level0_slowdown_writes_trigger,
                options.level0_stop_writes_trigger,
            ) = (compact.into(), slow.into(), stop.into());
        }
        // LevelDB reserves ten file descriptors of its limit for files that are not SSTables.
        options.max_open_files = u64::from(settings.max_open_files).saturating_sub(10).max(16);
        self.own.iter().try_for_each(|(option, value)| options.set(option, value))?;
        options.validate()?;
        Ok(options)
    }
}

impl Engine for Terrace {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn build(&self) -> std::result::Result<EngineBuild, String> {
        Ok(EngineBuild {
            version: env!("CARGO_PKG_VERSION").into(),
            source: "this repository".into(),
            hardware_crc: Some(hardware_crc()),
            assertions: Some(cfg!(debug_assertions)),
        })
    }

    fn departures(&self, _: &Settings) -> Vec<String> {
        let mut all = vec!["compactions always verify checksums".to_string()];
        if self.base.durability == terrace::DurabilityMode::None {
            all.push("syncs nothing, so a power cut may lose all writes".into());
        } else if self.base.durability != terrace::DurabilityMode::Sync {
            all.push("SSTables become durable in batches in the background; obsolete files are kept until then".into());
        }
        let Options { max_background_compactions, max_subcompactions, intra_l0_compaction_trigger, .. } =
            self.base.resolved();
        if max_background_compactions > 1 || max_subcompactions > 1 {
            all.push(format!(
                "runs up to {max_background_compactions} compactions at once, {max_subcompactions} threads each"
            ));
        }
        if intra_l0_compaction_trigger > 0 {
            all.push(format!("compacts {intra_l0_compaction_trigger} runs within level 0 while level 1 is busy"));
        }
        if self.counts_entries() {
            let Options {
                max_write_buffer_number,
                max_entries_for_level_base,
                level0_file_num_compaction_trigger,
                level0_stop_writes_trigger,
                ..
            } = self.base;
            all.push(format!(
                "up to {max_write_buffer_number} memtables; level 0 holds {max_entries_for_level_base} entries (fewer where the level base is smaller) or {level0_file_num_compaction_trigger} runs, writers stop at {level0_stop_writes_trigger}; each level below holds ten times as many"
            ));
        }
        if self.base.level_compaction_dynamic_level_bytes {
            all.push("level 1 may hold a full level 0 if that is more than the level base; level sizes follow from the last level, each level above has a tenth".into());
        }
        if self.base.filter_form == FilterForm::Table {
            all.push("has one filter per SSTable, not one per 2 KiB".into());
        }
        if self.base.wal_write_mode == WalWriteMode::Map {
            all.push("writes its WAL through a memory mapping".into());
        }
        if self.base.allow_mmap_reads {
            all.push("reads SSTables through memory mappings".into());
        }
        all.extend(self.own.iter().map(|(option, value)| format!("{option} is {value} instead of the common setting")));
        all
    }

    fn below(&self) -> StoreMedium {
        match (self.base.split, self.base.device) {
            (true, _) => StoreMedium::Both,
            (false, true) => StoreMedium::Device,
            (false, false) => StoreMedium::FileSystem,
        }
    }

    /// Clears `dir` and formats the device. If only the SSTables are on the device, a slot (the
    /// allocation unit) is 1/32 larger than an SSTable. If the whole store is on the device, a slot
    /// is 1/32 of that size. 64 such slots form a unit that is erased together, and a unit has room
    /// for two SSTables.
    fn clear(&self, dir: &Path, settings: &Settings) -> Result<()> {
        let below = self.below();
        if below == StoreMedium::FileSystem {
            remove_store(dir)?;
            return fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()));
        }
        let bare = bare_device_link(dir, &self.name)?;
        if below == StoreMedium::Both || dir.canonicalize().ok() == bare.canonicalize().ok() {
            // On a drive with discards, this call discards the data of the previous store. An error
            // is ignored, because that store may be corrupted.
            let _ = Db::destroy(dir);
        }
        remove_store(dir)?;
        let table = self.options(settings)?.target_file_size;
        // The cast loses nothing: the result is at most 1 GiB and 1/32, which fits into 32 bits.
        let slot_bytes = (table + table / 32).next_multiple_of(4096) as u32;
        let whole = Sizes { slot_bytes: (slot_bytes / 32).next_multiple_of(4096), unit_slots: 64 };
        let sizes = if below == StoreMedium::Both { Sizes { slot_bytes, unit_slots: 1 } } else { whole };
        format(&bare, sizes).with_context(|| format!("format {}", bare.display()))?;
        match below {
            StoreMedium::Both => Ok(raw::split::join(dir, &bare)?),
            _ => symlink(bare.canonicalize()?, dir).with_context(|| format!("link {}", dir.display())),
        }
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>> {
        let read = ReadOptions::new().verify_checksums(settings.verify_checksums);
        let options = self.options(settings)?;
        let promises = options.durability != DurabilityMode::None;
        let wal_is_value_log = options.setup().layout.values == Values::Log;
        let db = if self.claims_early_durability {
            let fs = Arc::new(RealFs::new(dir));
            Db::open_on(open_files(fs, OpenMode::Create, Arc::new(LyingTracker), &options.setup())?, options)?
        } else {
            Db::open(dir, options)?
        };
        Ok(Box::new(TerraceTarget { db, promises, wal_is_value_log, read }))
    }

    fn shorten_timers(&mut self) -> Duration {
        // Small segments are filled by little data, so even a short history contains several
        // segments that need GC.
        self.base.value_log_segment_size = 64 << 10;
        self.base.value_log_gc_percent = 5;
        // With a short interval, several batch syncs run per history. Between two batch syncs,
        // compactions replace SSTables that are not synced yet. The crash tests need this case.
        self.base.durability_interval_ms = 100;
        self.base.idle_durability_ms = 20;
        match self.base.durability {
            DurabilityMode::Sync | DurabilityMode::None => Duration::ZERO,
            DurabilityMode::Group | DurabilityMode::Background | DurabilityMode::Auto | DurabilityMode::Inherit => {
                Duration::from_secs(1)
            }
            // In the `journal` modes a file becomes durable with a journal commit, and ext4 commits
            // its journal at most once a second.
            DurabilityMode::Journal | DurabilityMode::JournalBpf => Duration::from_secs(8),
        }
    }

    fn check(&self, dir: &Path) -> Result<()> {
        let report = terrace::check(dir, &self.options(&Settings::default())?, true)?;
        ensure!(report.problems.is_empty(), "{}", report.problems.join("; "));
        Ok(())
    }

    fn claim_early_durability(&mut self) -> Result<()> {
        self.claims_early_durability = true;
        Ok(())
    }
}

/// Returns whether the checksums of this build use the processor's CRC instruction on this
/// machine. The CRC library detects the instruction in the same way.
fn hardware_crc() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sse4.2");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("crc");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

struct TerraceTarget {
    db: Db,
    /// Whether the store's durability mode promises any durability after a power cut.
    promises: bool,
    /// Whether the WAL serves as the value log.
    wal_is_value_log: bool,
    read: ReadOptions,
}

impl TerraceTarget {
    /// Returns the name that the ledger uses for a purpose of writes or for a kind of sync. `own`
    /// is the engine's name for it. If the WAL is also the value log, the ledger's name for the WAL
    /// is `value_log`.
    fn word(&self, own: &'static str) -> String {
        let word = match own {
            "collection" => "gc",
            "wal" | "log" if self.wal_is_value_log => "value_log",
            other => other,
        };
        word.into()
    }
}

impl Target for TerraceTarget {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        let mut batch = WriteBatch::new();
        for change in changes {
            match change {
                Change::Put(key, value) => batch.put(key, value),
                Change::Delete(key) => batch.delete(key),
            };
        }
        self.db.write(batch, WriteOptions { sync, ..WriteOptions::default() })?;
        Ok(())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.db.get_with(key, &self.read)?;
        value.clear();
        Ok(found.map(|found| *value = found).is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(self.db.multi_get_with(keys, &self.read).into_iter().collect::<terrace::Result<_>>()?)
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut cursor = self.db.cursor(self.read.clone());
        match (from, reverse) {
            (Some(key), false) => cursor.seek(key)?,
            (Some(key), true) => cursor.seek_for_prev(key)?,
            (None, false) => cursor.seek_to_first()?,
            (None, true) => cursor.seek_to_last()?,
        }
        while cursor.valid() && visit(cursor.key(), cursor.value()) {
            if reverse { cursor.prev()? } else { cursor.next()? }
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(self.db.compact_range(None, None)?)
    }

    fn watermarks(&self) -> Option<Watermarks> {
        self.promises.then(|| Watermarks { written: self.db.last_sequence(), durable: self.db.durable_sequence() })
    }

    fn wait_durable(&self) -> Result<()> {
        Ok(self.db.wait_durable(self.db.last_sequence())?)
    }

    fn counters(&self) -> EngineCounts {
        let statistics = self.db.statistics();
        let bytes = statistics.bytes_written.iter().map(|(purpose, bytes)| (self.word(purpose), *bytes));
        let by_level =
            statistics.levels.iter().enumerate().map(|(number, level)| (number.to_string(), level.compacted_bytes));
        let counted = |(name, syncs): &(&'static str, Syncs)| {
            let Syncs { count, blocking, bytes, time } = *syncs;
            (self.word(name), SyncCount { count, blocking, bytes: Some(bytes), seconds: time.as_secs_f64() })
        };
        EngineCounts {
            bytes_by_purpose: Some(bytes.collect()),
            compaction_by_level: Some(by_level.collect()),
            syncs: Some(statistics.syncs.iter().map(counted).collect()),
            table_syncs: Some(statistics.table_syncs.iter().map(counted).collect()),
            flushes: Some(statistics.flushes.count),
            free_bytes: statistics.free_bytes,
            stall: Some(statistics.stall_time),
        }
    }

    fn pending(&self) -> u64 {
        self.db.statistics().pending_edits
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_options_override_the_settings_and_are_reported() {
        let engine = Terrace::new(Some("default+allow_mmap_reads=true+target_file_size=1MiB")).unwrap();
        assert_eq!(engine.name(), "terrace:default+allow_mmap_reads=true+target_file_size=1MiB");
        let settings = Settings { max_file_size: 8 << 20, write_buffer_size: 3 << 20, ..Settings::default() };
        let options = engine.options(&settings).unwrap();
        assert_eq!(
            (options.allow_mmap_reads, options.target_file_size, options.write_buffer_size),
            (true, 1 << 20, 3 << 20)
        );
        assert!(engine.departures(&settings).iter().any(|text| text.contains("target_file_size is 1MiB")));
    }

    #[test]
    fn levels_by_entries_shrink_with_levels_by_bytes() {
        let entries = |preset: &str, level_base: u64| {
            let settings = Settings { level_base, ..Settings::default() };
            Terrace::new(Some(preset)).unwrap().options(&settings).unwrap().max_entries_for_level_base
        };
        let shrunk = [100 << 20, 10 << 20, 1 << 20, 64 << 10].map(|level_base| entries("delsm", level_base));
        assert_eq!(shrunk, [10_000, 10_000, 1000, 63]);
        assert_eq!(entries("leveldb", 1 << 20), 0);
    }

    /// Tests that a run keeps a preset's limits for memtables and level 0 files if the preset
    /// limits its levels by entries. The paper on DeLSM attributes the speed of its fills to
    /// several immutable memtables and a wide level 0.
    #[test]
    fn numbers_of_entry_limited_levels_are_kept() {
        let numbers = |preset: &str| {
            let engine = Terrace::new(Some(preset)).unwrap();
            let text = engine.departures(&Settings::default()).concat().contains("up to 8 memtables");
            let Options {
                max_write_buffer_number,
                level0_file_num_compaction_trigger,
                level0_slowdown_writes_trigger,
                level0_stop_writes_trigger,
                ..
            } = engine.options(&Settings::default()).unwrap();
            (
                max_write_buffer_number,
                (level0_file_num_compaction_trigger, level0_slowdown_writes_trigger, level0_stop_writes_trigger),
                text,
            )
        };
        assert_eq!(numbers("delsm"), (8, (32, 64, 96), true));
        assert_eq!(numbers("default"), (2, (4, 8, 12), false));
    }
}
