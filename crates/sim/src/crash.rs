//! The crash model of a directory. A [`CrashFs`] is a directory in memory that records every
//! operation. It can return each crash state (directory contents) that a power cut after any
//! operation may leave.
use crate::{
    Image, Rules,
    history::{FileId, History},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{Arc, OnceLock},
    time::Duration,
};
use terrace_vfs::{
    Capacity, DirEntry, DirectoryLock, FileSystem, FileUse, Folders, Inside, JournalCommit, ReadFile, WalWriteMode,
    WriteFile, inside,
};

/// A directory that records its operations. Clones share the recording.
///
/// Run a workload on the directory and note [`steps`](CrashFs::steps) after each acknowledged
/// write. Then simulate a power cut after any step with any seed. Steps may be examined in any
/// order, during the workload or afterwards.
#[derive(Clone)]
pub struct CrashFs(Arc<CrashFsInner>);

struct CrashFsInner {
    // Everything except the lock file. The mutex is held for one operation at a time.
    history: Mutex<History>,
    // The holders of the lock file. Lock order: this mutex before `history`.
    lock: Mutex<Holders>,
    open_files_max: OnceLock<u64>,
}

/// The holders of the file `LOCK`: one exclusive holder, or any number of shared ones.
#[derive(Default)]
struct Holders {
    exclusive: bool,
    shared: usize,
}

impl CrashFs {
    /// Returns a directory that does not exist yet. Call `make_directory` first.
    pub fn new(rules: Rules) -> CrashFs {
        CrashFs::from_image(&Image { made: false, files: BTreeMap::new() }, rules)
    }

    /// Returns a directory with the contents of `image`, all of them durable.
    pub fn from_image(image: &Image, rules: Rules) -> CrashFs {
        CrashFs(Arc::new(CrashFsInner {
            history: Mutex::new(History::new(image, rules)),
            lock: Mutex::default(),
            open_files_max: OnceLock::new(),
        }))
    }

    /// Sets the reported limit of open files. The limit is not enforced.
    pub fn with_open_files_max(self, most: u64) -> CrashFs {
        self.0.open_files_max.get_or_init(|| most);
        self
    }

    /// Aborts the journal, as after a device error. Operations that are not committed then never
    /// become durable, although the commit counter continues.
    pub fn abort_journal(&self) {
        self.record(History::abort_journal);
    }

    /// Returns the count of recorded operations, which is also the number of the newest step. Every
    /// write that was acknowledged as durable before this call must survive a power cut after this
    /// step.
    pub fn steps(&self) -> usize {
        self.0.history.lock().steps
    }

    /// Returns a crash state: the directory after a power cut right after `step`. `seed` selects
    /// one of the possible states; equal arguments give equal states. Panics if there is no such
    /// step.
    pub fn power_loss(&self, step: usize, seed: u64) -> Image {
        self.at(step, |history| history.power_loss(step, seed))
    }

    /// Returns the directory as it was right after `step`. A killed process leaves this state if no
    /// power cut follows. Panics if there is no such step.
    pub fn state_after(&self, step: usize) -> Image {
        self.at(step, |history| history.state_after(step))
    }

    fn at(&self, step: usize, image: impl FnOnce(&History) -> Image) -> Image {
        let history = self.0.history.lock();
        assert!(step <= history.steps, "step {step} of {}", history.steps);
        image(&history)
    }

    fn record<T>(&self, operation: impl FnOnce(&mut History) -> T) -> T {
        operation(&mut self.0.history.lock())
    }
}

impl FileSystem for CrashFs {
    fn name(&self) -> String {
        "(crash model)".into()
    }

    fn make_directory(&self) -> io::Result<()> {
        self.record(History::make_directory);
        Ok(())
    }

    fn exists(&self) -> io::Result<bool> {
        Ok(self.record(|history| history.made.is_some()))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let id = self.record(|history| history.create(name, false))?;
        Ok(Box::new(Handle { fs: self.clone(), id }))
    }

    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        let id = self.record(|history| history.create(name, file_use == FileUse::Log(WalWriteMode::Map)))?;
        Ok(Box::new(Handle { fs: self.clone(), id }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        let id = self.record(|history| history.find(name))?;
        Ok(Box::new(Handle { fs: self.clone(), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.record(|history| history.rename(from, to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.record(|history| history.link(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.record(|history| history.remove(name))
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        let history = self.0.history.lock();
        if history.made.is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let entry = |(name, id): (Arc<str>, FileId)| DirEntry {
            name: name.to_string(),
            bytes: history.files[id].content.bytes() as u64,
        };
        let top = history.names_at(history.steps).into_iter().filter(|(name, _)| !name.contains('/'));
        Ok(top.map(entry).collect())
    }

    fn folders(&self) -> Option<&dyn Folders> {
        Some(self)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.record(History::sync_directory)
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.record(|history| history.find(name).and_then(|id| history.sync(id)))
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        let mut holders = self.0.lock.lock();
        if holders.exclusive || exclusive && holders.shared > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if exclusive {
            self.record(|history| if history.find("LOCK").is_ok() { Ok(0) } else { history.create("LOCK", false) })?;
            holders.exclusive = true;
        } else {
            holders.shared += 1;
        }
        Ok(Box::new(Held { shared: self.0.clone(), exclusive }))
    }

    fn journal(&self) -> Option<&dyn JournalCommit> {
        Some(self)
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl JournalCommit for CrashFs {
    fn commit(&self) -> io::Result<()> {
        self.record(History::commit)
    }

    fn commit_interval(&self) -> Result<Duration, String> {
        match self.record(|history| history.rules) {
            Rules::Ext4 => Ok(Duration::from_secs(5)),
            Rules::Posix => Err("POSIX has no journal commit".into()),
        }
    }

    fn commit_count(&self) -> io::Result<u64> {
        Ok(self.record(History::counted))
    }

    fn join_transaction(&self) -> io::Result<()> {
        self.record(|history| history.check_journal())
    }

    fn can_tell_transactions(&self) -> Result<(), String> {
        self.commit_interval().map(drop)
    }

    fn transaction_of(&self, _: &dyn WriteFile) -> io::Result<u32> {
        self.record(|history| history.check_journal().map(|()| history.running()))
    }

    fn committed_transaction(&self) -> io::Result<u32> {
        self.record(|history| {
            let counted = history.counted() as u32;
            history.check_journal().map(|()| counted)
        })
    }
}

impl Capacity for CrashFs {
    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        self.record(|history| history.punch(name, range))
    }

    fn open_files_max(&self) -> Option<u64> {
        self.0.open_files_max.get().copied()
    }
}

impl Folders for CrashFs {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.record(|history| history.create(&format!("{name}/"), false)).map(drop)
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.record(|history| history.remove_folder(&format!("{name}/")))
    }

    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>> {
        self.record(|history| {
            let folder = format!("{name}/");
            history.find(&folder)?;
            let names = history.names_at(history.steps);
            Ok(inside(names.keys().map(|name| &**name), &folder))
        })
    }

    fn link_into(&self, from: &str, to: &str) -> io::Result<()> {
        self.record(|history| history.link(from, to))
    }

    /// Syncs only the named folders and the files in them, because the interface guarantees no more
    /// for `sync_folders`. The rest of the file system stays unsynced.
    fn sync_folders(&self, names: &[String]) -> io::Result<()> {
        self.record(|history| names.iter().try_for_each(|name| history.sync_folder(&format!("{name}/"))))
    }

    fn name_bytes_max(&self) -> io::Result<usize> {
        Ok(255)
    }
}

/// An open file. It stays valid when its names change.
struct Handle {
    fs: CrashFs,
    id: FileId,
}

impl WriteFile for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.fs.record(|history| history.append(self.id, bytes));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.fs.record(|history| history.sync(self.id))
    }

    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Handle { fs: self.fs.clone(), id: self.id }))
    }

    fn write_back(&self) -> io::Result<()> {
        self.fs.record(|history| history.write_back(self.id));
        Ok(())
    }
}

impl ReadFile for Handle {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let whole = self.fs.record(|history| {
            let file = &history.files[self.id];
            file.punched_at(history.steps, file.content.clone()).read(buf, offset)
        });
        if whole { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.fs.record(|history| history.files[self.id].content.bytes() as u64))
    }
}

/// Releases `LOCK` when dropped.
struct Held {
    shared: Arc<CrashFsInner>,
    exclusive: bool,
}

impl DirectoryLock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        let mut holders = self.shared.lock.lock();
        if self.exclusive {
            holders.exclusive = false;
        } else {
            holders.shared -= 1;
        }
    }
}
