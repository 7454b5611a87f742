//! Events that a store sends to a listener: starts and ends of background work, stalls, failures.
use crate::Error;
use std::time::Duration;

/// An event of a store. A start is followed by its end, unless a failure or a close comes between.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A flush of immutable memtables starts.
    FlushBegin {
        /// Memory of the memtables in bytes.
        bytes: u64,
    },
    /// The SSTable of a flush is installed and serves reads. It is not durable yet.
    FlushEnd {
        /// Size of the SSTable in bytes.
        bytes: u64,
        /// Its level.
        level: usize,
        /// Time since the start.
        time: Duration,
    },
    /// A compaction into the next level, or within level 0, starts. It ends or fails.
    CompactionBegin {
        /// The input level.
        level: usize,
        /// The output level.
        output_level: usize,
        /// Number of input SSTables.
        tables: usize,
        /// Their size in bytes.
        bytes: u64,
    },
    /// The outputs of a compaction are installed and serve reads. They are not durable yet.
    CompactionEnd {
        /// The input level.
        level: usize,
        /// The output level.
        output_level: usize,
        /// Number of output SSTables.
        tables: usize,
        /// Bytes written; 0 for a trivial move.
        bytes: u64,
        /// Time since the start.
        time: Duration,
    },
    /// An input SSTable of a compaction is corrupt or missing. Compactions leave its key range
    /// alone from now on; writes and other compactions continue.
    CompactionFailed {
        /// The input level.
        level: usize,
        /// The output level.
        output_level: usize,
        /// The damage.
        error: Error,
    },
    /// A writer is delayed or stopped because background work has fallen behind. While writes are
    /// delayed, each delay of about 20 µs is one stall.
    StallBegin,
    /// The writer continues.
    StallEnd {
        /// Time that it waited.
        time: Duration,
    },
    /// A sync of the WAL starts, or a sync of the manifest after SSTables became durable.
    SyncBegin,
    /// A sync is complete. Every write up to `durable` survives a power cut, unless the durability
    /// mode promises nothing.
    SyncEnd {
        /// The [`durable_sequence`](crate::Db::durable_sequence).
        durable: u64,
        /// Time since the start.
        time: Duration,
    },
    /// Recovery found bytes in a WAL that are no part of the history: a torn tail after a power
    /// cut, or corruption. Unless the store was opened read-only, a copy of the file is kept in
    /// `lost/`.
    Damaged {
        /// Location and reason.
        damage: Damage,
    },
    /// A failure has stopped writes and background work.
    Stopped {
        /// The failure.
        error: Error,
    },
    /// [`resume`](crate::Db::resume) has restarted writes and background work.
    Resumed,
}

/// Bytes of a WAL that are no part of the history: a torn tail, or a part that
/// [`Recovery::Salvage`](crate::Recovery) skipped. A copy of the file is kept in `lost/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Byte offset in the file.
    pub offset: u64,
    /// The mismatch.
    pub reason: String,
}

/// Receives the [`Event`]s of a store; see [`Options::listener`](crate::Options::listener).
///
/// The thread that does the work calls the listener, and may hold locks that other threads wait
/// for. A listener must therefore return at once, and must not panic, block, or call the store.
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// use std::sync::{Arc, mpsc};
/// use terrace::{Db, Event, Options};
/// let (sender, events) = mpsc::channel();
/// let options = Options::default().listener(Arc::new(move |event: &Event| drop(sender.send(event.clone()))));
/// let db = Db::open_in_memory(options)?;
/// db.put("k", "v")?;
/// db.flush()?;
/// assert!(matches!(events.recv(), Ok(Event::FlushBegin { .. })));
/// # Ok(())
/// # }
/// ```
pub trait Listener: Send + Sync {
    /// Receives an event.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Listener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}
