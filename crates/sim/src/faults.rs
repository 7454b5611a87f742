//! Fault injection: a directory in which chosen calls fail on purpose.
//!
//! [`FaultFs`] wraps any other file system and counts every call that could fail on a real disk. A
//! test first runs its workload without faults to count the calls. In each following run one of
//! these calls fails.
use crate::{Rng, pages::Pages};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    sync::Arc,
    thread,
    time::Duration,
};
use terrace_format::Medium;
use terrace_vfs::{
    Capacity, DirEntry, DirectoryLock, FileSystem, FileUse, Folders, JournalCommit, ReadFile, WriteFile, journal_of,
};

mod folders;

/// The kind of a failure, and the calls to which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device returns an error (`EIO`). Applies to all calls; the call has no effect.
    Eio,
    /// The disk is full (`ENOSPC`). Applies to the calls that need space: `make_directory`,
    /// `create`, `append`, `rename`, `link`. All other calls succeed.
    Enospc,
    /// The disk is full, as in [`Fault::Enospc`], but a failing append writes a prefix of its
    /// bytes, which may be empty.
    ShortWrite,
    /// The disk reports only at a sync that it is full. Applies to `sync`, `write_back`,
    /// `sync_file`, `sync_directory` and `commit`.
    EnospcAtSync,
    /// The device returns an error (`EIO`) in the same calls as [`Fault::EnospcAtSync`].
    EioAtSync,
}

/// A plan of failures: which calls fail, and with which fault.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    from: u64,
    until: Until,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Never,
    Once,
    Healed,
}

impl Plan {
    /// Returns a plan without failures, for the run that counts the calls.
    pub fn never() -> Plan {
        Plan { from: 0, until: Until::Never, fault: Fault::Eio }
    }

    /// Returns a plan in which one call fails: call number `call`, counted from 0. If `fault` does
    /// not apply to that call, the first later call to which it applies fails.
    pub fn once(call: u64, fault: Fault) -> Plan {
        Plan { from: call, until: Until::Once, fault }
    }

    /// Returns a plan in which every call from number `call` on fails if `fault` applies to it.
    /// This simulates a disconnected device, or a disk that stays full.
    pub fn from_then_on(call: u64, fault: Fault) -> Plan {
        Plan { from: call, until: Until::Healed, fault }
    }
}

/// A directory with injected faults. Clones share the directory and its plan.
#[derive(Clone)]
pub struct FaultFs {
    inner: Arc<dyn FileSystem>,
    // No I/O happens while this lock is held.
    counter: Arc<Mutex<Counter>>,
}

struct Counter {
    plan: Plan,
    calls: u64,
    failed: u64,
    expected: u64,
    /// Additional latency of reads.
    delay: Duration,
    /// Page states of the files that were created through this wrapper.
    files: BTreeMap<String, Pages>,
    /// Folders that changed after the last sync that covered them.
    unsynced: BTreeSet<String>,
    /// Folders that were unsynced when a sync of folders failed. Their data are lost: the kernel
    /// reports a writeback error once and then drops the pages.
    lost: BTreeSet<String>,
}

/// The resource that a call needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Device,
    Space,
    Sync,
}

impl FaultFs {
    /// Wraps `inner` and injects faults according to `plan`.
    pub fn new(inner: Arc<dyn FileSystem>, plan: Plan) -> FaultFs {
        FaultFs {
            inner,
            counter: Arc::new(Mutex::new(Counter {
                plan,
                calls: 0,
                failed: 0,
                expected: 0,
                delay: Duration::ZERO,
                files: BTreeMap::new(),
                unsynced: BTreeSet::new(),
                lost: BTreeSet::new(),
            })),
        }
    }

    /// Returns the count of calls so far, including failed ones. Calls are numbered from 0, so this
    /// is also the number of the next call.
    pub fn calls(&self) -> u64 {
        self.counter.lock().calls
    }

    /// Returns the number of calls that failed because of the plan.
    pub fn failed(&self) -> u64 {
        self.counter.lock().failed
    }

    /// Adds `delay` to each read from now on.
    pub fn delay_reads(&self, delay: Duration) {
        self.counter.lock().delay = delay;
    }

    /// Returns the number of read-ahead hints so far. Hints are not counted as calls and never
    /// fail.
    pub fn expected(&self) -> u64 {
        self.counter.lock().expected
    }

    /// Returns whether the next call to which the fault applies will fail.
    pub fn is_armed(&self) -> bool {
        let counter = self.counter.lock();
        counter.plan.until != Until::Never && counter.calls >= counter.plan.from
    }

    /// Replaces the plan. The call numbers continue.
    pub fn arm(&self, plan: Plan) {
        self.counter.lock().plan = plan;
    }

    /// Stops injecting faults. The data of a failed sync stay lost, and later syncs do not report
    /// the loss.
    pub fn heal(&self) {
        self.arm(Plan::never());
    }

    /// Runs `work` without faults.
    pub fn without_faults<T>(&self, work: impl FnOnce() -> T) -> T {
        let plan = std::mem::replace(&mut self.counter.lock().plan, Plan::never());
        let done = work();
        self.arm(plan);
        done
    }

    /// Wraps the writer of the new file `name`.
    fn writer(&self, name: &str, inner: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        let pages = Pages::default();
        self.counter.lock().files.insert(name.into(), pages.clone());
        Box::new(Writer { fs: self.clone(), inner, pages })
    }

    /// Returns the page state of file `name`. The model treats all bytes of a file that was created
    /// without this wrapper as safe.
    fn pages(&self, name: &str) -> Pages {
        self.counter.lock().files.get(name).cloned().unwrap_or_default()
    }

    /// Counts a sync call and executes it with `save`. If an earlier failed sync has lost data of
    /// the file, the kernel has nothing to write; the call then succeeds without `save`.
    fn sync_pages(&self, pages: &Pages, save: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.call(Needs::Sync).inspect_err(|_| pages.lose())?;
        if pages.lost_any() {
            return Ok(());
        }
        // The sync covers the bytes that were appended before it started, and no bytes that are
        // appended while it runs.
        let bytes = pages.bytes();
        save().inspect(|()| pages.synced(bytes))
    }

    /// Counts a call. Returns the injected error if it must fail.
    fn call(&self, needs: Needs) -> io::Result<()> {
        self.next_fault(needs).map_or(Ok(()), |(fault, _)| Err(error(fault)))
    }

    /// Counts a call. Returns the fault and the number of the call if it must fail.
    fn next_fault(&self, needs: Needs) -> Option<(Fault, u64)> {
        let mut counter = self.counter.lock();
        let (plan, call) = (counter.plan, counter.calls);
        counter.calls += 1;
        let due = plan.until != Until::Never && call >= plan.from;
        let hit = match plan.fault {
            Fault::Eio => true,
            Fault::Enospc | Fault::ShortWrite => needs == Needs::Space,
            Fault::EnospcAtSync | Fault::EioAtSync => needs == Needs::Sync,
        };
        if !due || !hit {
            return None;
        }
        counter.failed += 1;
        if plan.until == Until::Once {
            counter.plan = Plan::never();
        }
        Some((plan.fault, call))
    }
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::Eio | Fault::EioAtSync => io::Error::other("injected input/output error"),
        Fault::Enospc | Fault::ShortWrite | Fault::EnospcAtSync => {
            io::Error::new(io::ErrorKind::StorageFull, "injected full disk")
        }
    }
}

impl FileSystem for FaultFs {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn make_directory(&self) -> io::Result<()> {
        self.call(Needs::Space)?;
        self.inner.make_directory()
    }

    fn exists(&self) -> io::Result<bool> {
        self.call(Needs::Device)?;
        self.inner.exists()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.call(Needs::Space)?;
        Ok(self.writer(name, self.inner.create(name)?))
    }

    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        self.call(Needs::Space)?;
        Ok(self.writer(name, self.inner.create_for(name, file_use)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        self.call(Needs::Device)?;
        Ok(Box::new(Reader { fs: self.clone(), inner: self.inner.open(name)?, pages: self.pages(name) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Needs::Space)?;
        self.inner.rename(from, to)?;
        let mut counter = self.counter.lock();
        let moved = counter.files.remove(from).unwrap_or_default();
        counter.files.insert(to.into(), moved);
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Needs::Space)?;
        self.inner.link(from, to)?;
        let pages = self.pages(from);
        self.counter.lock().files.insert(to.into(), pages);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(Needs::Device)?;
        self.inner.remove(name)?;
        self.counter.lock().files.remove(name);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.call(Needs::Device)?;
        self.inner.list()
    }

    fn folders(&self) -> Option<&dyn Folders> {
        self.inner.folders().map(|_| self as &dyn Folders)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.call(Needs::Sync)?;
        self.inner.sync_directory()
    }

    fn medium(&self) -> Medium {
        self.inner.medium()
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.sync_pages(&self.pages(name), || self.inner.sync_file(name))
    }

    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>> {
        self.call(Needs::Device)?;
        self.inner.lock(exclusive)
    }

    fn journal(&self) -> Option<&dyn JournalCommit> {
        self.inner.journal().map(|_| self as &dyn JournalCommit)
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl FaultFs {
    fn inner_journal(&self) -> io::Result<&dyn JournalCommit> {
        self.inner.journal().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl JournalCommit for FaultFs {
    fn commit(&self) -> io::Result<()> {
        self.call(Needs::Sync)?;
        self.inner_journal()?.commit()
    }

    fn commit_interval(&self) -> Result<Duration, String> {
        journal_of(&*self.inner)?.commit_interval()
    }

    fn commit_count(&self) -> io::Result<u64> {
        self.call(Needs::Device)?;
        self.inner_journal()?.commit_count()
    }

    fn join_transaction(&self) -> io::Result<()> {
        self.call(Needs::Device)?;
        self.inner_journal()?.join_transaction()
    }

    fn can_tell_transactions(&self) -> Result<(), String> {
        journal_of(&*self.inner)?.can_tell_transactions()
    }

    fn transaction_of(&self, file: &dyn WriteFile) -> io::Result<u32> {
        self.call(Needs::Device)?;
        self.inner_journal()?.transaction_of(file)
    }

    fn committed_transaction(&self) -> io::Result<u32> {
        self.call(Needs::Device)?;
        self.inner_journal()?.committed_transaction()
    }
}

impl Capacity for FaultFs {
    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        self.call(Needs::Device)?;
        self.inner.capacity().map_or(Ok(()), |inner| inner.punch(name, range))
    }
}

struct Writer {
    fs: FaultFs,
    inner: Box<dyn WriteFile>,
    pages: Pages,
}

impl Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.append(bytes)?;
        self.pages.appended(bytes.len());
        Ok(())
    }
}

impl WriteFile for Writer {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some((fault, call)) = self.fs.next_fault(Needs::Space) else { return self.write(bytes) };
        if fault == Fault::ShortWrite && !bytes.is_empty() {
            self.write(&bytes[..Rng::new(call).below(bytes.len())])?;
        }
        Err(error(fault))
    }

    fn sync(&self) -> io::Result<()> {
        self.fs.sync_pages(&self.pages, || self.inner.sync())
    }

    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        let (fs, inner) = (self.fs.clone(), self.inner.second_handle()?);
        Ok(Box::new(Writer { fs, inner, pages: self.pages.clone() }))
    }

    fn write_back(&self) -> io::Result<()> {
        self.fs.sync_pages(&self.pages, || self.inner.write_back())
    }
}

struct Reader {
    fs: FaultFs,
    inner: Box<dyn ReadFile>,
    pages: Pages,
}

impl ReadFile for Reader {
    fn forget_cached(&self) -> io::Result<()> {
        self.fs.call(Needs::Device)?;
        self.pages.forget();
        self.inner.forget_cached()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.fs.call(Needs::Device)?;
        let delay = self.fs.counter.lock().delay;
        thread::sleep(delay);
        self.inner.read_exact_at(buf, offset)?;
        self.pages.show(buf, offset);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        self.fs.call(Needs::Device)?;
        self.inner.bytes()
    }

    fn expect(&self, offset: u64, bytes: u64) {
        self.fs.counter.lock().expected += 1;
        self.inner.expect(offset, bytes);
    }
}
