//! Size of a history (the batches that a crash test writes), and the settings of its store.
use crate::target::Settings;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Sizes of histories. A history is the batches that a crash test writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    /// A few MiB in few keys. The settings have small values, so that few writes exercise every
    /// part of an engine. No threads read while the history is written.
    #[default]
    Small,
    /// Tens of MiB in several levels, under load: other threads read and compact while the history
    /// is written. The engine's timers have production values.
    Large,
}

impl Size {
    /// Returns the number of keys that a history uses.
    pub fn keys(self) -> usize {
        if self == Size::Small { 120 } else { 50_000 }
    }

    /// Returns key number `at`, in key order.
    pub fn key(self, at: usize) -> Vec<u8> {
        if self == Size::Small { format!("key{at:03}") } else { format!("key{at:013}") }.into_bytes()
    }

    /// Returns the exclusive upper bound of the number of changes per batch.
    pub fn changes_below(self) -> usize {
        if self == Size::Small { 4 } else { 12 }
    }

    /// Returns the exclusive upper bound of the size of a usual value, in bytes. Nine of ten values
    /// are usual; the other values may be larger.
    pub fn usual_bytes(self) -> usize {
        if self == Size::Small { 60 } else { 400 }
    }

    /// Returns the mean number of batches between two reopenings of the store.
    pub fn reopens_every(self) -> usize {
        if self == Size::Small { 150 } else { 10_000 }
    }

    /// Returns the size of the device in bytes.
    pub fn device_bytes(self) -> u64 {
        // ext4 uses a quarter of the smaller device for its journal.
        if self == Size::Small { 96 << 20 } else { 512 << 20 }
    }

    /// Returns the minimum duration of writing a history of `batches` batches; `None` if the engine
    /// determines the minimum. A mean pause of 300 µs per batch limits the writes to a few MiB per
    /// second, so that the recorded requests of a campaign fit into memory.
    pub fn min_duration(self, batches: u64) -> Option<Duration> {
        (self == Size::Large).then(|| Duration::from_micros(250 * batches))
    }

    /// Returns the settings of the store.
    pub fn settings(self) -> Settings {
        let (memtable, table) = if self == Size::Small { (64 << 10, 64 << 10) } else { (1 << 20, 512 << 10) };
        Settings {
            write_buffer_size: memtable,
            max_file_size: table,
            level_base: 2 * memtable,
            l0_triggers: if self == Size::Small { (2, 8, 12) } else { (4, 8, 12) },
            verify_checksums: true,
            ..Settings::default()
        }
    }
}
