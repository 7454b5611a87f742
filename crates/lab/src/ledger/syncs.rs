//! Counts the syncs that this process makes. The source is ext4's tracepoints in the kernel, not
//! the engine.
//!
//! The module does not use system call tracepoints. If one of them is enabled, *every* system call
//! of *every* process takes the slow path, which costs a small `write` about 40 ns. Only syncs
//! pass ext4's tracepoints. Other calls cost the same as without tracing, and a sync costs a few
//! µs more (`being_counted_costs_little` in `tests/it/ledger.rs`). This choice has two
//! consequences:
//!
//! - `fsync`, `fdatasync` and `msync` of files and directories are counted with the kind of the
//!   file. `syncfs` and `sync` are counted as `filesystem`, without a duration. `sync_file_range`
//!   is not counted; it starts writes but makes nothing durable.
//! - If the store is not on ext4, its syncs are not counted. The module therefore performs one
//!   sync at the start and verifies that an event arrives.
//!
//! The name of a file is looked up after its sync, within a few milliseconds if the store has few
//! files. The kind of a file that is deleted before the lookup is `unknown`.
use super::{
    names::Names,
    own_threads, process,
    trace::{Counter, Line, Trace},
    tracefs::Instance,
};
use crate::target::SyncCount;
use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Size of the trace buffer per processor in KiB. It has room for about ten thousand events, which
/// may arrive between two reads.
const BUFFER_KIB: u32 = 1024;
const EVENTS: [&str; 3] = ["ext4_sync_file_enter", "ext4_sync_file_exit", "ext4_sync_fs"];

/// Counts the syncs of this process until it is dropped.
pub struct Syncs(Trace<SyncCounter>);

/// The finished syncs since the start: count and duration for each kind of file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncReading {
    counts: BTreeMap<String, SyncCount>,
}

struct SyncCounter {
    names: Names,
    /// Syncs that have started and not ended, by thread. Each has its start time in seconds and the
    /// kind of the file.
    open: HashMap<i32, (f64, &'static str)>,
    reading: SyncReading,
}

impl Syncs {
    /// Starts to count this process's syncs on the file system of `dir`. If they cannot be counted,
    /// the error gives the reason.
    pub fn start(dir: &Path) -> Result<Syncs, String> {
        let dir = fs::canonicalize(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let device = fs::metadata(&dir).map_err(|error| format!("{}: {error}", dir.display()))?.dev();
        let instance = Instance::create(BUFFER_KIB)?;
        // With this option, the kernel also traces the threads that a traced thread starts later.
        instance.set("options/event-fork", "1")?;
        let threads = process::thread_ids().ok_or("/proc is not mounted")?;
        instance.set("set_event_pid", &threads.iter().map(|tid| format!("{tid} ")).collect::<String>())?;
        for event in EVENTS {
            instance.watch("ext4", event, device)?;
        }
        let counter = SyncCounter { names: Names::new(&dir), open: HashMap::new(), reading: SyncReading::default() };
        let syncs = Syncs(Trace::start(instance, counter)?);
        syncs.probe(&dir)?;
        Ok(syncs)
    }

    /// Syncs the directory once and checks that the trace contains this sync. The trace may lack
    /// it, because process ids differ in containers, and the kernel may deliver events to another
    /// tracefs instance.
    fn probe(&self, dir: &Path) -> Result<(), String> {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| format!("{}: {error}", dir.display()))?;
        let seen = self.0.read(|counter| std::mem::take(&mut counter.reading))?;
        if seen.counts.get("directory").is_some_and(|count| count.count == 1) {
            return Ok(());
        }
        Err(format!(
            "a probe was not seen; {} is not on ext4, or this process has another id in the kernel's namespace",
            dir.display()
        ))
    }

    /// Returns, for each kind of file, the count of the syncs that finished before this call.
    /// Returns an error if the kernel lost trace events, because each count may then be wrong.
    pub fn read(&self) -> Result<SyncReading, String> {
        let seen = self.0.read(|counter| counter.reading.clone());
        seen.map_err(|why| format!("syncs are not counted by the kernel: {why}"))
    }
}

impl SyncReading {
    /// Returns the syncs since `earlier`; kinds without syncs are omitted.
    pub fn since(&self, earlier: &SyncReading, notes: &mut Vec<String>) -> BTreeMap<String, SyncCount> {
        let mut delta = BTreeMap::new();
        for (kind, now) in &self.counts {
            let then = earlier.counts.get(kind).copied().unwrap_or_default();
            let count = now.count - then.count;
            if count > 0 {
                let seconds = (now.seconds - then.seconds).max(0.0);
                delta.insert(kind.clone(), SyncCount { count, blocking: count, bytes: None, seconds });
            }
        }
        if delta.contains_key("filesystem") {
            notes.push("the duration of a sync of the whole file system is not observable".into());
        }
        delta
    }
}

impl Counter for SyncCounter {
    fn batch_read(&mut self) {
        self.names.batch_read();
    }

    fn take(&mut self, line: &str) {
        let Some(line) = Line::parse(line).filter(|line| !own_threads::is_own(line.tid)) else { return };
        match line.event {
            "ext4_sync_file_enter" => {
                let kind = line.field("ino").and_then(|inode| self.names.kind(inode)).unwrap_or("unknown");
                self.open.insert(line.tid, (line.seconds, kind));
            }
            "ext4_sync_file_exit" => {
                if let Some((began, kind)) = self.open.remove(&line.tid) {
                    self.count(kind, line.seconds - began);
                }
            }
            // The kernel reports two events for each `syncfs`. Only the second one is counted, in
            // which the kernel waits for the writes.
            "ext4_sync_fs" if line.field("wait") == Some(1) => self.count("filesystem", 0.0),
            _ => {}
        }
    }
}

impl SyncCounter {
    fn count(&mut self, kind: &str, seconds: f64) {
        let count = self.reading.counts.entry(kind.to_owned()).or_default();
        count.count += 1;
        count.seconds += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_counted_when_it_ends_and_a_syncfs_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let inode = fs::metadata(dir.path()).expect("there").ino();
        let (names, open) = (Names::new(dir.path()), HashMap::new());
        let mut counter = SyncCounter { names, open, reading: SyncReading::default() };
        let mut take = |seconds: &str, event: &str| {
            counter.take(&format!("  sync-999999999 [000] .....  {seconds}: ext4_sync_{event}"));
            counter.reading.counts.clone()
        };
        assert!(take("1.0", &format!("file_enter: dev 7,0 ino {inode} parent 2 datasync 1")).is_empty());
        let counts = take("1.5", &format!("file_exit: dev 7,0 ino {inode} ret 0"));
        assert_eq!((counts["directory"].count, counts["directory"].seconds), (1, 0.5));
        assert_eq!(take("2.0", "fs: dev 7,0 wait 0").len(), 1);
        assert_eq!(take("2.0", "fs: dev 7,0 wait 1")["filesystem"].count, 1);
    }
}
