//! What a store tells a listener while it works: beginnings and ends of what takes time, and what stops it.
use crate::Error;
use std::time::Duration;

/// Something that begins, ends or happens. Every beginning has its end, unless a failure or a close comes between.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Sealed memtables of so many bytes begin to be written as a table.
    FlushBegun {
        /// Of memory.
        bytes: u64,
    },
    /// They serve reads as a table. It is not durable yet.
    FlushEnded {
        /// Of the table.
        bytes: u64,
        /// That it has entered.
        level: usize,
        /// Since the beginning.
        time: Duration,
    },
    /// Tables begin to be merged into the next level, or within level 0. It ends, or fails.
    CompactionBegun {
        /// They come from.
        level: usize,
        /// They go to.
        output_level: usize,
        /// How many.
        tables: usize,
        /// Of all of them.
        bytes: u64,
    },
    /// Their outputs serve reads. They are not durable yet.
    CompactionEnded {
        /// They came from.
        level: usize,
        /// They went to.
        output_level: usize,
        /// How many came of them.
        tables: usize,
        /// Written; 0 where a table was moved as it is.
        bytes: u64,
        /// Since the beginning.
        time: Duration,
    },
    /// A table that was to be merged is damaged, or gone. Its keys, and those beside it, are left where they are from now on; writes and other
    /// compactions go on.
    CompactionFailed {
        /// They come from.
        level: usize,
        /// They would have gone to.
        output_level: usize,
        /// What is damaged.
        error: Error,
    },
    /// A writer is slowed, or waits, because background work is behind. While writers are slowed, that is each nap of some 20 µs.
    StallBegun,
    /// It goes on.
    StallEnded {
        /// It waited.
        time: Duration,
    },
    /// A sync of the log, or of the manifest behind tables that became durable, begins.
    SyncBegun,
    /// It is over; everything written up to `durable` survives a power cut, if anything is promised here.
    SyncEnded {
        /// A sequence, as [`durable_sequence`](crate::Db::durable_sequence) tells it.
        durable: u64,
        /// Since the beginning.
        time: Duration,
    },
    /// The open found something in a WAL that is no part of the history: a torn tail after a power cut, or damage. Where the
    /// store is opened to be written, a copy of the file is under `lost/` now.
    Damaged {
        /// Where and what.
        damage: Damage,
    },
    /// A failure has stopped writes and background work.
    Stopped {
        /// Why.
        error: Error,
    },
    /// [`resume`](crate::Db::resume) has ended that.
    Resumed,
}

/// Something in a WAL that is no part of the history: a torn tail, or what [`Recovery::Salvage`](crate::Recovery)
/// skipped. A copy of the file is kept under `lost/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub reason: String,
}

/// Hears of [`Event`]s; given to a store by [`Options::listener`](crate::Options::listener).
///
/// It is called at once by the thread that does the thing, which may hold what others wait for. So it should take note and
/// return: it must not panic, wait, or call the store.
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
/// assert!(matches!(events.recv(), Ok(Event::FlushBegun { .. })));
/// # Ok(())
/// # }
/// ```
pub trait Listener: Send + Sync {
    /// Something has happened.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Listener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}
