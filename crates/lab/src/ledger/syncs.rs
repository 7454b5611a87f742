//! Syncs of this process, counted from outside the engine by ext4's own tracepoints.
//!
//! Not by the tracepoints of the system calls: switching one of those on makes *every* system call of *every* process
//! take the slow way in and out, which costs a small `write` some 40 ns. ext4's are passed by syncs only: other calls cost
//! what they cost without, and a sync a few µs more (`being_counted_costs_little` in `tests/it/ledger.rs`). So:
//! - `fsync`, `fdatasync` and `msync` of files and directories are seen with their inode, `syncfs` and `sync` as
//!   `filesystem`, without a duration; `sync_file_range` is not seen: it starts writes, and makes nothing durable.
//! - A store elsewhere than on ext4 is not counted. A probe at the start makes sure that events arrive at all.
//!
//! A name is looked up after its sync, within a few milliseconds where the store's files are few; a file that is gone by then is
//! `unknown`.
use super::{
    names::Names,
    own, process,
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

/// Room for some ten thousand events of each processor between two looks.
const BUFFER_KIB: u32 = 1024;
const EVENTS: [&str; 3] = ["ext4_sync_file_enter", "ext4_sync_file_exit", "ext4_sync_fs"];

/// Counts until it is dropped.
pub struct Syncs(Trace<SyncCounter>);

/// Finished syncs by kind since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncReading {
    counts: BTreeMap<String, SyncCount>,
}

struct SyncCounter {
    names: Names,
    /// Syncs that are under way: when they began and their kind, by thread.
    open: HashMap<i32, (f64, &'static str)>,
    reading: SyncReading,
}

impl Syncs {
    /// Begins to count the syncs of this process on the file system of `dir`. The error says why it cannot.
    pub fn start(dir: &Path) -> Result<Syncs, String> {
        let dir = fs::canonicalize(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let device = fs::metadata(&dir).map_err(|error| format!("{}: {error}", dir.display()))?.dev();
        let instance = Instance::create(BUFFER_KIB)?;
        // Threads that these threads start are added by the kernel.
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

    /// One sync of the directory must be seen: process ids differ in containers, and events may be elsewhere.
    fn probe(&self, dir: &Path) -> Result<(), String> {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| format!("{}: {error}", dir.display()))?;
        let seen = self.0.read(|counter| std::mem::take(&mut counter.reading))?;
        if seen.counts.get("directory").is_some_and(|count| count.count == 1) {
            return Ok(());
        }
        Err(format!(
            "a probe left no trace; {} is not on ext4, or the kernel knows this process by another id",
            dir.display()
        ))
    }

    /// All syncs that ended before now; an error if events were lost, as every figure is wrong then.
    pub fn read(&self) -> Result<SyncReading, String> {
        let seen = self.0.read(|counter| counter.reading.clone());
        seen.map_err(|why| format!("syncs are not counted from outside: {why}"))
    }
}

impl SyncReading {
    /// What was added since `earlier`; kinds that had none are left out.
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
            notes.push("how long a sync of the whole file system took is not seen from outside".into());
        }
        delta
    }
}

impl Counter for SyncCounter {
    fn happened(&mut self) {
        self.names.happened();
    }

    fn take(&mut self, line: &str) {
        let Some(line) = Line::parse(line).filter(|line| !own::is_own(line.tid)) else { return };
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
            // The second of the two that each `syncfs` makes: the one that waits.
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
