//! The value-log segments that were written since the store was opened and may not be durable yet.
//! If tables of a job point into such a segment, the job may have to make the segment durable.
use crate::placement::ObjectId;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use terrace_vfs::{Descriptor, WriteFile};

/// The list of the segments that may not be durable yet. A thread that holds this lock takes no
/// other lock and does no I/O.
#[derive(Default)]
pub(super) struct Unsettled(Mutex<BTreeMap<ObjectId, Open>>);

/// A segment written since the store was opened.
struct Open {
    /// A second handle on the segment's file. It can make the file durable while the segment's
    /// writer still appends. The first job that depends on the segment takes this handle.
    file: Option<Box<dyn WriteFile>>,
    /// Number of bytes that the segment's writer has appended.
    bytes: Arc<AtomicU64>,
    fate: Arc<Fate>,
}

/// The error of the first failed sync of a segment, or `None`. All handles of the segment share
/// one open file description, so the kernel reports a failed writeback only once, to whichever
/// handle syncs next. After the failure the contents of the file are unknown, and a successful
/// sync through any handle proves nothing. A thread keeps the mutex locked during each sync, so
/// that no sync through another handle succeeds while one fails.
#[derive(Default)]
pub(super) struct Fate(Mutex<Option<String>>);

impl Fate {
    /// Runs `sync` unless an earlier sync of the segment has failed. After a failed sync it returns
    /// an error of a kind that is not retried: a retry after a full disk would find free space, but
    /// not the bytes that the failed sync lost.
    pub fn attempt(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.0.lock();
        if let Some(first) = &*failed {
            return Err(io::Error::other(format!("an earlier sync failed: {first}")));
        }
        sync().inspect_err(|error| *failed = Some(error.to_string()))
    }
}

/// The result of [`Unsettled::claim`], by which a job claims a segment in order to make it
/// durable.
pub(super) enum Reservation {
    /// This job is the first one that claims the segment. The job gets the handle with which it
    /// makes the file durable, and the number of bytes that the file had at the claim.
    First { file: Box<Watched>, bytes: u64 },
    /// No handle is left: either an earlier job took it, or the segment was written before the
    /// store was opened. `Fate` is the state of the segment's syncs.
    Before(Arc<Fate>),
}

impl Unsettled {
    /// Adds a new segment. `file` is a second handle on the segment's file.
    pub fn add(&self, segment: ObjectId, file: Option<Box<dyn WriteFile>>, bytes: Arc<AtomicU64>, fate: Arc<Fate>) {
        self.0.lock().insert(segment, Open { file, bytes, fate });
    }

    /// Claims `segment` for a job whose tables point into it. If the segment was written since the
    /// open and this is its first claim, returns the second handle on the segment's file and the
    /// number of bytes so far. In all other cases returns the state of the segment's syncs.
    pub fn claim(&self, segment: ObjectId) -> Reservation {
        let mut open = self.0.lock();
        let Some(open) = open.get_mut(&segment) else { return Reservation::Before(Arc::default()) };
        match open.file.take() {
            Some(file) => {
                let file = Box::new(Watched { file, fate: open.fate.clone() });
                Reservation::First { file, bytes: open.bytes.load(Relaxed) }
            }
            None => Reservation::Before(open.fate.clone()),
        }
    }

    /// Closes the second handle on `segment`. Called when it is certain that no job will claim the
    /// segment for the first time.
    pub fn release(&self, segment: ObjectId) {
        let twin = self.0.lock().get_mut(&segment).and_then(|open| open.file.take());
        drop(twin); // closes the file, which is I/O
    }

    /// Removes a deleted segment from the list.
    pub fn forget(&self, segment: ObjectId) {
        let open = self.0.lock().remove(&segment);
        drop(open); // closes the file, which is I/O
    }
}

/// One of the handles on the file of a segment.
pub(super) struct Watched {
    pub file: Box<dyn WriteFile>,
    pub fate: Arc<Fate>,
}

impl WriteFile for Watched {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.fate.attempt(|| self.file.sync())
    }

    fn end(&mut self) {
        self.file.end();
    }

    fn descriptor(&self) -> Option<Descriptor<'_>> {
        self.file.descriptor()
    }

    fn write_back(&self) -> io::Result<()> {
        self.fate.attempt(|| self.file.write_back())
    }
}
