//! Segments of a value log: files of raw bytes that are read at any offset. A segment may be read
//! while its writer still appends.
use super::{
    Store,
    log::LogFile,
    unsettled::{Fate, Reservation, Watched},
};
use crate::{
    Error, Purpose, Result, SyncKind,
    durability::Finished,
    placement::{LogKind, ObjectId, SegmentReader, SegmentWriter},
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};
use terrace_format::{Corrupt, LogId};
use terrace_vfs::ReadFile;

/// Makes a job depend on `segment`, because tables of the job point into it. Returns the file that
/// the job's durability handle must cover, or `None` if the segment is already durable. The syncs
/// of the job are counted under `purpose`.
pub(super) fn rely_on(store: &Store, segment: ObjectId, purpose: Purpose) -> Result<Option<Finished>> {
    let name = store.name_of(segment);
    let fate = match store.unsettled.claim(segment) {
        Reservation::First { file, bytes } => {
            return Ok(Some(Finished { name: store.path(&name), file, bytes, purpose }));
        }
        Reservation::Before(fate) => fate,
    };
    if store.tracker.promises() {
        // `claim` returned no file handle, because the segment was written before the store was
        // opened or because an earlier job took the handle. The earlier job may have been abandoned
        // before its sync. In both cases this job syncs the segment itself.
        let start = Instant::now();
        fate.attempt(|| store.fs.sync_file(&name)).map_err(store.io("sync", &name))?;
        store.io_stats.blocked(SyncKind::Tables(purpose), 0, start.elapsed());
    }
    Ok(None)
}

/// Creates the WAL with the number `id` as a segment.
pub(super) fn create(store: Arc<Store>, id: LogId) -> Result<Box<dyn SegmentWriter>> {
    let object = ObjectId::Wal(id);
    let (bytes, fate) = (Arc::new(AtomicU64::new(0)), Arc::new(Fate::default()));
    let mut twin = None;
    let file = LogFile::create(store.clone(), &store.name_of(object), LogKind::Wal, |file| {
        twin = Some(file.second_handle()?);
        Ok(Box::new(Watched { file, fate: fate.clone() }))
    })?;
    store.unsettled.add(object, twin, bytes.clone(), fate);
    Ok(Box::new(Writer { file, bytes, has_ended: false }))
}

struct Writer {
    file: LogFile,
    /// Number of appended bytes, for jobs that depend on the segment.
    bytes: Arc<AtomicU64>,
    has_ended: bool,
}

impl SegmentWriter for Writer {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.has_ended {
            return Err(Error::Unsupported(format!("an append to {}, which has ended", self.file.name())));
        }
        self.file.attempt(|file| file.write(bytes))?;
        self.bytes.store(self.file.bytes(), Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn end(&mut self) {
        self.file.end();
        self.has_ended = true;
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }
}

/// Ends the segment when its writer is dropped, even if there was no final sync.
impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes `segment`, which was written before the store was opened, durable as far as possible.
/// Then drops its pages from the page cache. The second step is necessary because an earlier sync
/// may have failed: the kernel then marks pages clean although the device never received them.
/// Readers would still see these pages, but no later sync would write them.
pub(super) fn settle(store: &Store, segment: ObjectId) -> Result<()> {
    let name = store.name_of(segment);
    if store.tracker.promises() {
        let start = Instant::now();
        store.fs.sync_file(&name).map_err(store.io("sync", &name))?;
        store.io_stats.synced(SyncKind::Log, 0, start.elapsed());
    }
    store.fs.open(&name).and_then(|file| file.forget_cached()).map_err(store.io("drop cached pages of", &name))
}

/// Opens a segment for reading.
pub(super) fn open(store: &Store, segment: ObjectId) -> Result<Arc<dyn SegmentReader>> {
    let name = store.name_of(segment);
    match store.fs.open(&name) {
        Ok(file) => Ok(Arc::new(Reader { file, name: store.path(&name) })),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Error::Missing { what: "segment of the value log", object: store.path(&name) })
        }
        Err(e) => Err(store.io("open", &name)(e)),
    }
}

struct Reader {
    file: Box<dyn ReadFile>,
    name: String,
}

impl SegmentReader for Reader {
    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let short = || {
            let detail = format!("it ends before the {bytes} bytes that a table points to");
            Error::corrupt(&self.name, offset, Corrupt::new("segment", 0, detail))
        };
        // `bytes` comes from a value pointer that may be damaged, so it is checked before memory of
        // this size is allocated.
        if bytes > (1 << 20) && offset.saturating_add(bytes) > self.bytes()? {
            return Err(short());
        }
        match self.file.read_at(offset, bytes as usize) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(short()),
            read => read.map_err(|e| Error::io("read", &self.name, e)),
        }
    }

    fn expect(&self, offset: u64, bytes: u64) {
        self.file.expect(offset, bytes);
    }

    fn bytes(&self) -> Result<u64> {
        self.file.bytes().map_err(|e| Error::io("read size of", &self.name, e))
    }

    fn data_end(&self) -> Result<u64> {
        self.file.data_end().map_err(|e| Error::io("find the data of", &self.name, e))
    }
}
