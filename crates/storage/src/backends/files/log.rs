//! The WAL and the manifest. Each of them is one file in LevelDB's record format. `append` passes
//! each record to the operating system before it returns.
use super::{Input, Store};
use crate::{
    Error, Purpose, Result, SyncKind,
    durability::sync_directory,
    placement::{LogEvent, LogKind, LogReader, LogWriter},
};
use parking_lot::Mutex;
use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};
use terrace_format::{
    SeqNo, batch,
    log_record::{BLOCK_BYTES, Framer, OURS_HEAD_BYTES, RecordDecoder, is_ours},
};
use terrace_vfs::{FileUse, WalWriteMode, WriteFile};

/// Creates the log `name` with the first record `first`.
pub(super) fn create(store: Arc<Store>, name: &str, kind: LogKind, first: &[u8]) -> Result<Box<dyn LogWriter>> {
    let mut writer = Writer { file: LogFile::create(store, name, kind, Ok)?, framer: Framer::new(), mark: None };
    let Writer { file, framer, .. } = &mut writer;
    framer.frame_ours(first, |piece| file.write(piece))?;
    Ok(Box::new(writer))
}

/// The file of a log or of a segment, whatever the format of its records.
pub(super) struct LogFile {
    store: Arc<Store>,
    file: Box<dyn WriteFile>,
    name: String,
    kind: LogKind,
    bytes: u64,
    /// The size of the file in bytes at the last sync.
    synced_bytes: AtomicU64,
    /// Whether the directory entry is durable. The first sync of the file also syncs the directory.
    named: AtomicBool,
    /// The error of the first failed append or sync. After a failure the contents of the file are
    /// unknown, so nothing more is written and no sync succeeds.
    broken: OnceLock<Error>,
    /// Locked during a sync. If several threads synced the file at the same time, the kernel would
    /// report a failure to only one of them.
    syncing: Mutex<()>,
}

impl LogFile {
    /// Creates the file `name`. The function `around` may wrap the new file.
    pub fn create(
        store: Arc<Store>,
        name: &str,
        kind: LogKind,
        around: impl FnOnce(Box<dyn WriteFile>) -> io::Result<Box<dyn WriteFile>>,
    ) -> Result<LogFile> {
        store.writable("create log")?;
        let how = match kind {
            LogKind::Wal => store.setup.wal_write_mode,
            LogKind::Manifest => WalWriteMode::Write,
        };
        Ok(LogFile {
            file: store.fs.create_for(name, FileUse::Log(how)).and_then(around).map_err(store.io("create", name))?,
            name: store.path(name),
            kind,
            bytes: 0,
            synced_bytes: AtomicU64::new(0),
            named: AtomicBool::new(false),
            broken: OnceLock::new(),
            syncing: Mutex::new(()),
            store,
        })
    }

    /// Returns whether a successful sync guarantees that the bytes survive a power cut.
    pub fn promises(&self) -> bool {
        self.store.tracker.promises()
    }

    /// Returns whether a sync has covered all appended bytes.
    fn is_synced(&self) -> bool {
        self.synced_bytes.load(Relaxed) == self.bytes
    }

    /// Counts all bytes appended so far as synced. The log calls this function after it has
    /// appended a durable mark, because the mark itself needs no sync.
    fn count_as_synced(&mut self) {
        *self.synced_bytes.get_mut() = self.bytes;
    }

    /// Returns the path, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the present size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a part of a record. Returns an error if an earlier call has failed.
    #[inline]
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.file.append(piece).map_err(|e| Error::io("append to", &self.name, e))?;
        self.bytes += piece.len() as u64;
        let purpose = match self.kind {
            LogKind::Wal => Purpose::Wal,
            LogKind::Manifest => Purpose::Manifest,
        };
        self.store.io_stats.wrote(purpose, piece.len() as u64);
        Ok(())
    }

    /// Runs `work`, which writes to the file, unless an earlier call has failed. A failure is
    /// permanent.
    #[inline]
    pub fn attempt(&mut self, work: impl FnOnce(&mut LogFile) -> Result<()>) -> Result<()> {
        self.check()?;
        let outcome = work(self);
        self.remember(outcome)
    }

    /// Ends the file: its writer appends nothing afterwards.
    pub fn end(&mut self) {
        self.file.end();
    }

    /// Makes all appended bytes durable. Does nothing if nothing was appended since the last sync.
    pub fn sync(&self) -> Result<()> {
        let _alone = self.syncing.lock();
        self.check()?;
        let nothing_new = self.named.load(Relaxed) && self.is_synced();
        let outcome = match self.store.tracker.promises() {
            _ if nothing_new => return Ok(()),
            true => self.sync_all().and_then(|()| self.store.check_lock()),
            // The durability mode `none` syncs nothing, because nothing is guaranteed to survive a
            // power cut. But after a sync of the manifest the caller removes obsolete files, so
            // this process must still hold the lock of the store.
            false if self.kind == LogKind::Manifest => self.store.check_lock(),
            false => return Ok(()),
        };
        self.remember(outcome)
    }

    /// Stores a failure, so that later calls return it.
    #[inline]
    fn remember<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            let _ = self.broken.set(error.clone()); // the first failure is kept
        }
        outcome
    }

    fn check(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn sync_all(&self) -> Result<()> {
        let kind = match self.kind {
            LogKind::Manifest => SyncKind::Manifest,
            LogKind::Wal => SyncKind::Log,
        };
        let start = Instant::now();
        self.file.sync().map_err(|e| Error::io("sync", &self.name, e))?;
        let new_bytes = self.bytes - self.synced_bytes.swap(self.bytes, Relaxed);
        self.store.io_stats.synced(kind, new_bytes, start.elapsed());
        if !self.named.load(Relaxed) {
            sync_directory(&*self.store.fs, &self.store.io_stats)?;
            self.named.store(true, Relaxed);
        }
        Ok(())
    }
}

struct Writer {
    file: LogFile,
    framer: Framer,
    /// The sequence number of a durable mark (a record which states that earlier writes were
    /// synced) that the next append will write. Only a log with `direct_io` delays its marks in
    /// this way.
    mark: Option<SeqNo>,
}

impl Writer {
    fn frame(&mut self, record: &[u8]) -> Result<()> {
        let Writer { file, framer, .. } = self;
        file.attempt(|file| framer.frame(record, |piece| file.write(piece)))
    }
}

impl LogWriter for Writer {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        if let Some(next) = self.mark.take() {
            self.frame(&batch::durable_mark(next))?;
        }
        self.frame(record)
    }

    fn mark_durable(&mut self, next: SeqNo) -> Result<()> {
        if !self.file.promises() {
            return Ok(());
        }
        if self.file.store.setup.direct_io {
            self.mark = Some(next);
            return Ok(());
        }
        let clean = self.file.is_synced();
        self.frame(&batch::durable_mark(next))?;
        if clean {
            self.file.count_as_synced();
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn end(&mut self) {
        self.file.end();
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }
}

/// Opens the log `name`. The reader sees only the bytes that the file has at this call. It returns
/// no record that is appended later.
pub(super) fn open(store: &Store, name: &str, kind: LogKind) -> Result<Box<dyn LogReader>> {
    let what = match kind {
        LogKind::Wal => "log",
        LogKind::Manifest => "manifest",
    };
    let file = store.open_file(what, name)?;
    let mut head = vec![0; file.bytes.min(OURS_HEAD_BYTES as u64) as usize];
    file.read_exact_at(&mut head, 0)?;
    // The file may end in a hole (zeros that were never written) of any size. The reader reads only
    // the first bytes of the hole, which are enough to show that the log does not end exactly with
    // its data.
    let data_end = file.data_end()?.saturating_add(BLOCK_BYTES as u64);
    let deframer = RecordDecoder::new(file.bytes.min(data_end)).resuming();
    Ok(Box::new(Reader { ours: is_ours(&head), deframer, file }))
}

struct Reader {
    file: Input,
    deframer: RecordDecoder,
    ours: bool,
}

impl LogReader for Reader {
    fn ours(&self) -> bool {
        self.ours
    }

    fn next(&mut self) -> Result<LogEvent> {
        let file = &self.file;
        self.deframer.next(|offset, buf| file.read_growing(buf, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, StorageConfig, backends::files::Files, durability::SyncTracker, placement::OpenMode};
    use std::{sync::atomic::AtomicUsize, thread, time::Duration};
    use terrace_format::Layout;

    /// A file whose first sync takes a while and fails. Later syncs succeed.
    struct ToldOnce {
        inner: Box<dyn WriteFile>,
        syncs: Arc<AtomicUsize>,
    }

    impl WriteFile for ToldOnce {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.inner.append(bytes)
        }

        fn sync(&self) -> io::Result<()> {
            if self.syncs.fetch_add(1, Relaxed) > 0 {
                return self.inner.sync();
            }
            thread::sleep(Duration::from_millis(100));
            Err(io::Error::other("the device failed"))
        }

        fn write_back(&self) -> io::Result<()> {
            self.inner.write_back()
        }
    }

    #[test]
    fn no_sync_succeeds_next_to_one_that_fails() {
        let (fs, tracker) = (Arc::new(Memory::new()), Arc::new(SyncTracker));
        let files = Files::open(fs, OpenMode::Create, tracker, &StorageConfig::default(), Layout::default()).unwrap();
        let syncs = Arc::new(AtomicUsize::new(0));
        let around = |inner| Ok(Box::new(ToldOnce { inner, syncs: syncs.clone() }) as Box<dyn WriteFile>);
        let mut log = LogFile::create(files.store.clone(), "000003.log", LogKind::Wal, around).unwrap();
        log.write(b"a record").unwrap();
        thread::scope(|scope| {
            let first = scope.spawn(|| log.sync());
            while syncs.load(Relaxed) == 0 {
                thread::yield_now();
            }
            assert!(log.sync().is_err(), "what failed was promised");
            assert!(first.join().unwrap().is_err());
        });
    }
}
