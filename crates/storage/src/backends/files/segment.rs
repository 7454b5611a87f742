//! Segments of a value log: files of raw bytes, read from anywhere, some of them while they grow.
use super::{Store, log::LogFile};
use crate::{
    Error, Purpose, Result, SyncKind,
    durability::Finished,
    placement::{Bytes, LogKind, ObjectId, OpenMode, SegmentReader, SegmentWriter},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    os::fd::BorrowedFd,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Instant,
};
use terrace_format::{Corrupt, LogId};
use terrace_vfs::{ReadFile, WriteFile};

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
struct Progress {
    bytes: AtomicU64,
    /// Nothing is appended any more, and the file keeps its length.
    ended: AtomicBool,
}

/// Whether a sync of the segment ever failed, and why. The kernel tells that once, to one of the handles; from then on what the file
/// holds is unknown, through whichever. Held while syncing, so that none succeeds beside one that fails.
#[derive(Default)]
struct Fate(Mutex<Option<String>>);

impl Fate {
    /// Whatever the first failure was, those behind it are of no kind that could be cured: a full disk is, what it swallowed is not.
    fn attempt(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.0.lock();
        if let Some(first) = &*failed {
            return Err(io::Error::other(format!("an earlier sync failed: {first}")));
        }
        sync().inspect_err(|error| *failed = Some(error.to_string()))
    }
}

impl Unsettled {
    /// A build for `purpose` points into `segment`: what makes its ticket cover that, if anything is left to do.
    pub fn take(&self, store: &Store, segment: ObjectId, purpose: Purpose) -> Result<Option<Finished>> {
        let name = store.name_of(segment);
        let mut fate = None;
        if let Some(open) = self.0.lock().get_mut(&segment) {
            if let Some(file) = open.file.take() {
                let (file, bytes) =
                    (Box::new(Watched { file, fate: open.fate.clone() }), open.progress.bytes.load(Relaxed));
                return Ok(Some(Finished { name: store.path(&name), file, bytes, purpose }));
            }
            fate = Some(open.fate.clone());
        }
        if store.tracker.promises() {
            // Of an earlier session, or relied on before, by a build that may have been given up.
            let start = Instant::now();
            fate.unwrap_or_default().attempt(|| store.fs.sync_file(&name)).map_err(store.io("sync", &name))?;
            store.traffic.blocked(SyncKind::Tables(purpose), 0, start.elapsed());
        }
        Ok(None)
    }

    /// Nobody will rely on `segment` for the first time any more.
    pub fn release(&self, segment: ObjectId) {
        let twin = self.0.lock().get_mut(&segment).and_then(|open| open.file.take());
        drop(twin); // which is I/O
    }

    /// What will tell that `segment` has ended, unless that was in an earlier session.
    fn progress(&self, segment: ObjectId) -> Option<Arc<Progress>> {
        self.0.lock().get(&segment).map(|open| open.progress.clone())
    }

    /// `segment` is no more.
    pub fn forget(&self, segment: ObjectId) {
        let open = self.0.lock().remove(&segment);
        drop(open); // closes a file, which is I/O
    }
}

/// A segment's file: one of its handles.
struct Watched {
    file: Box<dyn WriteFile>,
    fate: Arc<Fate>,
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

/// Starts the segment of log `id`.
pub(super) fn create(store: Arc<Store>, id: LogId) -> Result<Box<dyn SegmentWriter>> {
    let object = ObjectId::Wal(id);
    let (progress, fate) = (Arc::new(Progress::default()), Arc::new(Fate::default()));
    let mut twin = None;
    let file = LogFile::create(store.clone(), &store.name_of(object), LogKind::Wal, |file| {
        twin = Some(file.twin()?);
        Ok(Box::new(Watched { file, fate: fate.clone() }))
    })?;
    let open = Open { file: twin, progress: progress.clone(), fate };
    store.unsettled.0.lock().insert(object, open);
    Ok(Box::new(Writer { file, progress }))
}

struct Writer {
    file: LogFile,
    progress: Arc<Progress>,
}

impl SegmentWriter for Writer {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.progress.ended.load(Relaxed) {
            return Err(Error::Unsupported(format!("an append to {}, which has ended", self.file.name())));
        }
        self.file.attempt(|file| file.write(bytes))?;
        self.progress.bytes.store(self.file.bytes(), Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn end(&mut self) {
        self.file.end();
        self.progress.ended.store(true, Release);
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }
}

/// A log that is synced already is let go of without a word.
impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Saves what can be saved of `segment`, which an earlier session wrote, and has memory forget the rest: after a sync that failed
/// the kernel takes pages for clean that the device never got, shows them, and finds nothing to do at the next sync.
pub(super) fn settle(store: &Store, segment: ObjectId) -> Result<()> {
    let name = store.name_of(segment);
    if store.tracker.promises() {
        let start = Instant::now();
        store.fs.sync_file(&name).map_err(store.io("sync", &name))?;
        store.traffic.synced(SyncKind::Log, 0, start.elapsed());
    }
    store.fs.open(&name).and_then(|file| file.forget_cached()).map_err(store.io("drop cached pages of", &name))
}

/// Opens a segment.
pub(super) fn open(store: &Store, segment: ObjectId) -> Result<Arc<dyn SegmentReader>> {
    let name = store.name_of(segment);
    match store.fs.open(&name) {
        Ok(file) => {
            // Of a damaged store a page that cannot be had must be an error.
            let maps = store.setup.allow_mmap_reads && store.mode != OpenMode::Salvage;
            let progress = store.unsettled.progress(segment);
            Ok(Arc::new(Reader { file, name: store.path(&name), maps, progress, map: OnceLock::new() }))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Error::Missing { what: "segment of the value log", object: store.path(&name) })
        }
        Err(e) => Err(store.io("open", &name)(e)),
    }
}

struct Reader {
    file: Box<dyn ReadFile>,
    name: String,
    /// Whether it is to be mapped.
    maps: bool,
    /// Of the log that it may still be.
    progress: Option<Arc<Progress>>,
    /// What it is mapped to, once that was tried.
    map: OnceLock<Option<Bytes>>,
}

impl SegmentReader for Reader {
    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let short = || {
            let detail = format!("it ends before the {bytes} bytes that a table points to");
            Error::corrupt(&self.name, offset, Corrupt::new("segment", 0, detail))
        };
        // A pointer may be damaged: nothing is allocated that the file does not have.
        if bytes > (1 << 20) && offset.saturating_add(bytes) > self.bytes()? {
            return Err(short());
        }
        match self.file.read_at(offset, bytes as usize) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(short()),
            read => read.map_err(|e| Error::io("read", &self.name, e)),
        }
    }

    fn shown(&self) -> Option<&Bytes> {
        let grows = || self.progress.as_ref().is_some_and(|log| !log.ended.load(Acquire));
        if !self.maps || (self.map.get().is_none() && grows()) {
            return None;
        }
        // One that cannot be mapped can be read.
        self.map.get_or_init(|| self.file.map().ok().flatten()).as_ref()
    }

    fn expect(&self, offset: u64, bytes: u64) {
        self.file.expect(offset, bytes);
    }

    fn bytes(&self) -> Result<u64> {
        self.file.bytes().map_err(|e| Error::io("read size of", &self.name, e))
    }
}
