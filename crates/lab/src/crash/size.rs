//! How much a history writes, and into a store with which numbers.
use crate::target::Settings;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    /// A few MiB under few keys, and small numbers, so that few writes go through every part of an engine. Nobody reads meanwhile.
    #[default]
    Small,
    /// Tens of MiB in several levels, under load: others read meanwhile, and compact. Timers run as they do for users.
    Large,
}

impl Size {
    /// How many keys there are.
    pub fn keys(self) -> usize {
        if self == Size::Small { 120 } else { 50_000 }
    }

    /// Key number `at`, in order.
    pub fn key(self, at: usize) -> Vec<u8> {
        if self == Size::Small { format!("key{at:03}") } else { format!("key{at:013}") }.into_bytes()
    }

    /// A batch changes fewer.
    pub fn changes_below(self) -> usize {
        if self == Size::Small { 4 } else { 12 }
    }

    /// Nine values in ten are shorter.
    pub fn usual_bytes(self) -> usize {
        if self == Size::Small { 60 } else { 400 }
    }

    /// A store is closed and opened once in so many batches.
    pub fn reopens_every(self) -> usize {
        if self == Size::Small { 150 } else { 10_000 }
    }

    /// Of the device below.
    pub fn device_bytes(self) -> u64 {
        // ext4 makes its journal of a quarter of the smaller one.
        if self == Size::Small { 96 << 20 } else { 512 << 20 }
    }

    /// How long so many batches last, unless the engine says it: with 300 µs at rest after each, on average, some MiB are written in a
    /// second, and the record of a machine's life fits into memory.
    pub fn lasts(self, batches: u64) -> Option<Duration> {
        (self == Size::Large).then(|| Duration::from_micros(250 * batches))
    }

    /// The numbers of the store.
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
