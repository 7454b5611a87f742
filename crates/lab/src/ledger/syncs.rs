//! Syncs of this process, counted from outside the engine by ext4's own tracepoints.
//!
//! Not by the tracepoints of the system calls: switching one of those on makes *every* system call of *every* process
//! take the slow way in and out, which costs a small `write` some 40 ns. ext4's are passed by syncs only: other calls cost
//! what they cost without, and a sync a few µs more (`cost_of_being_counted` in `tests/ledger.rs`). So:
//! - `fsync`, `fdatasync` and `msync` of files and directories are seen with their inode, `syncfs` and `sync` as
//!   `filesystem`, without a duration; `sync_file_range` is not seen: it starts writes, and makes nothing durable.
//! - A store elsewhere than on ext4 is not counted. A probe at the start makes sure that events arrive at all.
//!
//! A name is looked up within [`PERIOD`] after its sync; a file that is gone by then is `unknown`.
use super::{
    names::Names,
    own::{self, Registration},
    process,
    tracefs::Instance,
};
use crate::target::SyncCount;
use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{ErrorKind, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Between two looks at the buffer.
const PERIOD: Duration = Duration::from_millis(5);
/// Room for some ten thousand events of each processor in one period.
const BUFFER_KIB: u32 = 1024;
const EVENTS: [&str; 3] = ["ext4_sync_file_enter", "ext4_sync_file_exit", "ext4_sync_fs"];

/// Counts until it is dropped.
pub struct Syncs {
    state: Arc<Mutex<State>>,
    /// `None` only while it is being dropped.
    reader: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Finished syncs by kind since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncReading {
    counts: BTreeMap<String, SyncCount>,
}

/// What the reading thread and [`Syncs::read`] share; each drains the buffer under the lock.
struct State {
    /// Closed before the instance goes: an instance with readers cannot be removed.
    pipe: File,
    instance: Instance,
    /// Text behind the last whole line.
    partial: Vec<u8>,
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
            instance.set(&format!("events/ext4/{event}/filter"), &format!("dev == {}", kernel_device(device)))?;
            instance.set(&format!("events/ext4/{event}/enable"), "1")?;
        }
        let (names, reading) = (Names::new(&dir), SyncReading::default());
        let (partial, open) = (Vec::new(), HashMap::new());
        let mut state = State { pipe: instance.pipe()?, instance, partial, names, open, reading };
        state.probe(&dir)?;
        let state = Arc::new(Mutex::new(state));
        let reader = Some(spawn_reader(Arc::clone(&state)));
        Ok(Syncs { state, reader })
    }

    /// All syncs that ended before now; an error if events were lost, as every figure is wrong then.
    pub fn read(&self) -> Result<SyncReading, String> {
        let mut state = lock(&self.state);
        state.drain().map_err(|error| format!("syncs are not counted from outside: {error}"))?;
        match state.instance.lost() {
            Ok(0) => Ok(state.reading.clone()),
            Ok(lost) => Err(format!("syncs are not counted from outside: {lost} events were lost")),
            Err(error) => Err(format!("syncs are not counted from outside: {error}")),
        }
    }
}

impl Drop for Syncs {
    fn drop(&mut self) {
        if let Some((stop, reader)) = self.reader.take() {
            drop(stop);
            // It has nothing to tell; if it panicked, the counts that it left were still true.
            reader.join().ok();
        }
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

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that keeps the buffer from filling, and looks names up while files still have them.
fn spawn_reader(state: Arc<Mutex<State>>) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let registration = Registration::of_this_thread();
        while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            // An error shows again in the next `read`, which reports it.
            lock(&state).drain().ok();
            registration.iter().for_each(Registration::account);
        }
    });
    (stop, reader)
}

impl State {
    /// One sync of the directory must be seen: process ids differ in containers, and events may be elsewhere.
    fn probe(&mut self, dir: &Path) -> Result<(), String> {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| format!("{}: {error}", dir.display()))?;
        self.drain().map_err(|error| error.to_string())?;
        let seen = std::mem::take(&mut self.reading);
        if seen.counts.get("directory").is_some_and(|count| count.count == 1) {
            return Ok(());
        }
        Err(format!(
            "a probe left no trace; {} is not on ext4, or the kernel knows this process by another id",
            dir.display()
        ))
    }

    fn drain(&mut self) -> std::io::Result<()> {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => self.take_text(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_text(&mut self, text: &[u8]) {
        self.partial.extend_from_slice(text);
        let Some(end) = self.partial.iter().rposition(|&byte| byte == b'\n') else { return };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        for event in String::from_utf8_lossy(&lines).lines().filter_map(parse) {
            self.take_event(&event);
        }
    }

    fn take_event(&mut self, event: &Event) {
        if own::is_own(event.tid) {
            return;
        }
        match event.what {
            What::Enter { inode } => {
                let kind = self.names.kind(inode).unwrap_or("unknown");
                self.open.insert(event.tid, (event.seconds, kind));
            }
            What::Exit => {
                if let Some((began, kind)) = self.open.remove(&event.tid) {
                    self.count(kind, event.seconds - began);
                }
            }
            What::FileSystem => self.count("filesystem", 0.0),
        }
    }

    fn count(&mut self, kind: &str, seconds: f64) {
        let count = self.reading.counts.entry(kind.to_owned()).or_default();
        count.count += 1;
        count.seconds += seconds;
    }
}

/// A device number as the kernel keeps it and filters see it: 20 bits of minor; user space has them spread.
fn kernel_device(device: u64) -> u64 {
    (nix::sys::stat::major(device) << 20) | nix::sys::stat::minor(device)
}

#[derive(Debug, PartialEq)]
struct Event {
    tid: i32,
    seconds: f64,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    Enter {
        inode: u64,
    },
    Exit,
    /// The second of the two that each `syncfs` makes: the one that waits.
    FileSystem,
}

/// Reads `  name of thread-123  [002] .....  5959.076831: ext4_sync_file_enter: dev 7,0 ino 12 parent 2 datasync 1`.
fn parse(line: &str) -> Option<Event> {
    let (head, tail) = line.split_once(": ext4_sync_")?;
    let seconds = head.split_whitespace().next_back()?.parse().ok()?;
    // The name of a thread may hold anything but is first, so what is behind it is sought from the right.
    let tid = head.rsplit_once(" [")?.0.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let (event, fields) = tail.split_once(": ")?;
    let field = |name: &str| {
        let mut words = fields.split_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.parse::<u64>().ok()
    };
    let what = match event {
        "file_enter" => What::Enter { inode: field("ino")? },
        "file_exit" => What::Exit,
        "fs" if field("wait")? == 1 => What::FileSystem,
        _ => return None,
    };
    Some(Event { tid, seconds, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let enter =
            " a b-1 [x-24847   [003] .....  5959.5: ext4_sync_file_enter: dev 254,0 ino 37 parent 5 datasync 0 ";
        assert_eq!(parse(enter), Some(Event { tid: 24847, seconds: 5959.5, what: What::Enter { inode: 37 } }));
        let exit = "            sync-26309   [000] .....  5959.25: ext4_sync_file_exit: dev 254,0 ino 37 ret 0";
        assert_eq!(parse(exit), Some(Event { tid: 26309, seconds: 5959.25, what: What::Exit }));
        let all = |wait| format!("  <...>-9   [000] .....  1.0: ext4_sync_fs: dev 254,0 wait {wait}");
        assert_eq!(parse(&all(0)), None);
        assert_eq!(parse(&all(1)).map(|event| event.what), Some(What::FileSystem));
        assert_eq!(parse("CPU:0 [LOST 12 EVENTS]"), None);
    }

    #[test]
    fn device_numbers_are_the_kernels() {
        assert_eq!(kernel_device(nix::sys::stat::makedev(7, 300)), (7 << 20) | 300);
    }
}
