//! The segments of this session that jobs may have to make durable.
use crate::placement::ObjectId;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    os::fd::BorrowedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};
use terrace_vfs::WriteFile;

/// Segments written in this session. A leaf lock; no I/O under it.
#[derive(Default)]
pub(super) struct Unsettled(Mutex<BTreeMap<ObjectId, Open>>);

/// A segment written in this session.
struct Open {
    /// A handle to make it durable, while its writer may still append. Taken by the first job that
    /// relies on it.
    file: Option<Box<dyn WriteFile>>,
    progress: Arc<Progress>,
    fate: Arc<Fate>,
}

/// The progress of the writer of a segment.
#[derive(Default)]
pub(super) struct Progress {
    pub bytes: AtomicU64,
    /// Nothing is appended any more, and the length of the file is final.
    pub ended: AtomicBool,
}

/// The first failed sync of a segment, or `None`. All handles of the segment share one open file
/// description, so the kernel reports a failed writeback only once, to whichever handle syncs
/// next. After that the contents of the file are unknown, and a successful sync through any handle
/// proves nothing. The mutex is held during each sync, so that no sync through another handle
/// succeeds while one fails.
#[derive(Default)]
pub(super) struct Fate(Mutex<Option<String>>);

impl Fate {
    /// Runs `sync` unless one has failed. Later errors are of a kind that no retry cures: a full
    /// disk can be cured, the bytes that it lost cannot.
    pub fn attempt(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.0.lock();
        if let Some(first) = &*failed {
            return Err(io::Error::other(format!("an earlier sync failed: {first}")));
        }
        sync().inspect_err(|error| *failed = Some(error.to_string()))
    }
}

/// The result of a claim on a segment.
pub(super) enum Reservation {
    /// The first claim: the file to make durable.
    First { file: Box<Watched>, bytes: u64 },
    /// No handle is left: the state of its syncs.
    Before(Arc<Fate>),
}

impl Unsettled {
    /// Adds a new segment; `file` is a second handle on it.
    pub fn add(&self, segment: ObjectId, file: Option<Box<dyn WriteFile>>, progress: Arc<Progress>, fate: Arc<Fate>) {
        self.0.lock().insert(segment, Open { file, progress, fate });
    }

    /// Claims `segment` for a job that relies on it. The first job gets the handle and the bytes
    /// so far; later jobs, and jobs that rely on a segment of an earlier session, get the state of
    /// its syncs.
    pub fn claim(&self, segment: ObjectId) -> Reservation {
        let mut open = self.0.lock();
        let Some(open) = open.get_mut(&segment) else { return Reservation::Before(Arc::default()) };
        match open.file.take() {
            Some(file) => {
                let file = Box::new(Watched { file, fate: open.fate.clone() });
                Reservation::First { file, bytes: open.progress.bytes.load(Relaxed) }
            }
            None => Reservation::Before(open.fate.clone()),
        }
    }

    /// No job will be the first to rely on `segment` any more: closes its handle.
    pub fn release(&self, segment: ObjectId) {
        let twin = self.0.lock().get_mut(&segment).and_then(|open| open.file.take());
        drop(twin); // closes a file, which is I/O
    }

    /// The progress of the writer of `segment`, if it is of this session.
    pub fn progress(&self, segment: ObjectId) -> Option<Arc<Progress>> {
        self.0.lock().get(&segment).map(|open| open.progress.clone())
    }

    /// Forgets a removed segment.
    pub fn forget(&self, segment: ObjectId) {
        let open = self.0.lock().remove(&segment);
        drop(open); // closes a file, which is I/O
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

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    fn write_back(&self) -> io::Result<()> {
        self.fate.attempt(|| self.file.write_back())
    }
}
