//! Segments that this session writes and that builds may have to make durable.
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

/// Segments written in this session, which builds may rely on. A leaf lock; no I/O under it.
#[derive(Default)]
pub(super) struct Unsettled(Mutex<BTreeMap<ObjectId, Open>>);

/// A segment that was written in this session.
struct Open {
    /// By which it is made durable, while its writer may still have it; gone with the build that relied on it first.
    file: Option<Box<dyn WriteFile>>,
    progress: Arc<Progress>,
    fate: Arc<Fate>,
}

/// How far the log that a segment is has come.
#[derive(Default)]
pub(super) struct Progress {
    pub bytes: AtomicU64,
    /// Nothing is appended any more, and the file keeps its length.
    pub ended: AtomicBool,
}

/// Whether a sync of the segment ever failed, and why. The kernel tells that once, to one of the handles; from then on what the file
/// holds is unknown, through whichever. Held while syncing, so that none succeeds beside one that fails.
#[derive(Default)]
pub(super) struct Fate(Mutex<Option<String>>);

impl Fate {
    /// Whatever the first failure was, those behind it are of no kind that could be cured: a full disk is, what it swallowed is not.
    pub fn attempt(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.0.lock();
        if let Some(first) = &*failed {
            return Err(io::Error::other(format!("an earlier sync failed: {first}")));
        }
        sync().inspect_err(|error| *failed = Some(error.to_string()))
    }
}

/// What a build that relies on a segment gets.
pub(super) enum Claim {
    /// The file to make durable, by the first build.
    First { file: Box<Watched>, bytes: u64 },
    /// The fate of its syncs, where there is no handle any more.
    Before(Arc<Fate>),
}

impl Unsettled {
    /// `segment` was begun: `file` is a second handle on it.
    pub fn add(&self, segment: ObjectId, file: Option<Box<dyn WriteFile>>, progress: Arc<Progress>, fate: Arc<Fate>) {
        self.0.lock().insert(segment, Open { file, progress, fate });
    }

    /// The handle through which the first build that relies on `segment` makes it durable, and the bytes so far; later, and
    /// for a segment of an earlier session, what is known of its syncs.
    pub fn claim(&self, segment: ObjectId) -> Claim {
        let mut open = self.0.lock();
        let Some(open) = open.get_mut(&segment) else { return Claim::Before(Arc::default()) };
        match open.file.take() {
            Some(file) => {
                let file = Box::new(Watched { file, fate: open.fate.clone() });
                Claim::First { file, bytes: open.progress.bytes.load(Relaxed) }
            }
            None => Claim::Before(open.fate.clone()),
        }
    }

    /// Nobody will rely on `segment` for the first time any more.
    pub fn release(&self, segment: ObjectId) {
        let twin = self.0.lock().get_mut(&segment).and_then(|open| open.file.take());
        drop(twin); // which is I/O
    }

    /// What will tell that `segment` has ended, unless that was in an earlier session.
    pub fn progress(&self, segment: ObjectId) -> Option<Arc<Progress>> {
        self.0.lock().get(&segment).map(|open| open.progress.clone())
    }

    /// `segment` is no more.
    pub fn forget(&self, segment: ObjectId) {
        let open = self.0.lock().remove(&segment);
        drop(open); // closes a file, which is I/O
    }
}

/// A segment's file: one of its handles.
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
