//! Events that a store sends to a listener: starts and ends of background work, write stalls,
//! failures.
use crate::Error;
use std::time::Duration;

/// An event of a store. An event that reports the start of work is followed by the event that
/// reports its end, unless a failure or the close of the store comes first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A flush of immutable memtables starts.
    FlushBegin {
        /// The memory of the memtables, in bytes.
        bytes: u64,
    },
    /// The SSTable of a flush is installed and serves reads. It is not durable yet.
    FlushEnd {
        /// The size of the SSTable, in bytes.
        bytes: u64,
        /// The level of the SSTable.
        level: usize,
        /// The time since the start of the flush.
        time: Duration,
    },
    /// A compaction into the next level, or within level 0, starts. It ends with
    /// [`CompactionEnd`](Event::CompactionEnd), or it fails.
    CompactionBegin {
        /// The input level of the compaction.
        level: usize,
        /// The output level of the compaction.
        output_level: usize,
        /// The number of input SSTables.
        tables: usize,
        /// The total size of the input SSTables, in bytes.
        bytes: u64,
    },
    /// The outputs of a compaction are installed and serve reads. They are not durable yet.
    CompactionEnd {
        /// The input level of the compaction.
        level: usize,
        /// The output level of the compaction.
        output_level: usize,
        /// The number of output SSTables.
        tables: usize,
        /// The number of bytes written; 0 for a trivial move.
        bytes: u64,
        /// The time since the start of the compaction.
        time: Duration,
    },
    /// An input SSTable of a compaction is corrupt or missing. The engine starts no further
    /// compaction in the key range of the failed one. Writes and other compactions continue.
    CompactionFailed {
        /// The input level of the compaction.
        level: usize,
        /// The output level of the compaction.
        output_level: usize,
        /// The error that describes the damage.
        error: Error,
    },
    /// A writer is delayed or stopped because background work is too slow. In the state "slowdown"
    /// each write is delayed by about 20 µs, and each such delay is one stall.
    StallBegin,
    /// The delayed or stopped writer continues.
    StallEnd {
        /// The time for which the writer waited.
        time: Duration,
    },
    /// A sync starts: of the WAL, or of the manifest, which then records durable SSTables.
    SyncBegin,
    /// A sync is complete. Every write up to `durable` survives a power cut. In durability mode
    /// `none` this is not guaranteed.
    SyncEnd {
        /// The durable watermark ([`durable_sequence`](crate::Db::durable_sequence)).
        durable: u64,
        /// The time since the start of the sync.
        time: Duration,
    },
    /// Recovery has found bytes in a WAL that are not part of the history: a torn tail after a
    /// power cut, or corruption. Recovery has saved a copy of the WAL in `lost/`, unless the store
    /// was opened read-only.
    Damaged {
        /// The location in the WAL of the bytes that are not part of the history, and the reason
        /// why they are not.
        damage: Damage,
    },
    /// A failure has stopped writes and background work.
    Stopped {
        /// The error of the failed operation.
        error: Error,
    },
    /// [`resume`](crate::Db::resume) has restarted writes and background work.
    Resumed,
}

/// Bytes of a WAL that are not part of the history: a torn tail, or a part that
/// [`Recovery::Salvage`](crate::Recovery) has skipped. A copy of the WAL is kept in `lost/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The name of the file.
    pub file: String,
    /// The byte offset in the file.
    pub offset: u64,
    /// The reason why the bytes are not part of the history.
    pub reason: String,
}

/// Receives the [`Event`]s of a store; see [`Options::listener`](crate::Options::listener).
///
/// The thread that does the work calls the listener, and may hold locks for which other threads
/// wait. A listener must therefore return immediately, and must not panic, block, or call the
/// store.
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
