//! Options: the purpose, unit, default and bounds of each option, and the text form of all
//! options.
//!
//! Every option is declared once, in `options/table.rs`. A preset is a named set of values
//! (`presets.rs`). A store records only the comparator, the layout and the feature flags, and each
//! open checks them. Any other option may have another value at each open.
mod choices;
mod declare;
mod memory;
#[cfg(test)]
mod page;
mod parallelism;
mod size;
mod table;
mod text;
mod value;

use crate::{Error, Event, Listener, Result, info_log, presets};
pub use choices::{CompactionPri, CompactionStyle, GcMode, Recovery};
use declare::Spec;
pub use size::parse_size;
use std::{fmt, sync::Arc, time::Duration};
pub use table::Options;
use table::SPECS;
use terrace_format::{
    Comparator, KeyOrder, Layout,
    filter::{Bloom, FilterPolicy},
};
use terrace_storage::StorageConfig;
pub(crate) use text::unknown;

/// An option: its declaration and its current value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OptionInfo {
    /// The name of the option's field in [`Options`], which is also the name that [`Options::set`]
    /// takes.
    pub name: &'static str,
    /// Other names that [`Options::set`] takes, from LevelDB and RocksDB.
    pub aliases: &'static [&'static str],
    /// The heading below which the options page lists the option.
    pub group: &'static str,
    /// The unit of a number, such as `bytes`; empty if there is none.
    pub unit: &'static str,
    /// The smallest and the largest value of a number.
    pub bounds: Option<(i128, i128)>,
    /// The current value, in the text form that [`Options::set`] takes.
    pub value: String,
    /// The purpose of the option in one sentence.
    pub help: String,
    /// The whole documentation of the option, in Markdown.
    pub doc: String,
}

impl OptionInfo {
    fn of(spec: &Spec, options: &Options) -> OptionInfo {
        // rustdoc removes one space at the start of each line.
        let lines: Vec<_> = spec.doc.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let help: Vec<_> = lines.iter().take_while(|line| !line.is_empty()).copied().collect();
        OptionInfo {
            name: spec.name,
            aliases: spec.aliases,
            group: spec.group,
            unit: spec.unit,
            bounds: spec.bounds.first().copied(),
            value: (spec.get)(options),
            help: help.join(" "),
            doc: lines.join("\n"),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        presets::default()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        SPECS.iter().for_each(|spec| {
            map.entry(&spec.name, &format_args!("{}", (spec.get)(self)));
        });
        map.finish()
    }
}

impl Options {
    /// Returns the name of the preset from which these options were made.
    pub fn preset_name(&self) -> &'static str {
        self.preset
    }

    pub(crate) fn named(mut self, preset: &'static str) -> Options {
        self.preset = preset;
        self
    }

    /// Orders keys by `comparator` instead of bytewise. The manifest records the name of the
    /// comparator, and an open with another comparator fails.
    ///
    /// ```
    /// # use std::{cmp::Ordering, sync::Arc};
    /// # use terrace::{Comparator, Db, Options, ReadOptions};
    /// #[derive(Debug)]
    /// struct Backward;
    /// impl Comparator for Backward {
    ///     fn name(&self) -> &str {
    ///         "backward"
    ///     }
    ///     fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
    ///         b.cmp(a)
    ///     }
    /// }
    /// let db = Db::open_in_memory(Options::default().comparator(Arc::new(Backward)))?;
    /// ["a", "b"].iter().try_for_each(|key| db.put(key, ""))?;
    /// let first = db.scan(ReadOptions::new()).next().expect("a pair")?;
    /// assert_eq!(first.0, b"b");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn comparator(mut self, comparator: Arc<dyn Comparator>) -> Options {
        self.order = KeyOrder::Custom(comparator);
        self
    }

    /// Uses `policy` to build the filters of SSTables, instead of the Bloom filter that
    /// `bloom_bits` sets. If an SSTable has a filter with the name of another policy, reads do not
    /// use that filter.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use terrace::{Bloom, Options};
    /// let options = Options::default().filter_policy(Arc::new(Bloom::new(16))); // 16 bits a key
    /// ```
    pub fn filter_policy(mut self, policy: Arc<dyn FilterPolicy>) -> Options {
        self.filter = Some(policy);
        self
    }

    /// Sends every [`Event`] to `listener`.
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Options {
        self.listener = Some(listener);
        self
    }

    /// Sends an event to the listener, if there is one, and writes it to `LOG`.
    pub(crate) fn notify(&self, event: impl FnOnce() -> Event) {
        if self.listener.is_none() && self.text_log.is_none() {
            return;
        }
        let event = event();
        if let Some(log) = &self.text_log
            && let Some(line) = info_log::line(&event)
        {
            log.append(&line);
        }
        if let Some(listener) = &self.listener {
            listener.event(&event);
        }
    }

    /// Appends a line to `LOG`.
    pub(crate) fn log(&self, line: impl FnOnce() -> String) {
        if let Some(log) = &self.text_log {
            log.append(&line());
        }
    }

    /// Returns the order of user keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Returns the layout that a new store gets. These options do not set the medium of the layout,
    /// which follows from the store's location.
    pub fn layout(&self) -> Layout {
        let Layout { medium, tables, values } = self.made_of;
        Layout { medium, tables: self.tables.unwrap_or(tables), values: self.values.unwrap_or(values) }
    }

    /// Returns the options that the storage layer needs.
    pub fn setup(&self) -> StorageConfig {
        let bloom = || {
            (self.bloom_bits > 0 && self.order.is_bytewise())
                .then(|| Arc::new(Bloom::new(self.bloom_bits as u32)) as Arc<dyn FilterPolicy>)
        };
        let resolved = self.resolved();
        StorageConfig {
            order: self.order.clone(),
            layout: self.layout(),
            block_size: self.block_size as usize,
            block_restart_interval: self.block_restart_interval as usize,
            codec: self.compression,
            zstd_level: self.zstd_level as i32,
            filter: self.filter.clone().or_else(bloom),
            filter_form: self.filter_form,
            block_cache_size: self.block_cache_bytes(),
            memory_budget: Some(resolved.memory_budget).filter(|bytes| *bytes > 0),
            max_open_files: self.max_open_files as usize,
            min_value_file_size: self.min_value_file_size,
            allow_mmap_reads: self.allow_mmap_reads && !self.paranoid_checks,
            wal_write_mode: self.wal_write_mode,
            padding: self.pad_device_writes,
            direct_io: self.direct_io,
            durability_interval: Duration::from_millis(self.durability_interval_ms),
            sync_flushes: self.sync_flushes,
            value_log_threshold: self.value_log_threshold as usize,
            wal_sidecar: self.wal_sidecar,
            value_log_segment_size: self.value_log_segment_size,
        }
    }

    /// Sets the option with the name or alias `name` from its text form. This call does not check
    /// bounds; [`validate`](Options::validate) does, and every open calls it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a bad value, and for an unknown name. The error for an unknown name
    /// contains the most similar name, or all names if no name is similar.
    ///
    /// ```
    /// # use terrace::Options;
    /// let mut options = Options::default();
    /// options.set("write_buffer_size", "8MiB")?;
    /// assert_eq!(options.write_buffer_size, 8 << 20);
    /// let error = options.set("write_buffer", "8MiB").unwrap_err();
    /// assert!(error.to_string().contains("did you mean write_buffer_size?"));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let set = text::find(name)?.set;
        set(self, value).map_err(|problem| Error::Invalid(format!("option {name}={value}: {problem}")))
    }

    /// Returns every option with its value and documentation.
    ///
    /// ```
    /// # use terrace::Options;
    /// for option in Options::default().describe() {
    ///     println!("{} = {}  # {}", option.name, option.value, option.help);
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn describe(&self) -> Vec<OptionInfo> {
        SPECS.iter().map(|spec| OptionInfo::of(spec, self)).collect()
    }

    /// Returns the size of a memtable's Bloom filter in bytes. With the smallest pairs for which a
    /// filter is useful, the filter has about 8 bits per key.
    pub(crate) fn memtable_filter_bytes(&self) -> u64 {
        if self.memtable_filter { self.write_buffer_size / 64 } else { 0 }
    }

    /// Returns the number of sorted runs in level 0 at which a compaction of level 0 becomes
    /// urgent: half way from the compaction trigger to the slowdown trigger.
    pub(crate) fn l0_pressing_runs(&self) -> u64 {
        self.level0_file_num_compaction_trigger.midpoint(self.level0_slowdown_writes_trigger)
    }

    /// Returns the target size of level 1 in bytes.
    pub(crate) fn level_1_bytes(&self) -> u64 {
        let flushed = self.level0_file_num_compaction_trigger.saturating_mul(self.write_buffer_size);
        self.max_bytes_for_level_base.max(if self.level_compaction_dynamic_level_bytes { flushed } else { 0 })
    }

    /// Returns whether compactions prefer SSTables with little overlap and align their outputs.
    pub(crate) fn min_overlapping_ratio(&self) -> bool {
        self.compaction_pri == CompactionPri::MinOverlappingRatio
    }

    /// Checks every option against its bounds, and checks that options do not contradict each
    /// other.
    ///
    /// # Errors
    /// [`Error::Invalid`] with all problems.
    ///
    /// ```
    /// # use terrace::Options;
    /// let mut options = Options::default();
    /// options.max_write_buffer_number = 1;
    /// assert!(options.validate().is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn validate(&self) -> Result<()> {
        let mut bad: Vec<String> = SPECS.iter().filter_map(|spec| (spec.check)(self)).collect();
        if self.level0_slowdown_writes_trigger < self.level0_file_num_compaction_trigger {
            bad.push("level0_slowdown_writes_trigger is below level0_file_num_compaction_trigger".into());
        }
        // A universal store may keep as many runs as the compaction trigger without a compaction
        // being due, so the slowdown trigger must be larger.
        if self.compaction_style == CompactionStyle::Universal
            && self.level0_slowdown_writes_trigger <= self.level0_file_num_compaction_trigger
        {
            bad.push("compaction_style=universal needs level0_slowdown_writes_trigger above level0_file_num_compaction_trigger".into());
        }
        if self.level0_stop_writes_trigger < self.level0_slowdown_writes_trigger {
            bad.push("level0_stop_writes_trigger is below level0_slowdown_writes_trigger".into());
        }
        if self.direct_io && !self.pad_device_writes {
            bad.push("direct_io=true needs pad_device_writes=true: direct I/O writes whole pages".into());
        }
        for (name, value, least) in [
            ("memory_budget", self.memory_budget, memory::BUDGET_MIN),
            ("write_buffer_size", self.write_buffer_size, memory::WRITE_BUFFER_MIN),
        ] {
            if (1..least).contains(&value) {
                bad.push(format!("{name} is {value}; it must be 0 or at least {least}"));
            }
        }
        if !self.compression.is_available() {
            let name = self.compression.name();
            bad.push(format!("compression={name} needs a build of Terrace with its feature `{name}`"));
        }
        if self.order.name().is_empty() {
            bad.push("the comparator has an empty name".into());
        }
        if bad.is_empty() { Ok(()) } else { Err(Error::Invalid(bad.join("; "))) }
    }
}

/// Options of one write.
///
/// ```
/// # use terrace::{Db, Options, WriteOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put_with("key", "value", WriteOptions::synced())?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether the WAL is synced before the write returns. The writes of one group commit share one
    /// sync. A synced write survives a power cut, except in durability mode `none`. A write without
    /// a sync survives the end of the process, but it survives a power cut only after a later sync.
    pub sync: bool,
    /// Whether the write skips the WAL, which saves the bytes of the WAL. Use it for bulk loads
    /// that can be repeated. The write is atomic, visible when the call returns, and ordered with
    /// all other writes.
    ///
    /// The end of the process loses such a write, and **with it every later write without `sync`**,
    /// until the memtable has become a durable SSTable. A synced write,
    /// [`Db::wait_durable`](crate::Db::wait_durable) and [`Db::close`](crate::Db::close) wait for
    /// this. So `wait_durable(db.last_sequence())` is the barrier at the end of a bulk load. A
    /// change between writes with and without WAL costs a flush.
    /// [`Db::updates_since`](crate::Db::updates_since) does not return such writes, and returns an
    /// error at their position. A write with both `sync` and `disable_wal` is refused.
    pub disable_wal: bool,
}

impl WriteOptions {
    /// Returns options for a write that is durable when it returns.
    pub fn synced() -> WriteOptions {
        WriteOptions { sync: true, ..WriteOptions::default() }
    }

    /// Returns options for a write that skips the WAL; see [`disable_wal`](Self::disable_wal).
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # use terrace::{Db, Options, WriteBatch, WriteOptions};
    /// # let db = Db::open_in_memory(Options::default())?;
    /// for chunk in 0..10u8 {
    ///     let mut batch = WriteBatch::new();
    ///     (0..100u8).for_each(|n| drop(batch.put([chunk, n], "loaded")));
    ///     db.write(batch, WriteOptions::without_wal())?;
    /// }
    /// db.wait_durable(db.last_sequence())?; // from here on nothing of it can be lost
    /// # Ok(())
    /// # }
    /// ```
    pub fn without_wal() -> WriteOptions {
        WriteOptions { disable_wal: true, ..WriteOptions::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paranoid_checks_read_no_mapping() {
        let mut options = Options::default();
        assert!(options.setup().allow_mmap_reads);
        options.paranoid_checks = true;
        assert!(!options.setup().allow_mmap_reads, "a mapped block is verified only once");
    }

    #[test]
    fn values_round_trip_through_text_and_errors_name_the_option() {
        let mut options = Options::default();
        for option in Options::default().describe() {
            options.set(option.name, &option.value).unwrap();
        }
        options.set("write_buffer_size", "64KiB").unwrap();
        assert_eq!(options.write_buffer_size, 65536);
        for (name, value) in
            [("write_buffer_size", "64XB"), ("nonsense", "1"), ("compression", "zip"), ("bloom_bits", "-1")]
        {
            let text = options.set(name, value).unwrap_err().to_string();
            assert!(text.contains(name), "{text}");
        }
        options.set("target_file_size", "1").unwrap();
        options.set("level0_stop_writes_trigger", "2").unwrap();
        let text = options.validate().unwrap_err().to_string();
        assert!(
            text.contains("target_file_size is 1") && text.contains("level0_stop_writes_trigger is below"),
            "{text}"
        );
    }
}
